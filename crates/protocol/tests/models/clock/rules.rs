//! The rules of a run: how long everything takes, whose clocks are right, and which rule, if any, was changed to see it
//! caught.

use std::time::Duration;

use fairlock_protocol::moment::Moment;
use fairlock_protocol::told::Here;

/// The rules of the server clock with one of them changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// One answer judges: nothing confirms it.
    OneAnswer,
    /// Of two answers the later counts.
    LaterOfTwo,
    NoAllowance,
    /// A `Date` is taken for the moment itself.
    NoGrain,
    /// A connection is used again whose time nothing confirms, and each of its answers counts.
    KeptConnections,
    /// An answer counts as it is, though what confirms it tells an earlier time.
    AsTold,
    /// What is written down is dated by the newest answer, whatever confirms it.
    UnconfirmedStamp,
    /// A renewal is dated by the last answer, however old, whatever confirms it.
    RenewsByTheLast,
    /// What is written down is dated by the earliest that two answers agree on.
    EarliestStamp,
    /// A date counts from the arrival of its answer.
    DatesFromTheArrival,
    /// A hold counts from when its write was applied, not from before its date was taken.
    BelievesFromTheWrite,
    /// A late copy of a renewal writes its date over a later one.
    LateCopiesDate,
    /// What has no date is left without one.
    LeavesUndated,
}

/// How a caller judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judging {
    /// It was refused: by that answer, and by looks of this one decision.
    Refused,
    /// It waits, or sweeps: by its last two looks.
    Looking,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) mutant: Option<Mutant>,
    pub(crate) judging: Judging,
    pub(crate) tick: Duration,
    pub(crate) lease: Duration,
    pub(crate) allowance: Duration,
    /// By how many seconds the wrong front end may be wrong.
    pub(crate) offsets: &'static [i16],
    /// A new connection may lead to the wrong front end although one did before.
    pub(crate) meets_again: bool,
    pub(crate) owner: Host,
    pub(crate) caller: Host,
}

/// The clocks of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// The rate of the clock that it counts by, in percent.
    pub(crate) rate: u8,
    /// Its wall clock is right, or else so far off that it confirms nothing.
    pub(crate) has_wall_clock: bool,
}

/// A front end, by its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FrontEnd {
    Ahead,
    Behind,
    /// By so many seconds.
    Wrong(i16),
}

/// Over which connection a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// That which is kept.
    Kept,
    /// A new one, which leads there.
    New(FrontEnd),
}

/// The time at tick zero.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);
/// Front ends that are right are off by so much at the most.
const SKEW: Duration = Duration::from_secs(1);
/// A little more than that takes a whole second more off a `Date`.
const HAIR: Duration = Duration::from_millis(1);

impl Rules {
    pub(crate) fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The `Date` of an answer: whole seconds.
    pub(crate) fn date(&self, front_end: FrontEnd, tick: u8) -> Duration {
        let now = self.now(tick);
        let shown = match front_end {
            FrontEnd::Ahead => now + SKEW,
            FrontEnd::Behind => now - SKEW - HAIR,
            FrontEnd::Wrong(by) if by < 0 => now - Duration::from_secs(by.unsigned_abs().into()),
            FrontEnd::Wrong(by) => now + Duration::from_secs(by.unsigned_abs().into()),
        };
        Duration::from_secs(shown.as_secs())
    }

    pub(crate) fn moment(&self, host: Host, tick: u8) -> Moment {
        Moment(self.tick * u32::from(tick) * u32::from(host.rate) / 100)
    }

    pub(crate) fn here(&self, host: Host, tick: u8) -> Here {
        Here {
            now: self.moment(host, tick),
            unix: match host.has_wall_clock {
                true => self.now(tick),
                false => Duration::ZERO,
            },
        }
    }

    fn now(&self, tick: u8) -> Duration {
        BEGIN + self.tick * u32::from(tick)
    }
}
