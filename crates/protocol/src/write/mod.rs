//! What is written, and on which condition: each write of the protocol as a list of clauses and a list of effects.
//!
//! A clause, and an effect, says what it is twice: in DynamoDB's language, and as a function of values. The library sends the
//! first, the models run the second, and a test sends each write to real engines and compares the two. A write applies if all of
//! its clauses hold of the item, and then all of its effects are made of the item as it was before.

mod clause;
mod effect;
mod entry;
mod expression;
mod lock;
mod row;

use std::time::Duration;

pub use clause::Clause;
pub use effect::Effect;
pub use entry::{EntryClause, EntryEffect};
pub use expression::{Expressions, Values};
pub use lock::{Drawing, Entrance, LockWrite, NewItem, end};
pub use row::{RowChange, RowClause, RowEffect, RowWrite};

use crate::entry::ServerTime;

/// How a write dates what it renews or draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dating {
    /// With this date, unless a later one stands there.
    By(ServerTime),
    /// Not at all, because a later date than this stands there, and stays.
    UnderLater(ServerTime),
    /// Not at all, because no answer told the time so far.
    None,
}

/// Dates of one client go back by no more: a `Date` has whole seconds.
const STAMPS_DIFFER: Duration = Duration::from_secs(2);

/// The newest date that may stand where this one is to be written.
pub fn newest(date: ServerTime) -> ServerTime {
    ServerTime(date.0 + STAMPS_DIFFER)
}
