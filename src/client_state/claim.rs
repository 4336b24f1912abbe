//! What a call asks for, and why it does not get it.

use crate::hold_bounds::HoldBounds;
use fairlock_protocol::entry::Attributes;
use fairlock_protocol::failure::Failure;

/// Why an acquisition ended without the lock.
#[derive(Clone, Debug)]
pub(crate) enum Refused {
    /// The caller's time has ended, or it does not wait and would have to.
    NotGranted,
    /// The client is shut down.
    ShuttingDown,
    /// The caller does not wait, and its requests took all of its time.
    Late,
    /// The caller was granted the lock, and was not polled until it was given back.
    Untaken,
    /// At least as many callers wait before this caller as its limit allows.
    QueueFull {
        waiting: usize,
        limit: usize,
    },
    /// The runtime of the client is gone, and the acquisition with it.
    Gone,
    /// The caller was removed from its batch, because its observer panicked.
    Dropped,
    Failed(Failure),
}

impl Refused {
    pub(crate) fn is_newer_format(&self) -> bool {
        matches!(self, Refused::Failed(failure) if failure.is_newer_format())
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Refused::Failed(failure)
    }
}

/// What a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// How many of the lock's permits.
    pub(crate) permits: u64,
    pub(crate) attributes: Attributes,
    pub(crate) waits: bool,
    /// How long the hold lasts at least and at most.
    pub(crate) bounds: HoldBounds,
}
