//! What can be wrong with an item in the table.

/// How many permits a fair lock has, and a lease lock: as many callers may share it at one time.
pub const OF_A_FAIR_LOCK: u64 = 64;

/// What is wrong with an item in the table.
///
/// # Examples
///
/// ```
/// # use fairlock_protocol::problem as fairlock;
/// let problem = fairlock::ItemProblem::NewerFormat { found: 6, known: 5 };
/// assert_eq!(problem.to_string(), "written in format 6, and this version knows formats up to 5: upgrade");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ItemProblem {
    /// A newer version of fairlock uses this lock.
    #[error("written in format {found}, and this version knows formats up to {known}: upgrade")]
    NewerFormat {
        /// The item's format.
        found: u64,
        /// The newest format that this version knows.
        known: u64,
    },
    /// An older version of fairlock wrote this lock, in a form that this version does not use.
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
    /// The item says that this lock has another number of permits than this caller says.
    #[error("{}", another_number(*found, *said))]
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

/// What the lock is, what this caller took it for, and what to do.
fn another_number(found: u64, said: u64) -> String {
    const FAIR: u64 = OF_A_FAIR_LOCK;
    match (found, said) {
        (FAIR, said) => format!(
            "a fair lock or a lease lock, used here as a semaphore of {said} permits: use it as what it is, or choose another name"
        ),
        (found, FAIR) => format!(
            "a semaphore of {found} permits, used here as a fair lock or a lease lock: use it as a semaphore of {found}, or choose \
             another name"
        ),
        // A lock of one permit stays one.
        (1, said) => format!(
            "a semaphore of 1 permit, used here as one of {said}: say 1, or choose another name"
        ),
        (found, said) => format!(
            "a semaphore of {found} permits, used here as one of {said}: say {found} as its other users do, and let `resize` change \
             how many there are, or choose another name"
        ),
    }
}
