//! What went wrong, sorted by what the caller must do.

mod loss;
mod shown;

use std::error::Error as StdError;
use std::fmt;
use std::time::{Duration, SystemTime};

pub use fairlock_protocol::problem::ItemProblem;
use fairlock_protocol::ticket::Ticket;

pub use loss::{LockLost, LossReason};
pub(crate) use shown::Chain;
use shown::Said;

/// A cause from below: the SDK's own error.
pub(crate) type Source = Box<dyn StdError + Send + Sync>;

/// What went wrong, sorted by what the caller must do.
///
/// An error displays all that is known of it in one queue, its causes included. So it has no
/// [`source`](std::error::Error::source) to be told once more; programs find the cause in the fields. Its `Debug` is the same queue behind
/// the name of the variant: a `main` that returns the error prints that, and neither headers nor bodies of requests and answers.
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
    /// Another caller has the lock, or this call was not polled when it was granted. Try again later, or wait longer. The queue is
    /// left, unless that takes longer than one request time-out: then it goes on in the background.
    NotGranted {
        /// The lock.
        lock: String,
        /// Who has it, as far as the last answer showed.
        holder: Option<Holder>,
        /// Since when it has it, by DynamoDB's clock.
        since: Option<SystemTime>,
        /// How many are before this caller, the holder included, those who have the lock together as one; none if it
        /// took no place in the queue.
        position: Option<usize>,
        /// Whether the lock was granted and given back, because the call was not polled for two request time-outs after the
        /// grant.
        untaken: bool,
        /// How long the call waited.
        waited: Duration,
    },

    /// As many wait as [`max_waiters`](crate::FairLock::max_waiters) allows, or more. Turn the work away, or try again
    /// later; nothing of this attempt stays in the queue.
    QueueFull {
        /// The lock.
        lock: String,
        /// How many wait before this caller would, the holder not counted.
        waiting: usize,
        /// How many may wait.
        limit: usize,
    },

    /// The hold ended before it was released. Stop the work it protected, and do not commit what is not fenced.
    Lost {
        /// The lock.
        lock: String,
        /// The ticket of the hold that ended.
        ticket: Ticket,
        /// Why it ended.
        reason: LossReason,
    },

    /// A value or a combination of values cannot work. Change it; nothing was sent.
    Invalid(Invalid),

    /// An item in the table is not what this version wrote. Upgrade, or repair as `docs/operations.md` says. An item of
    /// a newer format is never written to; a place in the queue that this call had taken before it met a damaged one is
    /// given up again.
    InvalidItem {
        /// The table.
        table: String,
        /// The keys of the item.
        item: String,
        /// What is wrong with it.
        problem: ItemProblem,
    },

    /// DynamoDB refuses the request, and would again. Set right what it names: the table, permissions, credentials.
    Refused {
        /// The table.
        table: String,
        /// What was asked for.
        verb: &'static str,
        /// DynamoDB's answer, or why the request could not be sent.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// DynamoDB did not answer, or was too busy, for as long as this call may wait. Try again later; what the
    /// attempt may have left in the queue is removed in the background, or lapses with its lease.
    Unavailable {
        /// The table.
        table: String,
        /// What was asked for.
        verb: &'static str,
        /// How long the call tried.
        waited: Duration,
        /// The last failure.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The client has ended. Build another one, unless it ended with the program.
    ShutDown(Closed),
}

/// How a client came to its end, or one call of it.
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
    /// [`shutdown`](crate::LockClient::shutdown) was called.
    ShutDown,
    /// The runtime in which it was built is gone, and the background work of the client with it; or that runtime has no timers, which
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

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Error::Invalid(invalid)
    }
}

/// Who has a lock, as its entry says.
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
    /// The owner's name for people.
    pub owner: String,
    /// Its ticket. Of callers of one client who have their turns one after the other at one place, the first of those tickets
    /// that are left there as far as the table shows.
    pub ticket: Ticket,
    /// Whether a guard of this process holds it: one in another task, or one that this very caller has, for locks are not re-entrant.
    pub is_this_process: bool,
    /// Whether it leaves permits to others: a reader does, and a caller that has some of a semaphore's permits.
    pub is_shared: bool,
}

