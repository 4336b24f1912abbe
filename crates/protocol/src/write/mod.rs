//! The writes of the protocol: each is a list of clauses, its condition, and a list of effects.
//!
//! Each clause and each effect has two forms: DynamoDB's expression language, and a function of values. The library sends the first form,
//! and the models run the second. A test sends each write to real engines and compares the two. A write applies if all of its clauses hold
//! of the item. Then all of its effects are made of the item as it was before.

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

/// How a write stamps what it renews or draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dating {
    /// With this date, unless the item has a later one.
    By(ServerTime),
    /// Without a stamp, because the item has a later date than this, which stays.
    UnderLater(ServerTime),
    /// Without a stamp, because no answer has told the time so far.
    None,
}

/// The dates of one client go back by at most this, because a `Date` has whole seconds.
const STAMPS_DIFFER: Duration = Duration::from_secs(2);

/// The newest date that this one may replace.
pub fn newest(date: ServerTime) -> ServerTime {
    ServerTime(date.0.saturating_add(STAMPS_DIFFER))
}
