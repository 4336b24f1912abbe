//! What went wrong, sorted by what the caller must do.

use std::error::Error as StdError;
use std::fmt;
use std::time::{Duration, SystemTime};

use crate::ticket::Ticket;

/// A cause from below: the SDK's own error.
pub(crate) type Source = Box<dyn StdError + Send + Sync>;

/// What went wrong, sorted by what the caller must do.
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else has the lock. Try again later, or wait longer; nothing of this attempt stays in the line.
    #[error("lock `{lock}` was not granted after {waited:.1?}: {}", Held(holder.as_ref(), *place))]
    NotGranted {
        /// The lock.
        lock: String,
        /// Who has it, as far as the last answer showed.
        holder: Option<Holder>,
        /// Since when it has it, by DynamoDB's clock.
        since: Option<SystemTime>,
        /// How many are before this caller, the holder included, those who have the lock together as one; none if it
        /// took no place in line.
        place: Option<usize>,
        /// How long the call waited.
        waited: Duration,
    },

    /// As many wait as [`max_waiters`](crate::FairLock::max_waiters) allows, or more. Turn the work away, or try again
    /// later; nothing of this attempt stays in the line.
    #[error(
        "lock `{lock}` has {waiting} waiting already, and this call waits behind fewer than {limit} only: try again later"
    )]
    LineFull {
        /// The lock.
        lock: String,
        /// How many wait before this caller would, the holder not counted.
        waiting: usize,
        /// How many may wait.
        limit: usize,
    },

    /// The hold ended before it was released. Stop the work it protected, and do not commit what is not fenced.
    #[error("lock `{lock}` was lost before ticket {ticket} was done: {reason}")]
    Lost {
        /// The lock.
        lock: String,
        /// The ticket of the hold that ended.
        ticket: Ticket,
        /// Why it ended.
        reason: Loss,
    },

    /// A value or a combination of values cannot work. Change it; nothing was sent.
    #[error(transparent)]
    Invalid(#[from] Invalid),

    /// An item in the table is not what this version wrote. Upgrade, or repair as `docs/operations.md` says. An item of
    /// a newer format is never written to; a place in line that this call had taken before it met a damaged one is
    /// given up again.
    #[error("item `{item}` in table `{table}`: {problem}")]
    Unreadable {
        /// The table.
        table: String,
        /// The keys of the item.
        item: String,
        /// What is wrong with it.
        problem: Problem,
    },

    /// DynamoDB refuses the request, and would again. Set right what it names: the table, permissions, credentials.
    #[error("table `{table}` refuses `{verb}`: {}", Chain(source.as_ref()))]
    Refused {
        /// The table.
        table: String,
        /// What was asked for.
        verb: &'static str,
        /// DynamoDB's answer, or why the request could not be sent.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// DynamoDB did not answer, or was too busy, for as long as this call may wait. Try again later; what the
    /// attempt may have left in the line is removed in the background, or lapses with its lease.
    #[error("table `{table}` did not answer `{verb}` within {waited:.1?}: {}", Chain(source.as_ref()))]
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

    /// The client was shut down. Build another one.
    #[error("the lock client was shut down: build another")]
    ShutDown,
}

/// Who has a lock, as its entry says.
///
/// # Examples
///
/// ```
/// # fn show(error: fairlock::Error) {
/// if let fairlock::Error::NotGranted { holder: Some(holder), .. } = error {
///     println!("held by {} with ticket {}", holder.owner, holder.ticket);
///     assert!(!holder.is_this_process, "a fair lock is not re-entrant");
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's name for people, by default user@host:pid.
    pub owner: String,
    /// Its ticket.
    pub ticket: Ticket,
    /// Whether a guard in this very process holds it: locks are not re-entrant.
    pub is_this_process: bool,
}

/// Why a hold ended before it was released.
///
/// # Examples
///
/// ```
/// use fairlock::{Loss, Ticket};
///
/// assert_eq!(Loss::Evicted { by: Some(Ticket::new(8)) }.to_string(), "evicted, and ticket 8 has the lock");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The lease ran out with no renewal under way: the process was stopped, or its runtime did not run.
    Expired,
    /// Others saw the lease run out and took the lock away; of a [`Lease`](crate::Lease) also that it was released.
    Evicted {
        /// The ticket that has the lock now, if somebody does.
        by: Option<Ticket>,
    },
    /// The lock item was deleted from the table.
    Deleted,
    /// The lease ran out while renewals failed or got no answer.
    Unreachable,
    /// The runtime in which its client was built is gone, and nothing renews it any more.
    NoRuntime,
    /// [`shutdown`](crate::LockClient::shutdown) was asked to release it.
    ShutDown,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Expired => f.write_str("its lease ran out while this process did not run"),
            Loss::Evicted { by: Some(ticket) } => {
                write!(f, "evicted, and ticket {ticket} has the lock")
            }
            Loss::Evicted { by: None } => f.write_str("evicted"),
            Loss::Deleted => f.write_str("the lock item was deleted"),
            Loss::Unreachable => {
                f.write_str("its lease ran out while renewals got no answer, or were refused")
            }
            Loss::NoRuntime => f.write_str("its client's runtime is gone, and nothing renews it"),
            Loss::ShutDown => f.write_str("the client was shut down with its locks released"),
        }
    }
}

