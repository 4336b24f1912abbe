//! When a request is sent again, and when no more.

use std::time::Duration;

use super::{RequestId, Terms};
use crate::failure::Failure;
use crate::moment::Moment;
use crate::pace::ThrottleBackoff;

/// The first pause, which doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// The longest pause of any request.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// How long a request is sent again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Not after this.
    pub(super) until: Moment,
    /// At most so many times.
    pub(super) tries: Option<u32>,
    /// Also if it is refused: what stands in the table is in the way of others, and a policy may be mended in time.
    pub(super) through_refusals: bool,
    /// The longest pause, before chance at most doubles it.
    pub(super) longest: Duration,
    /// Answers that it is too busy, and denials, are no tries: they show that the table is there.
    pub(super) counts_only_silence: bool,
    /// Where DynamoDB is too busy, it gives way to the requests of the holder for up to this long at a time, and not after that moment.
    pub(super) gives_way: Option<(Duration, Moment)>,
}

impl Policy {
    /// For a caller that does not wait, and began then.
    pub(super) fn at_the_door(began: Moment, terms: &Terms) -> Self {
        Policy {
            until: terms.no_wait_ends(began),
            tries: Some(super::terms::TRIES_AT_ONCE),
            through_refusals: false,
            ..Policy::until(began, terms)
        }
    }

    /// For a caller that waits until then.
    pub(super) fn while_waiting(until: Moment, terms: &Terms) -> Self {
        Policy {
            through_refusals: false,
            ..Policy::until(until, terms)
        }
    }

    /// The same with so many tries.
    pub(super) fn within(self, tries: u32) -> Self {
        Policy {
            tries: Some(tries),
            ..self
        }
    }

    /// The same with so many tries that the table does not answer.
    pub(super) fn within_silent(self, tries: u32) -> Self {
        Policy {
            counts_only_silence: true,
            ..self.within(tries)
        }
    }

    /// For what is given back by then.
    pub(super) fn until(until: Moment, terms: &Terms) -> Self {
        Policy {
            until,
            tries: None,
            through_refusals: true,
            longest: MAX_PAUSE.min(terms.heartbeat / 2),
            counts_only_silence: false,
            gives_way: None,
        }
    }

    /// The same, giving way for up to `longest` at a time until then.
    pub(super) fn giving_way(self, longest: Duration, until: Moment) -> Self {
        Policy {
            gives_way: Some((longest, until)),
            ..self
        }
    }

    /// For a renewal. Renewals are few, and a lease depends on each: their pauses stay short.
    pub(super) fn of_renewals(until: Moment, terms: &Terms) -> Self {
        Policy {
            longest: MAX_PAUSE.min(terms.heartbeat / 20),
            through_refusals: false,
            ..Policy::until(until, terms)
        }
    }

    /// Whether the request may help yet that failed so.
    fn may_help(&self, failure: &Failure) -> bool {
        failure.is_transient() || (self.through_refusals && failure.is_refused())
    }

    fn counts(&self, failure: &Failure) -> bool {
        !self.counts_only_silence || !(failure.is_not_now() || failure.is_denied())
    }
}

/// A request that is sent until it is answered, or its policy ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    policy: Policy,
    state: State,
    failed: u32,
    /// How many of these count as tries.
    counted: u32,
    /// A try before may have been applied, or may be yet.
    pub(super) is_in_doubt: bool,
    /// When the newest try was sent.
    pub(super) sent: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    UnderWay(RequestId),
    Pausing(Moment),
}

impl Sending {
    /// The first try was sent now.
    pub(super) fn new(policy: Policy, request: RequestId, now: Moment) -> Self {
        Sending {
            policy,
            state: State::UnderWay(request),
            failed: 0,
            counted: 0,
            is_in_doubt: false,
            sent: now,
        }
    }

    /// Whether this is the try that is under way.
    pub(super) fn is(&self, request: RequestId) -> bool {
        self.state == State::UnderWay(request)
    }

    /// When the next try is due.
    pub(super) fn due(&self) -> Option<Moment> {
        match self.state {
            State::Pausing(until) => Some(until),
            State::UnderWay(_) => None,
        }
    }

    /// A try was sent now: the first one by this policy, or another.
    pub(super) fn tries(of: &mut Option<Sending>, policy: Policy, request: RequestId, now: Moment) {
        match of {
            Some(sending) => sending.sent(request, now),
            None => *of = Some(Sending::new(policy, request, now)),
        }
    }

    /// Another try was sent now.
    pub(super) fn sent(&mut self, request: RequestId, now: Moment) {
        self.state = State::UnderWay(request);
        self.sent = now;
    }

    /// Whether its policy ends before another try.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.policy.until <= now
    }

    /// Takes in that the try failed that was under way. Its sender may wait out such a failure, though its policy would not. Returns whether
    /// another follows.
    pub(super) fn failed(
        &mut self,
        (failure, waits_out): (&Failure, bool),
        (now, chance): (Moment, f64),
        brake: &mut ThrottleBackoff,
    ) -> bool {
        self.is_in_doubt |= failure.is_ambiguous();
        self.failed = self.failed.saturating_add(1);
        self.counted += u32::from(self.policy.counts(failure));
        let is_left = self.policy.tries.is_none_or(|tries| self.counted < tries);
        let may_help = self.policy.may_help(failure) || waits_out;
        if !is_left || !may_help || self.is_over(now) {
            return false;
        }
        let gives_way = self.policy.gives_way.filter(|_| failure.is_busy());
        let until = match gives_way.filter(|(_, until)| now < *until) {
            Some((longest, until)) => until.min(now + brake.pause(longest, chance, now)),
            None => now + self.pause(chance),
        };
        self.state = State::Pausing(until.min(self.policy.until));
        true
    }

    /// Doubled each time, and by chance up to twice as long.
    fn pause(&self, chance: f64) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << (self.failed - 1).min(10));
        let pause = doubled.min(self.policy.longest);
        pause + pause.mul_f64(chance)
    }
}
