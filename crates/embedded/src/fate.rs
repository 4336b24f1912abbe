//! What becomes of a request: on its way there, at the server, and on its way back.

use std::time::Duration;

use crate::answer::Answer;
use crate::faults::{Fault, When};
use crate::gate::Gate;
use crate::request::Request;
use crate::timer::Timer;

/// Faults only ever make a fate worse, so the order in which it suffers them does not matter, gates aside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate {
    timer: Timer,
    there: Way,
    pub(crate) arrival: Arrival,
    /// How long after its arrival the request is applied again.
    pub(crate) again: Option<Duration>,
    back: Way,
    pub(crate) ending: Ending,
    /// By how many seconds the clock of the front end is ahead.
    pub(crate) skew: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Way {
    takes: Duration,
    gate: Option<Gate>,
}

/// What the server does with the request. Each is worse than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arrival {
    #[default]
    Applied,
    Refused(Refusal),
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    Conflict,
    Throttle,
    Code(&'static str),
    ServerError,
}

/// What the client gets. Each is worse than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    #[default]
    Answer,
    CutShort,
    ServerError,
    Closed,
    Broken,
    Silence,
}

impl Fate {
    pub(crate) fn taking(there: Duration, back: Duration, timer: Timer) -> Self {
        let mut fate = Fate {
            timer,
            ..Fate::default()
        };
        fate.there.takes = there;
        fate.back.takes = back;
        fate
    }

    pub(crate) fn suffer(mut self, fault: Fault) -> Self {
        match fault {
            Fault::Delay(when, longer) => {
                let way = self.way(when);
                way.takes = way.takes.saturating_add(longer);
            }
            Fault::Hold(when, gate) => self.way(when).gate = Some(gate),
            Fault::Lose(when) => self.lost(when, Ending::Broken),
            Fault::Close(when) => self.lost(when, Ending::Closed),
            Fault::Hang(when) => self.lost(when, Ending::Silence),
            Fault::ServerError(When::Before) => self.refused(Refusal::ServerError),
            Fault::ServerError(When::After) => self.ends(Ending::ServerError),
            Fault::CutShort => self.ends(Ending::CutShort),
            Fault::Throttle => self.refused(Refusal::Throttle),
            Fault::Conflict => self.refused(Refusal::Conflict),
            Fault::Refuse(code) => self.refused(Refusal::Code(code)),
            Fault::Duplicate { after } => self.again = self.again.max(Some(after)),
            Fault::Skew(seconds) => self.skew = self.skew.saturating_add(seconds),
            Fault::Both(one, other) => self = self.suffer(*one).suffer(*other),
        }
        self
    }

    /// Whether nothing happens to the request at all.
    pub(crate) fn is_plain(&self) -> bool {
        self.there.is_plain()
            && self.back.is_plain()
            && self.again.is_none()
            && self.arrival == Arrival::Applied
            && self.ending == Ending::Answer
            && self.skew == 0
    }

    pub(crate) async fn go(&self) {
        self.there.travel(self.timer, Duration::ZERO).await;
    }

    /// Travels back. The time that the server took is a part of the round trip.
    pub(crate) async fn come_back(&self, served: Duration) {
        self.back.travel(self.timer, served).await;
    }

    fn way(&mut self, when: When) -> &mut Way {
        match when {
            When::Before => &mut self.there,
            When::After => &mut self.back,
        }
    }

    fn lost(&mut self, when: When, ending: Ending) {
        if when == When::Before {
            self.arrives(Arrival::Lost);
        }
        self.ends(ending);
    }

    fn refused(&mut self, refusal: Refusal) {
        self.arrives(Arrival::Refused(refusal));
    }

    fn arrives(&mut self, arrival: Arrival) {
        self.arrival = self.arrival.max(arrival);
    }

    fn ends(&mut self, ending: Ending) {
        self.ending = self.ending.max(ending);
    }
}

impl Way {
    fn is_plain(&self) -> bool {
        self.takes.is_zero() && self.gate.is_none()
    }

    async fn travel(&self, timer: Timer, spent: Duration) {
        timer.pass(self.takes.saturating_sub(spent)).await;
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
    }
}

impl Refusal {
    pub(crate) fn answer(self, request: &Request) -> Answer {
        match self {
            Refusal::Conflict => match request.transaction() {
                Some(items) => Answer::cancelled_by_conflict(items),
                None => Answer::conflict(),
            },
            Refusal::Throttle => Answer::throttled(),
            Refusal::Code(code) => Answer::refused(code),
            Refusal::ServerError => Answer::server_error(),
        }
    }
}
