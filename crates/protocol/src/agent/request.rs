//! Requests to the table as values, and what becomes of them.

use std::sync::Arc;

use super::{CallId, HoldId, Lock};
use crate::failure::Failure;
use crate::item::{LockItem, TicketRow};
use crate::moment::Moment;
use crate::stamps::Reading;
use crate::ticket::Ticket;
use crate::write::{LockWrite, RowWrite};

/// A request of a client, until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub u64);

/// A request, which the driver sends once.
#[derive(Clone, Debug)]
pub struct Request {
    /// The lock.
    pub lock: Lock,
    /// For whom it is sent.
    pub of: Of,
    /// What is asked.
    pub what: What,
    /// How many times the request time-out it may take: more for a caller whose requests turned out to be too slow.
    pub patience: u32,
}

/// For whom a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A caller that waits for its answer.
    Call(CallId),
    /// A hold.
    Hold(HoldId),
    /// No caller any more.
    Nobody,
}

/// What a request asks.
#[derive(Clone, Debug)]
pub enum What {
    /// To write the lock item.
    Write {
        /// The write.
        write: LockWrite,
        /// The item that a refusal met is shown, which costs what the item holds.
        shows: bool,
    },
    /// To write the row of a ticket.
    WriteRow(Ticket, RowWrite),
    /// The lock item.
    Read,
    /// The lock item and the first rows, or the rows behind a cursor.
    Query {
        /// Behind this place. `None` begins with the lock item.
        after: Option<Cursor>,
        /// At most so many items.
        limit: usize,
    },
    /// To delete the rows of settled tickets.
    Delete(Vec<Ticket>),
}

impl What {
    /// What failures and metrics call it.
    pub fn verb(&self) -> &'static str {
        match self {
            What::Write { write, .. } => write.verb,
            What::WriteRow(_, write) => write.verb,
            What::Read => "read the lock item",
            What::Query { .. } => "read the queue",
            What::Delete(_) => "delete settled rows",
        }
    }

    /// A write whose refusal shows what it met.
    pub(super) fn shown(write: LockWrite) -> Self {
        What::Write { write, shows: true }
    }
}

/// Where a query goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Cursor {
    /// Behind the row of a ticket.
    Ticket(Ticket),
    /// Behind a sort key, which may be another application's.
    Key(Arc<str>),
}

/// What became of a request.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Reply {
    /// Its answer.
    pub answer: Result<Answer, Failed>,
    /// What the answer told of the time, and the wall clock when it arrived.
    pub reading: Reading,
    /// When it arrived.
    pub arrived: Moment,
}

impl Reply {
    /// The lock item that it shows.
    pub(super) fn item(&self) -> Option<&Arc<LockItem>> {
        match self.answer.as_ref().ok()? {
            Answer::Applied(Shown::Item(item))
            | Answer::ConditionFailed(Some(Shown::Item(item)))
            | Answer::Read(Some(item)) => Some(item),
            Answer::Page(page) => page.item.as_ref(),
            _ => None,
        }
    }
}

/// A failure, which several places may be told of.
pub type Failed = Failure;

/// The answer to a request.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Answer {
    /// The write was applied.
    Applied(Shown),
    /// A condition of the write did not hold. `None` if there is no item, or if it was not to be shown. Where the table does not say what it
    /// met, the driver reads it.
    ConditionFailed(Option<Shown>),
    /// The lock item, if there is one.
    Read(Option<Arc<LockItem>>),
    /// A page.
    Page(Page),
    /// The rows are deleted.
    Deleted,
}

/// What an answer to a write shows.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Shown {
    /// The lock item.
    Item(Arc<LockItem>),
    /// A row.
    Row(Box<TicketRow>),
    /// Nothing is left there.
    Nothing,
}

/// A page of a query.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Page {
    /// The lock item, if the page has it.
    pub item: Option<Arc<LockItem>>,
    /// The rows, in the order of their tickets.
    pub rows: Vec<TicketRow>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}
