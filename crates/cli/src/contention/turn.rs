//! A turn with the lock, which is one line of the output.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// All times are in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The worker that held the lock, counted from one.
    pub worker: u32,
    /// The number of this turn among that worker's turns.
    pub cycle: u32,
    /// The turn's fencing token.
    pub ticket: u64,
    /// When the worker asked for the lock.
    pub requested_ns: u64,
    /// When the lock was granted.
    pub acquired_ns: u64,
    /// Just before the release was requested: the end of what the lock protects.
    pub releasing_ns: u64,
    /// When the lock was released.
    pub released_ns: u64,
}

impl Turn {
    /// The time from the request to the grant.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.acquired_ns.saturating_sub(self.requested_ns))
    }

    /// The time from the end of this turn to the start of the next. Returns zero if they overlap.
    pub fn handoff_to(&self, next: &Turn) -> Duration {
        Duration::from_nanos(next.acquired_ns.saturating_sub(self.releasing_ns))
    }
}