/// A value or a combination of values that cannot work.
///
/// # Examples
///
/// ```
/// let error = fairlock::Error::from(fairlock::Invalid::ZeroTimeout);
/// assert!(error.to_string().contains("RecordWait::NoWait"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// The lock's name is empty or too long for a partition key.
    #[error("a lock's name takes 1 to {limit} bytes, and this one has {bytes}")]
    LockName {
        /// Its length.
        bytes: usize,
        /// DynamoDB's limit.
        limit: usize,
    },
    /// The namespace is empty, too long, or contains `/`.
    #[error(
        "a namespace takes 1 to {limit} bytes without `/`, unlike {}",
        Said(namespace)
    )]
    Namespace {
        /// The namespace.
        namespace: String,
        /// Its limit in bytes.
        limit: usize,
    },
    /// Several locks at once are at least one.
    #[error("several locks at once take one name or more, and none was given")]
    NoNames,
    /// A wait of zero says neither that nor for how long to wait.
    #[error("RecordWait::Timeout(0) never waits: say RecordWait::NoWait")]
    ZeroTimeout,
    /// Nobody may wait, which says neither that nor to have the lock at once.
    #[error("max_waiters(0) never waits: say RecordWait::NoWait")]
    ZeroWaiters,
    /// A text setting is empty, too long, or not usable.
    #[error("{setting} {} {rule}", Said(value))]
    Text {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// One duration must not be below another.
    #[error("{setting} is {value:?} and must be at least {bound_value:?}: {bound}")]
    TooShort {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: Duration,
        /// Where the bound comes from.
        bound: &'static str,
        /// The bound.
        bound_value: Duration,
    },
    /// One duration must not be above another.
    #[error("{setting} is {value:?} and must be at most {bound_value:?}: {bound}")]
    TooLong {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: Duration,
        /// Where the bound comes from.
        bound: &'static str,
        /// The bound.
        bound_value: Duration,
    },
    /// A number is out of its range.
    #[error("{setting} is {value} and must be {least} to {most}")]
    Range {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: usize,
        /// The least it may be.
        least: usize,
        /// The most it may be.
        most: usize,
    },
    /// So many permits cannot be had of this lock, or no lock has so many.
    #[error("{said} permits were asked for, where there are 1 to {most}")]
    Permits {
        /// What was asked for.
        said: u64,
        /// The most that can be.
        most: u64,
    },
    /// A lock carries small things only.
    #[error("{bytes} bytes of data are too many for a lock, which carries at most {most}")]
    TooMuchData {
        /// How many there are.
        bytes: usize,
        /// How many there may be.
        most: usize,
    },
    /// A caller says less of itself.
    #[error("{bytes} bytes of attributes are too many, of which a call has at most {most}")]
    TooManyAttributes {
        /// How many there are, names and values.
        bytes: usize,
        /// How many there may be.
        most: usize,
    },
    /// All who may have one of so many permits at a time would not fit into the lock's item, or no renewal of theirs. Bytes are
    /// counted as DynamoDB counts them: attributes cost a byte each besides their names and values, and fourteen together.
    #[error(
        "an owner's name and attributes take {bytes} bytes on the lock's item, and at a lock of {permits} permits they may take \
         {most}: shorten them, or have fewer permits"
    )]
    TooLargeForPermits {
        /// How many there are.
        bytes: usize,
        /// How many there may be.
        most: usize,
        /// How many permits the lock has.
        permits: u64,
    },
    /// Of those who share a lock none writes its data: nothing would keep one from writing over another's.
    #[error("data is written by who has the lock alone, and this hold shares it")]
    SharedData,
    /// The client was built outside a tokio runtime.
    #[error(
        "a lock client must be built inside a tokio runtime, where its background work then runs"
    )]
    NoRuntime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Caused {
        words: &'static str,
        source: Option<Source>,
    }

    /// An error of these words, caused by one of the words that follow.
    fn caused(words: &[&'static str]) -> Option<Source> {
        let (words, causes) = words.split_first()?;
        let source = caused(causes);
        Some(Box::new(Caused { words, source }))
    }

    #[test]
    fn a_cause_is_said_unless_the_one_before_it_ends_with_it() {
        for (words, told) in [
            (&["lost", "broken pipe"][..], "lost: broken pipe"),
            (&["answered", "E: none", "E: none"], "answered: E: none"),
            (&["E: none", "none", "why"], "E: none: why"),
            (&["a", "b", "a"], "a: b: a"),
        ] {
            let source = caused(words).unwrap();
            assert_eq!(Chain(source.as_ref()).to_string(), told);
        }
    }

    #[test]
    fn a_table_that_is_not_there_is_told_with_what_makes_one() {
        let refused = |source: &'static str| {
            let (table, verb) = ("locks".to_owned(), "enter");
            let source = source.into();
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
            source: "denied".into(),
        };
        let told = "table `locks` refuses `describe the table`: denied";
        assert_eq!(refused.to_string(), told);
        let silent = Error::Unavailable {
            table,
            verb,
            waited: Duration::from_secs(8),
            source: "no answer".into(),
        };
        let told = "table `locks` did not serve `describe the table` within 8.0s: no answer";
        assert_eq!(silent.to_string(), told);
        assert!(silent.source().is_none(), "or a report would tell it twice");
    }
}
