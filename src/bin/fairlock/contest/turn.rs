//! One turn with the lock: a line of the output.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// All times in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) worker: u32,
    pub(crate) cycle: u32,
    pub(crate) ticket: u64,
    pub(crate) requested_ns: u64,
    pub(crate) acquired_ns: u64,
    /// Before the release was asked for: the end of what the lock protects.
    pub(crate) releasing_ns: u64,
    pub(crate) released_ns: u64,
}

impl Turn {
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.acquired_ns.saturating_sub(self.requested_ns))
    }

    /// From the end of this turn to the start of the next; none if they overlap.
    pub(crate) fn handed_over_in(&self, next: &Turn) -> Duration {
        Duration::from_nanos(next.acquired_ns.saturating_sub(self.releasing_ns))
    }
}
