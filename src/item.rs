//! The items of one lock as values: the lock item, and the rows of the line behind the seats.

use crate::entry::{Entry, Nonce, ServerTime};
use crate::ticket::Ticket;

/// The one item that says who has the lock and who is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockItem {
    /// The newest ticket drawn.
    pub(crate) last: Ticket,
    /// Every ticket up to this one is settled or among the heirs.
    pub(crate) seated: Ticket,
    /// How many left the queue; a seat write fails when this moved since its look.
    pub(crate) left: u64,
    pub(crate) holder: Option<Entry>,
    /// In ticket order; nobody when there is no holder.
    pub(crate) heirs: Vec<Entry>,
    /// When the newest ticket was drawn, by DynamoDB's time.
    pub(crate) drawn_at: Option<ServerTime>,
    /// When the holder was granted the lock, by the same time; for people.
    pub(crate) granted_at: Option<ServerTime>,
    /// When DynamoDB may delete the item, in whole seconds since 1970.
    pub(crate) expires_at: u64,
}

impl LockItem {
    /// Holder and heirs, in the order in which they have the lock.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.holder.iter().chain(&self.heirs)
    }

    /// Where an attempt stands on the lock item.
    pub(crate) fn place_of(&self, nonce: Nonce) -> Option<Spot<'_>> {
        if let Some(holder) = self.holder.as_ref().filter(|holder| holder.nonce == nonce) {
            return Some(Spot::Holder(holder));
        }
        let index = self.heirs.iter().position(|heir| heir.nonce == nonce)?;
        Some(Spot::Heir(index, &self.heirs[index]))
    }

    /// Nobody holds it and nobody's ticket is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.holder.is_none() && self.seated == self.last
    }

    /// Since when the holder has the lock. One that entered before it had heard the time of any answer says so with its
    /// first renewal.
    pub(crate) fn held_since(&self) -> Option<ServerTime> {
        let holder = self.holder.as_ref()?;
        self.granted_at.or(holder.since)
    }

    /// Free, and somebody who drew a ticket is on the way to it.
    pub(crate) fn is_being_taken(&self) -> bool {
        self.holder.is_none() && !self.is_idle()
    }

    /// A next ticket would be seated at once: everyone who drew one is settled or seated, and there is a seat.
    pub(crate) fn has_open_seat(&self, seats: usize) -> bool {
        self.holder.is_some() && self.seated == self.last && self.heirs.len() < seats
    }
}

/// A place on the lock item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot<'a> {
    Holder(&'a Entry),
    Heir(usize, &'a Entry),
}

/// A row in the queue, of a ticket, or of several that were drawn together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketRow {
    /// The newest of them, by which the row is found.
    pub(crate) ticket: Ticket,
    pub(crate) tickets: u64,
    pub(crate) state: RowState,
}

/// What a ticket's row says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    Waiting(Entry),
    /// Settled; with the nonce of whoever had been waiting there.
    Void(Option<Nonce>),
}
