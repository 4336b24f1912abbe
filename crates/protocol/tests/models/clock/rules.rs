//! The rules of a run: how long everything takes, which clocks are right, and which rule, if any, is changed to see that the search catches
//! it.

use std::time::Duration;

use fairlock_protocol::date_history::Here;
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::moment::Moment;

/// The rules of the server clock with one of them changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A single answer judges: nothing confirms it.
    OneAnswer,
    /// The later of two answers counts.
    LaterOfTwo,
    NoAllowance,
    /// A `Date` is taken for the moment itself.
    NoGrain,
    /// A connection is used again though nothing confirms its time, and each of its answers counts.
    KeptConnections,
    /// An answer counts as it is, though what confirms it tells an earlier time.
    AsTold,
    /// A client stamps by the newest answer, whatever confirms it.
    UnconfirmedStamp,
    /// A client stamps a renewal by the last answer, however old, whatever confirms it.
    RenewsByTheLast,
    /// A client stamps by the earliest time on which two answers agree.
    EarliestStamp,
    /// A date counts from the arrival of its answer.
    DatesFromTheArrival,
    /// A hold counts from when its write was applied, not from before its date was taken.
    BelievesFromTheWrite,
    /// A late copy of a renewal writes its date over a later one.
    LateCopiesDate,
    /// A lease counts from when its write was sent, not from the date that stands there.
    LeaseFromTheWrite,
    /// A caller leaves what has no date without one.
    LeavesUndated,
}

/// How a caller judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judging {
    /// It was refused, and judges by that answer and by polls of this one decision.
    Refused,
    /// It waits, or sweeps, and judges by its last two polls.
    Polling,
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
    /// Whether a new connection may lead to the wrong front end although an earlier one did.
    pub(crate) meets_again: bool,
    pub(crate) owner: Host,
    pub(crate) caller: Host,
}

/// The clocks of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// The rate of the clock that it counts by, in percent.
    pub(crate) rate: u8,
    /// Whether its wall clock is right. Otherwise it is so far off that it confirms nothing.
    pub(crate) has_wall_clock: bool,
}

/// A front end, by its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FrontEnd {
    Ahead,
    Behind,
    /// Wrong by this many seconds.
    Wrong(i16),
}

/// Over which connection a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// The connection that is kept.
    Kept,
    /// A new connection, which leads to this front end.
    New(FrontEnd),
}

/// The time at tick zero.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);
/// Front ends that are right are off by at most this.
const SKEW: Duration = Duration::from_secs(1);
/// A little more than the skew takes a whole second more off a `Date`.
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

    /// What a front end shows that is right.
    pub(crate) fn server_time(&self, tick: u8) -> ServerTime {
        ServerTime(self.now(tick))
    }

    fn now(&self, tick: u8) -> Duration {
        BEGIN + self.tick * u32::from(tick)
    }
}
