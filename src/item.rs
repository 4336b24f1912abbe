//! The items of one lock as values: the lock item, and the rows of the line behind the seats.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::{Entry, Nonce, ServerTime};
use crate::ticket::Ticket;

/// The one item that says who has the lock and who is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockItem {
    /// How many there are to be had at one time.
    pub(crate) permits: u64,
    /// The newest ticket drawn.
    pub(crate) last: Ticket,
    /// Every ticket up to this one is settled or among the heirs.
    pub(crate) seated: Ticket,
    /// How many left the queue; a seat write fails when this moved since its look.
    pub(crate) left: u64,
    /// Whoever was promoted, or entered the free lock.
    pub(crate) holder: Option<Entry>,
    /// Those who came beside it, in ticket order. They may outlast it.
    pub(crate) sharers: Vec<Entry>,
    /// In ticket order; nobody when the lock is free.
    pub(crate) heirs: Vec<Entry>,
    /// What a holder left for those after it.
    pub(crate) data: Option<Arc<[u8]>>,
    /// The write that left it so.
    pub(crate) written: Option<Written>,
    /// When the newest ticket was drawn, by DynamoDB's time.
    pub(crate) drawn_at: Option<ServerTime>,
    /// The longest grace of those who drew the open tickets.
    pub(crate) grace: Option<Duration>,
    /// When the holder was granted the lock, by the same time; for people.
    pub(crate) granted_at: Option<ServerTime>,
    /// When DynamoDB may delete the item, in whole seconds since 1970.
    pub(crate) expires_at: u64,
}

impl LockItem {
    /// Those who have the lock.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Entry> {
        self.holder.iter().chain(&self.sharers)
    }

    /// Those who have the lock and their heirs, in the order in which they have it.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.holders().chain(&self.heirs)
    }

    /// Where an attempt stands on the lock item.
    pub(crate) fn place_of(&self, nonce: Nonce) -> Option<Spot<'_>> {
        if let Some(holder) = self.holder.as_ref().filter(|holder| holder.nonce == nonce) {
            return Some(Spot::Has(At::Holder, holder));
        }
        if let Some(sharer) = self.sharers.iter().find(|sharer| sharer.nonce == nonce) {
            return Some(Spot::Has(At::Sharer(nonce), sharer));
        }
        let index = self.heirs.iter().position(|heir| heir.nonce == nonce)?;
        Some(Spot::Heir(index, &self.heirs[index]))
    }

    /// Where a hold stands on the lock item. None: it has ended, though another of its nonce may have begun.
    pub(crate) fn hold_of(&self, nonce: Nonce, ticket: Ticket) -> Option<(At, &Entry)> {
        match self.place_of(nonce)? {
            Spot::Has(at, entry) if entry.ticket == ticket => Some((at, entry)),
            Spot::Has(..) | Spot::Heir(..) => None,
        }
    }

    /// Turns before the heir of this number, or of all that are there. Who have it at one time end theirs together, as far
    /// as those behind them care.
    pub(crate) fn turns_before(&self, heir: usize) -> u64 {
        let held = self.holders().map(|holder| holder.tickets).max();
        let heirs = self.heirs.iter().take(heir).map(|heir| heir.tickets);
        sum(held.into_iter().chain(heirs))
    }

    /// Who stands at a place.
    pub(crate) fn entry_at(&self, at: At) -> Option<&Entry> {
        match at {
            At::Holder => self.holder.as_ref(),
            At::Sharer(nonce) => self.sharers.iter().find(|sharer| sharer.nonce == nonce),
            At::Heir(index) => self.heirs.get(index),
        }
    }

    /// Nobody has it.
    pub(crate) fn is_free(&self) -> bool {
        self.holders().next().is_none()
    }

    /// Nobody has it and nobody's ticket is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_free() && self.seated == self.last
    }

    /// How long a ticket may take to join the line, for one whose own grace is this: it may be of a client with a longer one.
    pub(crate) fn grace(&self, own: Duration) -> Duration {
        own.max(self.grace.unwrap_or_default())
    }

    /// Permits that are taken.
    pub(crate) fn taken(&self) -> u64 {
        sum(self.holders().map(|holder| holder.permits))
    }

    /// Whoever has had it for longest.
    pub(crate) fn first_holder(&self) -> Option<&Entry> {
        self.holders().min_by_key(|holder| holder.ticket)
    }

    /// Since when it has it. One that entered before it had heard the time of any answer says so with its
    /// first renewal.
    pub(crate) fn held_since(&self) -> Option<ServerTime> {
        match &self.holder {
            Some(holder) if self.first_holder() == self.holder.as_ref() => {
                self.granted_at.or(holder.since)
            }
            _ => self.first_holder()?.since,
        }
    }

    /// Free, and somebody who drew a ticket is on the way to it.
    pub(crate) fn is_being_taken(&self) -> bool {
        self.is_free() && !self.is_idle()
    }

    /// A next ticket would be seated at once: everyone who drew one is settled or seated, and there is a seat.
    pub(crate) fn has_open_seat(&self, seats: usize) -> bool {
        !self.is_free() && self.seated == self.last && self.heirs.len() < seats
    }

    /// So many permits are to be had at once: nobody waits, and they are left.
    pub(crate) fn has_room_for(&self, permits: u64) -> bool {
        self.has_left(permits) && self.seated == self.last && self.heirs.is_empty()
    }

    /// So many permits are left beside those who have some, whoever waits for them.
    pub(crate) fn has_left(&self, permits: u64) -> bool {
        self.taken().saturating_add(permits) <= self.permits
    }

    /// The first of the heirs who need not wait any more: what they take is left.
    pub(crate) fn admitted(&self) -> usize {
        let mut left = self.permits.saturating_sub(self.taken());
        let fits = |heir: &&Entry| match left.checked_sub(heir.permits) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        self.heirs.iter().take_while(fits).count()
    }
}

/// Which write of data by which hold, in the order in which they may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Written {
    pub(crate) ticket: Ticket,
    /// Of all that this hold wrote.
    pub(crate) count: u64,
}

/// Damaged counts may come to more than there are numbers.
pub(crate) fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// A place on the lock item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Holder,
    Sharer(Nonce),
    Heir(usize),
}

/// Where an attempt stands on the lock item, and with which ticket: by both it is named in conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footing {
    pub(crate) at: At,
    pub(crate) ticket: Ticket,
    /// When DynamoDB may delete the item, as it was seen.
    pub(crate) expires_at: u64,
}

impl Footing {
    pub(crate) fn of(item: &LockItem, at: At, entry: &Entry) -> Self {
        Footing {
            at,
            ticket: entry.ticket,
            expires_at: item.expires_at,
        }
    }
}

/// Who stands at a place on the lock item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot<'a> {
    /// Has the lock.
    Has(At, &'a Entry),
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
