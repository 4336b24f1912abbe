//! One turn with the lock: a line of the output.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// All times in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Who had it, counted from one.
    pub worker: u32,
    /// Which of that worker's turns it is.
    pub cycle: u32,
    /// Its fencing token.
    pub ticket: u64,
    /// When the worker asked for the lock.
    pub requested_ns: u64,
    /// When it was granted.
    pub acquired_ns: u64,
    /// Before the release was asked for: the end of what the lock protects.
    pub releasing_ns: u64,
    /// When it was given back.
    pub released_ns: u64,
}

impl Turn {
    /// From asking to the grant.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.acquired_ns.saturating_sub(self.requested_ns))
    }

    /// From the end of this turn to the start of the next; none if they overlap.
    pub fn handed_over_in(&self, next: &Turn) -> Duration {
        Duration::from_nanos(next.acquired_ns.saturating_sub(self.releasing_ns))
    }
}
