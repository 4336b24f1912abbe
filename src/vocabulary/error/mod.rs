//! What went wrong, sorted by what the caller must do.

mod display;
mod invalid;
mod loss;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairlock_protocol::failure::{Failure, Kind};
pub use fairlock_protocol::problem::ItemProblem;
use fairlock_protocol::ticket::Ticket;

use display::Said;
pub use invalid::Invalid;
pub use loss::{LockLost, LossReason};

/// The cause of an error, such as the SDK's own error.
pub(crate) type Source = Box<dyn StdError + Send + Sync>;

/// What went wrong, sorted by what the caller must do.
///
/// An error displays all that is known of it in one line, its causes included. So it has no [`source`](std::error::Error::source), which a
/// report would print once more; programs find the cause in the fields. Its `Debug` is the same line behind the name of the variant. A
/// `main` that returns the error prints that, and neither headers nor bodies of requests and answers.
///
/// # Examples
///
/// ```
/// use fairlock::Error;
///
/// fn worth_another_try(error: &Error) -> bool {
///     matches!(error, Error::NotGranted { .. } | Error::Unavailable { .. })
/// }
/// ```
#[non_exhaustive]
pub enum Error {
    /// Another caller holds the lock, or this call was not polled when it was granted. Try again later, or wait longer. The call has left
    /// the queue, unless that takes longer than one request time-out. Then leaving goes on in the background.
    NotGranted {
        /// The lock.
        lock: String,
        /// The holder, as far as the last answer showed.
        holder: Option<Box<Holder>>,
        /// Since when it holds the lock, by DynamoDB's clock.
        since: Option<SystemTime>,
        /// How many callers are before this caller, the holder included. Callers that hold the lock together count as one. `None` if the
        /// call took no place in the queue.
        position: Option<usize>,
        /// Whether the lock was granted and given back, because the call was not polled for two request time-outs after the
        /// grant.
        untaken: bool,
        /// How long the call waited.
        waited: Duration,
    },

    /// As many callers wait as [`max_waiters`](crate::FairLock::max_waiters) allows, or more. Turn the work away, or try again later.
    /// Nothing of this attempt stays in the queue.
    QueueFull {
        /// The lock.
        lock: String,
        /// How many callers wait before this caller would, the holder not counted.
        waiting: usize,
        /// How many callers may wait.
        limit: usize,
    },

    /// The hold ended before it was released. Stop the work that it protected, and do not commit what is not fenced.
    Lost {
        /// The lock.
        lock: String,
        /// The ticket of the hold that ended.
        ticket: Ticket,
        /// Why it ended.
        reason: LossReason,
    },

    /// A value or a combination of values cannot work. Change it. As a rule nothing was sent.
    Invalid(Invalid),

    /// An item in the table is not what this version writes. Upgrade, or repair as `docs/repair.md` says. fairlock never writes to an
    /// item of a newer format. If the call had taken a place in the queue before it met a damaged item, it gives the place up again.
    InvalidItem {
        /// The table.
        table: String,
        /// The keys of the item.
        item: String,
        /// What is wrong with it.
        problem: ItemProblem,
    },

    /// DynamoDB refuses the request, and would refuse it again. Correct what the error names: the table, permissions, credentials.
    Refused {
        /// The table.
        table: String,
        /// The operation that was asked for.
        verb: &'static str,
        /// DynamoDB's answer, or why the request could not be sent.
        source: Arc<dyn StdError + Send + Sync>,
    },

    /// DynamoDB did not answer, or was too busy, for as long as this call may wait. Try again later. What the attempt may have left in the
    /// queue is removed in the background, or lapses with its lease.
    Unavailable {
        /// The table.
        table: String,
        /// The operation that was asked for.
        verb: &'static str,
        /// How long the call tried.
        waited: Duration,
        /// The last failure.
        source: Arc<dyn StdError + Send + Sync>,
    },

    /// The client has ended, or this call of it: [`Closed`] says which.
    ShutDown(Closed),
}

/// Why a client has ended, or a call of it.
///
/// # Examples
///
/// ```
/// use fairlock::{Closed, Error};
///
/// fn is_expected(error: &Error) -> bool {
///     matches!(error, Error::ShutDown(Closed::ShutDown))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// [`shutdown`](crate::LockClient::shutdown) was called, or the client's [scope](crate::LockClient::scope) has ended.
    ShutDown,
    /// The runtime in which the client was built is gone, and the client's background work with it. Or that runtime has no timers, which
    /// ends the work by a panic. Build clients in a runtime with `enable_time` that lasts as long as they are used.
    NoRuntime,
    /// The [observer](crate::FairLock::observed) of this call panicked. The client works on.
    ObserverPanicked,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Closed::ShutDown => "the lock client was shut down: build another",
            Closed::NoRuntime => {
                "the runtime in which the lock client was built is gone, or has no timers: build clients in one that lasts, with `enable_time`"
            }
            Closed::ObserverPanicked => "the observer of this call panicked, which ended the call",
        })
    }
}

