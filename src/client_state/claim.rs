//! What a call asks for, and why it does not get it.

use crate::hold_bounds::HoldBounds;
use crate::store::Failure;
use fairlock_protocol::entry::Attributes;

/// Why an acquisition ended without the lock.
#[derive(Debug)]
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
    /// Returns the refusal twice, for two callers.
    pub(crate) fn shared(self) -> (Self, Self) {
        match self {
            Refused::NotGranted => (Refused::NotGranted, Refused::NotGranted),
            Refused::ShuttingDown => (Refused::ShuttingDown, Refused::ShuttingDown),
            Refused::Late => (Refused::Late, Refused::Late),
            Refused::Untaken => (Refused::Untaken, Refused::Untaken),
            Refused::QueueFull { waiting, limit } => {
                let told = || Refused::QueueFull { waiting, limit };
                (told(), told())
            }
            Refused::Gone => (Refused::Gone, Refused::Gone),
            Refused::Dropped => (Refused::Dropped, Refused::Dropped),
            Refused::Failed(failure) => {
                let (one, other) = failure.shared();
                (one.into(), other.into())
            }
        }
    }

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
