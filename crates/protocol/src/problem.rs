//! What can be wrong with an item in the table.

/// What is wrong with an item in the table.
///
/// # Examples
///
/// ```
/// # use fairlock_protocol::problem as fairlock;
/// let problem = fairlock::ItemProblem::NewerFormat { found: 5, known: 4 };
/// assert_eq!(problem.to_string(), "written in format 5, and this version knows formats up to 4: upgrade");
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