impl StdError for Error {}

impl Error {
    /// The error of a caller whose request came to this, and that has waited for `waited`.
    pub(crate) fn of(failure: Failure, table: &str, waited: Duration) -> Self {
        let (table, verb) = (table.to_owned(), failure.verb);
        match failure.kind {
            Kind::Busy(source)
            | Kind::Conflict(source)
            | Kind::Unserved(_, source)
            | Kind::Unknown(source) => Error::Unavailable {
                table,
                verb,
                waited,
                source,
            },
            Kind::Refused(_, source) => Error::Refused {
                table,
                verb,
                source,
            },
            Kind::Invalid { item, problem } => Error::InvalidItem {
                table,
                item: item.to_string(),
                problem,
            },
        }
    }
}

impl Error {
    /// The error of a call whose time has run out, though no request of its own failed.
    pub(crate) fn unavailable(
        table: &str,
        verb: &'static str,
        waited: Duration,
        why: &'static str,
    ) -> Self {
        Error::Unavailable {
            table: table.to_owned(),
            verb,
            waited,
            source: fairlock_protocol::failure::cause(why),
        }
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Error::Invalid(invalid)
    }
}

/// The holder of a lock, as its entry shows it.
///
/// # Examples
///
/// ```
/// # fn show(error: fairlock::Error) {
/// if let fairlock::Error::NotGranted { holder: Some(holder), .. } = error {
///     println!("held by {} with ticket {}", holder.owner, holder.ticket);
///     println!("in this very process: {}", holder.is_this_process);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's name, for people.
    pub owner: String,
    /// The holder's ticket. If callers of one client take turns at one place, the first of the tickets that are left there, as far as the
    /// table shows.
    pub ticket: Ticket,
    /// Whether a guard of this process holds the lock, in another task or in the calling one: locks are not re-entrant.
    pub is_this_process: bool,
    /// Whether it leaves permits to other callers. A reader does, and so does a caller that holds some of a semaphore's permits.
    pub is_shared: bool,
    /// The id of its [lease](crate::LeaseLock), if it holds the lock by one. The process that the owner's name names may have ended then.
    pub lease_id: Option<String>,
    /// It has given the lock back, which is kept until then: its [shortest time](crate::FairLock::min_hold) is not over. `None` for all others.
    pub kept_until: Option<SystemTime>,
}

impl Holder {
    /// The owner's name for an error's text, with the id of its lease if it has one.
    fn named(&self) -> String {
        match &self.lease_id {
            Some(id) => format!("lease {} of {}", Said(id), self.owner),
            None => self.owner.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use fairlock_protocol::failure::cause;

    use super::*;

    #[test]
    fn a_table_that_is_not_there_is_told_with_what_makes_one() {
        let refused = |source: &'static str| {
            let (table, verb) = ("locks".to_owned(), "enter");
            let source = cause(source);
            let refused = Error::Refused {
                table,
                verb,
                source,
            };
            refused.to_string()
        };
        let told = refused("ResourceNotFoundException: Requested resource not found");
        for words in [
            "create_table",
            "fairlock table create",
            "Requested resource",
        ] {
            assert!(told.contains(words), "{told}");
        }
        assert!(!refused("AccessDeniedException: no").contains("create"));
    }

    #[test]
    fn a_lost_lock_is_an_error_that_says_the_same_by_itself_and_as_one_of_all() {
        let lost = LockLost {
            lock: "a".into(),
            ticket: Ticket::new(7),
            reason: LossReason::Unreachable {
                cause: "`renew` was refused".into(),
            },
        };
        let told = lost.to_string();
        assert!(told.contains("`a`") && told.contains("ticket 7"), "{told}");
        assert!((&lost as &dyn StdError).source().is_none());
        assert_eq!(Error::from(lost).to_string(), told);
    }

    #[test]
    fn what_was_asked_for_stands_apart_from_the_sentence() {
        let (table, verb) = ("locks".to_owned(), "describe the table");
        let refused = Error::Refused {
            table: table.clone(),
            verb,
            source: cause("denied"),
        };
        let told = "table `locks` refuses `describe the table`: denied";
        assert_eq!(refused.to_string(), told);
        let silent = Error::Unavailable {
            table,
            verb,
            waited: Duration::from_secs(8),
            source: cause("no answer"),
        };
        let told = "table `locks` did not serve `describe the table` within 8.0s: no answer";
        assert_eq!(silent.to_string(), told);
        assert!(silent.source().is_none(), "or a report would tell it twice");
    }
}