/// Which hold ended before it was released, and why.
///
/// # Examples
///
/// ```
/// use fairlock::{Error, LostLock};
///
/// fn stop(lost: LostLock) -> Result<(), Error> {
///     eprintln!("roll back what ticket {} began: {}", lost.ticket, lost.reason);
///     Err(lost.into())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostLock {
    /// The lock.
    pub lock: String,
    /// The ticket of the hold that ended.
    pub ticket: Ticket,
    /// Why it ended.
    pub reason: Loss,
}

impl From<LostLock> for Error {
    fn from(lost: LostLock) -> Self {
        let LostLock {
            lock,
            ticket,
            reason,
        } = lost;
        Error::Lost {
            lock,
            ticket,
            reason,
        }
    }
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
    #[error("a namespace takes 1 to {limit} bytes without `/`, unlike {namespace:?}")]
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
    #[error("{setting} {value:?} {rule}")]
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
    /// All who may have one of so many permits at a time would not fit into the lock's item, or no renewal of theirs.
    #[error(
        "an owner's name and attributes of {bytes} bytes together are too many at a lock of {permits} permits, for one of which \
         there are {most}"
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

/// What is wrong with an item in the table.
///
/// # Examples
///
/// ```
/// let problem = fairlock::Problem::NewerFormat { found: 3, known: 2 };
/// assert_eq!(problem.to_string(), "written in format 3, and this version knows formats up to 2: upgrade");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A newer version of fairlock uses this lock.
    #[error("written in format {found}, and this version knows formats up to {known}: upgrade")]
    NewerFormat {
        /// The item's format.
        found: u64,
        /// The newest format that this version knows.
        known: u64,
    },
    /// An older version of fairlock wrote this lock, in a form that this one does not use.
    #[error(
        "written in format {found}, and this version knows formats from {known}: when no older client uses the lock any \
         more, delete its items"
    )]
    OlderFormat {
        /// The item's format.
        found: u64,
        /// The oldest format that this version knows.
        known: u64,
    },
    /// Others say that this lock has another number of permits.
    #[error(
        "a lock of {found} permits, and this caller says {said}: all its users must say the same number"
    )]
    Permits {
        /// What the item says.
        found: u64,
        /// What this caller says.
        said: u64,
    },
    /// An attribute is missing.
    #[error("has no `{attribute}`: not written by fairlock, or damaged")]
    Missing {
        /// The attribute.
        attribute: &'static str,
    },
    /// An attribute has another type or range.
    #[error("`{attribute}` is not {expected}: not written by fairlock, or damaged")]
    WrongType {
        /// The attribute.
        attribute: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// The attributes contradict each other.
    #[error("contradicts itself ({rule}): damaged")]
    Inconsistent {
        /// The rule that it breaks.
        rule: &'static str,
    },
}

/// Who stands before a caller that was not granted.
struct Held<'a>(Option<&'a Holder>, Option<usize>);

impl fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(holder) if holder.is_this_process => {
                write!(
                    f,
                    "this very process has it with ticket {}, and locks are not re-entrant",
                    holder.ticket
                )?;
            }
            Some(holder) => write!(f, "{} has it with ticket {}", holder.owner, holder.ticket)?,
            None => f.write_str("others are before this caller")?,
        }
        match self.1 {
            Some(place) => write!(f, ", {place} in line before this caller"),
            None => Ok(()),
        }
    }
}

/// An error and what caused it, in one line. A cause that the one before it ends with is not said again.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn StdError + Send + Sync + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut cause = self.0.source();
        // Ends because no error is among its own causes.
        while let Some(error) = cause {
            let words = error.to_string();
            if !said.ends_with(&words) {
                write!(f, ": {words}")?;
                said = words;
            }
            cause = error.source();
        }
        Ok(())
    }
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
        let told = "table `locks` did not answer `describe the table` within 8.0s: no answer";
        assert_eq!(silent.to_string(), told);
        assert_eq!(silent.source().unwrap().to_string(), "no answer");
    }
}
