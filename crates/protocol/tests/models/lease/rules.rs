//! The rules of a run: which clock is slow, and which rule, if any, is changed to see that the search catches it.

use std::time::Duration;

use fairlock_protocol::moment::Moment;

/// A tick of true time, on a clock that is right.
const TICK: Duration = Duration::from_millis(100);

/// Two ticks.
pub(crate) const LEASE: Duration = Duration::from_millis(200);
pub(crate) const LEASE_TICKS: u8 = 2;
/// The lease of a place far back: three ticks.
pub(crate) const LONG_LEASE: Duration = Duration::from_millis(300);

/// The rules of leases with one of them changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    LeaseFromTheLastLook,
    LeaseFromTheAnswer,
    /// Renewals of the row count for the slot, though the slot shows an older beat.
    LeaseFromTheNewestRenewal,
    /// A retry begins the lease again, though its first copy may have been the one that applied.
    LeaseFromTheRetry,
    LeaseLongerThanWritten,
    /// The longest lease counts, though the slot shows another.
    LongestLease,
    /// The lease that the slot shows counts even after the owner asked for a shorter one, of which no answer has come.
    LeaseAsShown,
    NoMargin,
    /// A renewal adds one to the beat that is there, so that two renewals may make the same beat.
    BeatsCountedInTheTable,
    /// A late copy of a renewal brings its beat back.
    BeatsGoBack,
    WatchFromTheSending,
    WatchIgnoresBeats,
    EvictWithoutBeat,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) mutant: Option<Mutant>,
    /// The rate of the owner's clock, in percent of the observer's.
    pub(crate) rate: u8,
}

impl Rules {
    pub(crate) fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(crate) fn by_owner(&self, tick: u8) -> Moment {
        Moment(TICK * u32::from(tick) * u32::from(self.rate) / 100)
    }

    pub(crate) fn by_observer(&self, tick: u8) -> Moment {
        Moment(TICK * u32::from(tick))
    }
}
