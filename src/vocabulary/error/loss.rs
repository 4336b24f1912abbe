//! Holds that ended before they were released.

use std::fmt;
use std::time::Duration;

use fairlock_protocol::ticket::Ticket;

use super::{Error, Holder};

const TAKEN_AWAY: &str = "its lease ran out for others, or another process gave it up";

/// Why a hold ended before it was released.
///
/// # Examples
///
/// ```
/// use fairlock::LossReason;
///
/// let nobody = LossReason::Evicted { by: None };
/// assert!(nobody.to_string().ends_with("nobody has the lock now"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease ran out with no renewal under way: the process was stopped, or its runtime did not run.
    Expired,
    /// Other clients saw the lease run out and took the lock away, or another process [gave the hold up](crate::LockClient::give_up). For a
    /// [`Lease`](crate::Lease) whose time has run out, it can also mean that the lease was released: nothing tells the two apart then.
    Evicted {
        /// The holder now, if there is one.
        by: Option<Holder>,
    },
    /// Another client [broke the hold](crate::LockClient::break_hold), though it was alive.
    Broken {
        /// The owner name of that client.
        by: String,
        /// Why it did.
        reason: String,
    },
    /// The lock item was deleted from the table.
    Deleted,
    /// The lease ran out while renewals failed or got no answer.
    Unreachable {
        /// What became of the last renewal that failed, as a text for people.
        cause: String,
    },
    /// The hold has lasted for as long as [`max_hold`](crate::FairLock::max_hold) allows. The client releases the lock.
    MaxHold {
        /// For how long that is.
        limit: Duration,
    },
    /// The runtime in which the hold's client was built is gone, and nothing renews the hold any more.
    NoRuntime,
    /// [`shutdown`](crate::LockClient::shutdown) was asked to release the hold.
    ShutDown,
    /// The [`Lease`](crate::Lease) was released before, by this process or by another process that has its text. Its time has not run out,
    /// so no other caller may have taken the lock from it.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossReason::Expired => f.write_str("its lease ran out while this process did not run"),
            LossReason::Evicted { by: Some(by) } => {
                let (owner, ticket) = (by.named(), by.ticket);
                f.write_str(TAKEN_AWAY)?;
                write!(f, ", and {owner} has the lock now, with ticket {ticket}")
            }
            LossReason::Evicted { by: None } => {
                f.write_str(TAKEN_AWAY)?;
                f.write_str(", and nobody has the lock now")
            }
            LossReason::Broken { by, reason } => write!(f, "{by} broke it: {reason}"),
            LossReason::Deleted => f.write_str("the lock item was deleted"),
            LossReason::Unreachable { cause } => {
                write!(
                    f,
                    "its lease ran out, because it could not be renewed: {cause}"
                )
            }
            LossReason::MaxHold { limit } => {
                write!(f, "it has lasted for {limit:?}, which max_hold allows")
            }
            LossReason::NoRuntime => {
                f.write_str("its client's runtime is gone, and nothing renews it")
            }
            LossReason::ShutDown => {
                f.write_str("the client was shut down, and asked to release it")
            }
            LossReason::Released => f.write_str("it was already released"),
        }
    }
}

/// A hold that ended before it was released, and the reason. An error by itself, and a part of [`Error::Lost`].
///
/// # Examples
///
/// ```
/// use fairlock::{Error, LockLost};
///
/// fn stop(lost: LockLost) -> Result<(), Error> {
///     eprintln!("roll back what ticket {} began: {}", lost.ticket, lost.reason);
///     Err(lost.into())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lock `{lock}` was lost before ticket {ticket} was done: {reason}")]
#[non_exhaustive]
pub struct LockLost {
    /// The lock.
    pub lock: String,
    /// The ticket of the hold that ended.
    pub ticket: Ticket,
    /// Why it ended.
    pub reason: LossReason,
}

impl From<LockLost> for Error {
    fn from(lost: LockLost) -> Self {
        Error::Lost {
            lock: lost.lock,
            ticket: lost.ticket,
            reason: lost.reason,
        }
    }
}
