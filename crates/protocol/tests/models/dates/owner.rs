//! The owner of an entry: it hears `Date`s, stamps what it writes, and believes in the newest of its writes that applied.

use std::time::Duration;

use fairlock_protocol::lease::believed;
use fairlock_protocol::moment::ServerTime;
use fairlock_protocol::stamps::{self, LastDate, Wall};

use super::hold::Setup;
use super::rules::Mutant;
use super::table::{Kind, Mark};
use crate::blank::reads;

/// A write under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write {
    pub(crate) mark: Mark,
    pub(crate) began: u8,
    /// Until when, in true time, its owner believes by it. Of what was given back, how long it is to stay.
    pub(crate) until: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) write: Write,
    pub(crate) sent: u8,
    /// What the answer tells, once it is under way, and whether the write was applied.
    pub(crate) served: Option<(ServerTime, bool)>,
}

/// For how many ticks the owner's machine stands still with all of its clocks: its wall clock, too, is behind from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    Never,
    /// Before all that is explored, and after its client was told a `Date`. For none, it only believes by what answers show.
    Before(u8),
    /// At any time.
    Once(u8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// Whether it was decided what its client was told before.
    pub(crate) has_begun: bool,
    pub(crate) last: Option<LastDate>,
    /// What it is about to write, and since when.
    pub(crate) pending: Option<(Kind, u8)>,
    pub(crate) flight: Option<Flight>,
    /// A copy of a request whose answer the owner never hears.
    pub(crate) late: Option<Flight>,
    pub(crate) beats: u8,
    pub(crate) renewals: u8,
    pub(crate) losses: u8,
    /// Whether it has let go of its hold.
    pub(crate) has_let_go: bool,
    /// Since when its machine stood still.
    pub(crate) paused: Option<u8>,
}

