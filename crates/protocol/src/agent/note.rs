//! What happens in a lock that nobody waits for: for the log, the metrics, and a shutdown.

use std::sync::Arc;
use std::time::Duration;

use super::{HoldId, Lock, Loss};
use crate::entry::Entry;
use crate::failure::Failure;
use crate::item::LockItem;
use crate::outage::OutageKind;
use crate::ticket::Ticket;

/// What has happened, for the log and the metrics.
#[derive(Clone, Debug)]
pub enum Note {
    /// A place has come into the queue, behind so many turns.
    Joined(Ticket, u64),
    /// A place was passed in the queue, or lost, and its callers ask again.
    Passed(Ticket, Loss),
    /// A place was too slow to join the queue, and draws again.
    TooSlow(Ticket),
    /// A place leaves the queue.
    Leaves(Ticket),
    /// A call has waited for so long.
    StillWaits {
        /// For how long.
        waited: Duration,
        /// How many turns come before its own.
        position: Option<u64>,
        /// Its ticket.
        ticket: Option<Ticket>,
        /// The lock item as it was seen last.
        item: Option<Arc<LockItem>>,
    },
    /// DynamoDB does not serve waiting calls.
    Unserved(OutageKind, Failure),
    /// It does again, after so long.
    Served(OutageKind, Duration),
    /// A failed request is sent again.
    Retried(&'static str),
    /// A lease was over when its place was granted the lock.
    GrantedLate(Ticket),
    /// A hold could not be renewed before its caller was told of it.
    GrantFailed(Ticket, Failure),
    /// A hold was renewed by a request that was sent so long after it was due.
    Renewed(Duration),
    /// A renewal failed, and is tried again: the first one since a renewal was answered.
    RenewalFailed(HoldId, Ticket, Failure),
    /// Permits that a hold gave back could not be freed, which is tried again.
    NotFreed(Ticket, Failure),
    /// A hold was lost at its deadline, and stays for its safety margin.
    KeptForMargin(Ticket),
    /// A hold was given back, and stays for so much of its shortest time.
    KeptOn(Ticket, Duration),
    /// A late request of an attempt that had ended took a place, which is given up.
    CameLate(Ticket),
    /// A dead entry was taken away.
    Evicted(Took, Box<Entry>),
    /// A gap of so many tickets was closed.
    GapClosed(Ticket, u64),
}

/// What a dead entry had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// The lock.
    Hold,
    /// A slot.
    Slot,
    /// A row.
    Row,
}

/// What is done for nobody who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A place is left.
    Leave,
    /// A hold is released.
    Release,
    /// Settled rows are deleted.
    Clean,
    /// Waiters are let in that need not wait any more.
    Admit,
}

/// Work that is not done yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// The lock.
    pub lock: Lock,
    /// The ticket of the place, if it is known.
    pub ticket: Option<Ticket>,
    /// What is to be done.
    pub work: Work,
}
