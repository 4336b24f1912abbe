//! Why an item was not changed, or may not have been.

use crate::vocabulary::error::{Error, Invalid};
use fairlock_protocol::ticket::Ticket;

use super::revision::Version;

/// Why [`update`](crate::VersionedTable::update) did not change an item, by what the caller must do. `E` is the error of the
/// caller's own closure.
///
/// # Examples
///
/// ```
/// use fairlock::UpdateError;
///
/// fn told<E: std::fmt::Display>(error: &UpdateError<E>) -> String {
///     match error {
///         UpdateError::Caller(own) => own.to_string(),
///         UpdateError::Conflict { attempts, .. } => format!("too busy, after {attempts} attempts"),
///         UpdateError::OutcomeUnknown { .. } => "look before you do it again".to_owned(),
///         other => other.to_string(),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError<E> {
    /// The closure's own error, unchanged. Nothing of this call was written.
    #[error(transparent)]
    Caller(E),

    /// Other writers changed the item between each read and its write. Nothing of this call was written: try again later, or take
    /// a lock first where this happens often.
    #[error(
        "item `{key}` of table `{table}` was changed by others, after {attempts} attempts: the last expected {expected} and found {found}"
    )]
    Conflict {
        /// The table.
        table: String,
        /// The item's key.
        key: String,
        /// The version that the last attempt had read.
        expected: Version,
        /// The version that stood there when it wrote.
        found: Version,
        /// How often the item was read and the closure called.
        attempts: usize,
    },

    /// The item remembers a newer fencing token. Nothing of this call was written: the lock was lost, so stop.
    #[error("item `{key}` of table `{table}` remembers token {newest}, and refuses {ticket}")]
    Stale {
        /// The table.
        table: String,
        /// The item's key.
        key: String,
        /// The fence's own token.
        ticket: Ticket,
        /// The token that the item remembers.
        newest: Ticket,
    },

    /// The answer to the write was lost, and nothing tells whether it was applied. Read the item before you repeat the change: it
    /// may have been made, and others may have used it up and deleted the item since.
    #[error(
        "no answer to a write of item `{key}` in table `{table}` on {expected}: it may have been applied"
    )]
    OutcomeUnknown {
        /// The table.
        table: String,
        /// The item's key.
        key: String,
        /// The version that the write was conditional on.
        expected: Version,
        /// The version that stands there now. `None` if that is not known either, and the write may still be on its way.
        found: Option<Version>,
        /// The last failure, if a failure ended the attempts.
        source: Option<Box<Error>>,
    },

    /// The version attribute is no number that can be counted up, or the attribute for the ids of writes holds something else.
    /// Name another attribute, or mend the item. Nothing of this call was written.
    #[error("`{attribute}` of item `{key}` in table `{table}` is not of a version: {value}")]
    NotAVersion {
        /// The table.
        table: String,
        /// The item's key.
        key: String,
        /// The attribute.
        attribute: String,
        /// Its value.
        value: String,
    },

    /// The attribute of the fence holds something else than a token, which no token replaces. Name another attribute, or mend the
    /// item. Nothing of this call was written.
    #[error("`{attribute}` of item `{key}` in table `{table}` is no fencing token: {value}")]
    NotAToken {
        /// The table.
        table: String,
        /// The item's key.
        key: String,
        /// The attribute.
        attribute: String,
        /// Its value.
        value: String,
    },

    /// The request itself failed: [`Error::Invalid`], [`Error::Refused`] or [`Error::Unavailable`]. Nothing of this call was
    /// written.
    #[error(transparent)]
    Table(#[from] Error),
}

impl<E> From<Invalid> for UpdateError<E> {
    fn from(invalid: Invalid) -> Self {
        UpdateError::Table(invalid.into())
    }
}
