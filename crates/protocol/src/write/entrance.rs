//! How a caller asks for a place: by a slot, or by a draw.

use std::time::Duration;

use crate::item::LockItem;
use crate::stamps::Stamps;
use crate::ticket::{Sequence, Ticket};

/// What a caller that asks for a place asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The counter must be below this ticket.
    pub below: Ticket,
    /// How many slots there are behind the first. `None` if the caller does not wait: it asks for the first slot of a free lock.
    pub slots: Option<usize>,
    /// How long tickets that are drawn later may take to join, until a later draw says otherwise.
    pub join_timeout: Duration,
    /// The item to create where there is none.
    pub new: Option<NewItem>,
}

/// A new lock item: where its counter begins, and until when it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// No ticket that was drawn before is above this one.
    pub start: Ticket,
    /// Until when the item stays, in whole seconds since 1970.
    pub expiry: u64,
}

/// How a ticket is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// The stamps of the draw.
    pub stamps: Stamps,
    /// The stamps of the newest draw as they were seen. Later ones stay.
    pub seen: Stamps,
    /// The join timeout of the ticket.
    pub join_timeout: Duration,
    /// Whether the item has a shorter join timeout, which this one replaces.
    pub raises_join_timeout: bool,
    /// The item stays at least until this time.
    pub keeps: Option<u64>,
}

impl Drawing {
    /// How to draw as the item asks for that was seen, as far as that is known.
    pub fn over(
        seen: Option<&LockItem>,
        stamps: Stamps,
        join_timeout: Duration,
        keeps: Option<u64>,
    ) -> Self {
        let is_short = |item: &LockItem| item.join_timeout < Some(join_timeout);
        Drawing {
            stamps,
            seen: seen.map(|item| item.drawn).unwrap_or_default(),
            join_timeout,
            raises_join_timeout: seen.is_some_and(is_short),
            keeps,
        }
    }
}

/// The ticket that the counter must be below for `tickets` tickets to be left. The last ticket of all can be drawn, and its lock then
/// counts as damaged.
pub fn end(tickets: u64) -> Ticket {
    Ticket::new(u64::MAX).first_of(tickets)
}

/// The ticket that the counter must be below: no ticket newer than `most` was drawn, and `tickets` tickets are left.
pub fn below(most: Ticket, tickets: u64) -> Ticket {
    most.next().unwrap_or(most).min(end(tickets))
}