impl Owner {
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_none() && self.flight.is_none()
    }

    /// For how many ticks its machine had stood still by this one.
    pub(crate) fn stood(&self, tick: u8, setup: &Setup) -> u8 {
        match (setup.pause, self.paused) {
            (Pause::Once(ticks), Some(since)) => tick.saturating_sub(since).min(ticks),
            _ => 0,
        }
    }

    /// Whether it stands still now.
    pub(crate) fn stands(&self, now: u8, setup: &Setup) -> bool {
        let is_now = |since| matches!(setup.pause, Pause::Once(ticks) if now < since + ticks);
        self.paused.is_some_and(is_now)
    }

    /// Whether it stands still since before now. An answer that is given then is left out: the rest of the pause would be that of a machine
    /// whose wall clock was wrong before, and show nowhere.
    pub(crate) fn is_amid_a_pause(&self, now: u8, setup: &Setup) -> bool {
        self.stands(now, setup) && self.paused < Some(now)
    }

    pub(crate) fn may_pause(&self, setup: &Setup) -> bool {
        matches!(setup.pause, Pause::Once(_)) && self.paused.is_none()
    }

    /// The time by its clocks.
    pub(crate) fn time(&self, tick: u8, setup: &Setup) -> i64 {
        let before = match setup.pause {
            Pause::Before(ticks) => ticks,
            Pause::Never | Pause::Once(_) => 0,
        };
        let stood = i64::from(self.stood(tick, setup) + before);
        setup.rules.time(tick) - stood * setup.rules.tick
    }

    /// A write that is applied now. If its machine has stood still since the belief began, it believes for as much longer. A pause after that
    /// shows nowhere, and is left out: an owner's clock is to go on while it believes.
    pub(crate) fn counted(&self, write: Write, now: u8, setup: &Setup) -> Write {
        let stood = self.stood(now, setup) - self.stood(write.began, setup);
        Write {
            began: write.began + stood,
            until: write.until + i64::from(stood) * setup.rules.tick,
            ..write
        }
    }

    /// Begins to write, with what its client knows by then. Belief counts from here.
    pub(crate) fn begins(&mut self, kind: Kind, now: u8) {
        match kind {
            Kind::Hold => self.renewals -= u8::from(self.beats > 0),
            Kind::GivenBack | Kind::Lease => self.has_let_go = true,
        }
        self.pending = Some((kind, now));
    }

    /// When it takes its stamps, with the tick at which belief begins.
    pub(crate) fn stamps_at(&self, now: u8, setup: &Setup) -> Option<(u8, u8)> {
        let (_, began) = self.pending?;
        Some(match setup.rules.broken(Mutant::BelievesFromTheStamps) {
            true => (began, now),
            false => (now, began),
        })
    }

    /// Stamps what it has begun to write, and sends it.
    pub(crate) fn sends(&mut self, wall: Wall, now: u8, setup: &Setup) {
        let (Some((stamped, began)), Some((kind, _))) =
            (self.stamps_at(now, setup), self.pending.take())
        else {
            return;
        };
        let (rules, lease) = (&setup.rules, setup.lease);
        let time = self.time(stamped, setup);
        let own = rules.own_stamps(self.last, time, wall);
        let moment = rules.moment(time);
        let past = self.last.map(|last| last.past(moment, wall));
        let stamps = match kind {
            Kind::Lease if !rules.broken(Mutant::LeasesFromTheStamps) => past.unwrap_or(own),
            _ => own,
        };
        let lasts = match kind {
            Kind::Lease if !rules.broken(Mutant::ReliesFromTheWrite) => {
                rules.lasts(stamps::relied_on(stamps, believed(lease), own))
            }
            Kind::Lease | Kind::Hold => rules.lasts(believed(lease)),
            Kind::GivenBack => lease.as_millis().try_into().unwrap_or(0),
        };
        let mark = Mark {
            beat: self.beats,
            stamps,
            lease,
            kind,
        };
        self.beats += 1;
        let until = rules.time(began) + lasts;
        let write = Write { mark, began, until };
        let (sent, served) = (now, None);
        self.flight = Some(Flight {
            write,
            sent,
            served,
        });
    }

    /// Takes in the answer to the request under way. Returns a write that was applied, and until when the owner believes by it: for less
    /// time if its stamps turn out to be early.
    pub(crate) fn hears(&mut self, now: u8, setup: &Setup) -> Option<Write> {
        let rules = &setup.rules;
        let flight = self.flight.take()?;
        let (write, (date, was_applied)) = (flight.write, flight.served?);
        let [sent, arrived] = [flight.sent, now].map(|tick| rules.moment(self.time(tick, setup)));
        let heard = LastDate {
            date,
            sent,
            arrived,
        };
        let told = self
            .last
            .map(|last| last.stamps(heard.sent, Wall::IsNoWitness));
        let slack = self.last.map(|last| last.slack(sent)).unwrap_or_default();
        self.last = Some(self.last.map_or(heard, |last| last.or_newer(heard)));
        if let (Some(last), Some(told)) = (&mut self.last, told.and_then(|told| told.server))
            && rules.broken(Mutant::HearsByASlowClock)
        {
            last.date = last.date.max(told);
        }
        let mark = write.mark;
        let read = reads(Some(date.0), Wall::IsNoWitness);
        let early = |slack| stamps::early(mark.stamps, slack, read);
        let is_renewal = mark.beat > 0 && mark.kind == Kind::Hold;
        let early = match rules.mutant {
            Some(Mutant::CountsWhatDisagrees) => early(Duration::MAX),
            Some(Mutant::CarriesExactly) => early(Duration::ZERO),
            Some(Mutant::TrustsItsClocks) => Duration::ZERO,
            Some(Mutant::RenewsByItsClocks) if is_renewal => Duration::ZERO,
            Some(Mutant::ExcusesASecond) => early(slack).saturating_sub(Duration::from_secs(1)),
            _ => early(slack),
        };
        let relied_on = rules.lasts(believed(mark.lease).saturating_sub(early));
        let until = write.until.min(rules.time(write.began) + relied_on);
        was_applied.then_some(Write { until, ..write })
    }

    /// The owner never hears the answer. The request, or a copy of it, may be served at any time, or never.
    pub(crate) fn loses(&mut self) {
        self.losses -= 1;
        self.late = self.late.or(self.flight.take());
    }

    /// Forgets what it never reads again.
    pub(crate) fn forgets(&mut self, may_write: bool) {
        if !may_write && self.pending.is_none() {
            self.last = None;
        }
    }
}
