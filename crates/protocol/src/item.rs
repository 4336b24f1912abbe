//! The items of one lock as values: the lock item, and the rows of the queue behind the slots.

use std::sync::Arc;
use std::time::Duration;

use crate::bytes::Bytes;
use crate::entry::{Entry, Nonce, ServerTime};
use crate::stamps::Stamps;
use crate::step::Has;
use crate::ticket::{Sequence, Ticket};

/// The item that says which entry holds the lock and which is next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct LockItem {
    /// How many permits there are at one time, as all users of the lock say it.
    pub permits: u64,
    /// How many permits there are instead, if the number was changed.
    pub resized: Option<u64>,
    /// How often the number was changed.
    pub resizes: u64,
    /// How many permits the sharers leave, as counted. Below zero if the number was changed to fewer than they hold.
    pub room: i64,
    /// The newest ticket drawn.
    pub last: Ticket,
    /// Every ticket up to this one is settled or stands on this item.
    pub watermark: Ticket,
    /// How many waiters left the queue. A write that fills slots fails if this count moved since its snapshot.
    pub departures: u64,
    /// The entries that hold the lock beside the first of the slots, in ticket order. They may outlast it.
    pub sharers: Vec<Entry>,
    /// In ticket order. The first of them holds the lock as soon as the sharers leave what it takes: no write says so.
    pub slots: Vec<Entry>,
    /// The bytes that a holder left for later holders.
    pub data: Option<Bytes>,
    /// The write that left the data so.
    pub written: Option<Written>,
    /// When the newest ticket was drawn, by two clocks.
    pub drawn: Stamps,
    /// The longest join timeout of the clients that drew the open tickets.
    pub join_timeout: Option<Duration>,
    /// When the lock was last given to an entry that stood in a slot, by DynamoDB's clock; for people.
    pub granted_at: Option<ServerTime>,
    /// When DynamoDB may delete the item, in whole seconds since 1970.
    pub expires_at: u64,
    /// The newest request to give way.
    pub asked: Option<Arc<Notice>>,
    /// How many requests to give way there were, that one included.
    pub asks: u64,
    /// The newest place that was broken.
    pub broken: Option<Arc<Notice>>,
}

/// What somebody says to the holders of some tickets, by name and with a reason. For people: no decision depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Notice {
    /// The first of the tickets.
    pub from: Ticket,
    /// The last of them.
    pub to: Ticket,
    /// The name of the owner that says it.
    pub by: String,
    /// The reason that the owner gives.
    pub reason: String,
}

impl Notice {
    /// Whether it is for the holder of this ticket.
    pub fn is_for(&self, ticket: Ticket) -> bool {
        (self.from..=self.to).contains(&ticket)
    }
}

impl LockItem {
    /// A free lock with this newest ticket and this watermark, of which nothing else is known.
    pub fn free(last: Ticket, watermark: Ticket) -> Self {
        LockItem {
            permits: 0,
            resized: None,
            resizes: 0,
            room: 0,
            last,
            watermark,
            departures: 0,
            sharers: Vec::new(),
            slots: Vec::new(),
            data: None,
            written: None,
            drawn: Stamps::default(),
            join_timeout: None,
            granted_at: None,
            expires_at: 0,
            asked: None,
            asks: 0,
            broken: None,
        }
    }

    /// The first of the slots, if it holds the lock.
    pub fn holder(&self) -> Option<&Entry> {
        self.slots.first().filter(|first| self.fits(first))
    }

    /// The entries in the slots that wait for the lock, in ticket order; none when it is free.
    pub fn successors(&self) -> &[Entry] {
        &self.slots[self.first_successor()..]
    }

    /// Whether the sharers leave what the entry takes. An entry that waits for the whole lock needs all permits, however many there are by
    /// now. So does an entry that waits for more than there are.
    fn fits(&self, entry: &Entry) -> bool {
        self.sharers.is_empty()
            || (entry.permits < self.permits && is_left(self.room, entry.permits))
    }

    /// How many permits are left beside all entries that hold the lock. Zero if one of them has all of it.
    fn left_over(&self) -> i64 {
        match self.holder() {
            Some(holder) if holder.permits >= self.permits => 0,
            Some(holder) => self.room.saturating_sub(signed(holder.permits)),
            None => self.room,
        }
    }

    /// The entries that hold the lock.
    pub fn holders(&self) -> impl Iterator<Item = &Entry> {
        self.holder().into_iter().chain(&self.sharers)
    }

    /// Why the place of this ticket was broken, if the newest break was of it.
    pub fn broken_for(&self, ticket: Ticket) -> Option<&Arc<Notice>> {
        self.broken.as_ref().filter(|broken| broken.is_for(ticket))
    }

    /// The holds that are leases of this name, with at least so many permits.
    pub fn leases_of(&self, id: &str, permits: u64) -> impl Iterator<Item = &Entry> {
        self.holders()
            .filter(move |it| it.id.as_deref() == Some(id) && it.permits >= permits)
    }

    /// The entries that hold the lock and their successors, in the order in which they get it.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.holders().chain(self.successors())
    }

    /// The entries that hold the lock here and did not before, and the successors that had no slot before.
    pub fn promoted_since<'a>(&'a self, before: &'a LockItem) -> impl Iterator<Item = &'a Entry> {
        let held = |entry: &Entry| before.holders().any(|it| it.nonce == entry.nonce);
        let stood = |entry: &Entry| before.entries().any(|it| it.nonce == entry.nonce);
        let holders = self.holders().filter(move |entry| !held(entry));
        holders.chain(self.successors().iter().filter(move |entry| !stood(entry)))
    }

    /// The slot in which the first successor stands, or would stand.
    pub fn first_successor(&self) -> usize {
        usize::from(self.holder().is_some())
    }

    /// The place of the successor with this index.
    pub fn at_successor(&self, index: usize) -> At {
        At::Slot(self.first_successor() + index)
    }

    /// Where an attempt stands on the lock item, whatever its ticket is.
    pub fn position_of(&self, nonce: Nonce) -> Option<ItemPosition<'_>> {
        if let Some(sharer) = self.sharers.iter().find(|sharer| sharer.nonce == nonce) {
            return Some(ItemPosition::Has(At::Sharer(nonce), sharer));
        }
        let slot = self.slots.iter().position(|entry| entry.nonce == nonce)?;
        let entry = &self.slots[slot];
        Some(match (slot, self.holder().is_some()) {
            (0, true) => ItemPosition::Has(At::Slot(0), entry),
            (successor, false) => ItemPosition::Successor(successor, entry),
            (behind, true) => ItemPosition::Successor(behind - 1, entry),
        })
    }

    /// Where a place stands on the lock item. Returns `None` if the place has ended. Even then another place of its nonce may have begun: a
    /// late copy of the request for it gives the nonce a place again, with a newer ticket.
    pub fn position_of_place(&self, nonce: Nonce, ticket: Ticket) -> Option<ItemPosition<'_>> {
        let position = self.position_of(nonce)?;
        (position.entry().ticket == ticket).then_some(position)
    }

    /// Where a hold stands on the lock item. Returns `None` if it has ended, as for `position_of_place`.
    pub fn hold_of(&self, nonce: Nonce, ticket: Ticket) -> Option<(At, &Entry)> {
        match self.position_of_place(nonce, ticket)? {
            ItemPosition::Has(at, entry) => Some((at, entry)),
            ItemPosition::Successor(..) => None,
        }
    }

    /// How many turns come before the successor with this index, or how many there are in all. Entries that hold the lock at one time end
    /// their turns together, as far as the successors are concerned.
    pub fn turns_before(&self, successor: usize) -> u64 {
        let held = self.holders().map(|holder| holder.tickets).max();
        let successors = self
            .successors()
            .iter()
            .take(successor)
            .map(|successor| successor.tickets);
        sum(held.into_iter().chain(successors))
    }

    /// The turns of all tickets that were drawn, the holder's included. Tickets that have ended count until they are passed.
    pub fn turns(&self) -> u64 {
        let behind = self.last.get().saturating_sub(self.watermark.get());
        self.turns_before(usize::MAX).saturating_add(behind)
    }

    /// The entry at a place.
    pub fn entry_at(&self, at: At) -> Option<&Entry> {
        match at {
            At::Sharer(nonce) => self.sharers.iter().find(|sharer| sharer.nonce == nonce),
            At::Slot(index) => self.slots.get(index),
        }
    }

    /// The entry at a place, to be changed.
    pub fn entry_at_mut(&mut self, at: At) -> Option<&mut Entry> {
        match at {
            At::Sharer(nonce) => self.sharers.iter_mut().find(|it| it.nonce == nonce),
            At::Slot(index) => self.slots.get_mut(index),
        }
    }

    /// Whether no entry holds the lock, and so none on this item waits for it.
    pub fn is_free(&self) -> bool {
        self.slots.is_empty() && self.sharers.is_empty()
    }

    /// Whether no entry holds the lock and no ticket is open.
    pub fn is_idle(&self) -> bool {
        self.is_free() && self.watermark == self.last
    }

    /// How long a ticket may take to join the queue, for a client whose own join timeout is `own`: the ticket may be of a client with a
    /// longer one.
    pub fn join_timeout(&self, own: Duration) -> Duration {
        own.max(self.join_timeout.unwrap_or_default())
    }

    /// How many permits the holders hold together.
    pub fn taken(&self) -> u64 {
        sum(self.holders().map(|holder| holder.permits))
    }

    /// The entry that has held the lock for longest.
    pub fn first_holder(&self) -> Option<&Entry> {
        self.holders().min_by_key(|holder| holder.ticket)
    }

    /// Since when that entry holds the lock. A holder that entered before any answer told it the time writes this with its first renewal.
    pub fn held_since(&self) -> Option<ServerTime> {
        let first = self.first_holder()?;
        match self.holder() {
            // It stood in the queue when it was given the lock, or came after the last entry that was given it so.
            Some(holder) if holder == first => first
                .since
                .map(|since| self.granted_at.map_or(since, |at| at.max(since))),
            _ => first.since,
        }
    }

    /// Whether a caller can have this many permits at once: no waiter waits, and they are left.
    pub fn has_room_for(&self, permits: u64) -> bool {
        self.has_left(permits) && self.watermark == self.last && self.successors().is_empty()
    }

    /// Whether this many permits are left beside the entries that hold some, whichever waiters wait for them.
    pub fn has_left(&self, permits: u64) -> bool {
        self.is_free() || (permits < self.permits && is_left(self.left_over(), permits))
    }

    /// How many of the first successors need not wait any more: what they take is left.
    pub fn admitted(&self) -> usize {
        if self.holder().is_none() {
            return 0;
        }
        let mut left = self.left_over();
        let fits = |successor: &&Entry| {
            let fits = successor.permits < self.permits && is_left(left, successor.permits);
            left = left.saturating_sub(signed(successor.permits));
            fits
        };
        self.successors().iter().take_while(fits).count()
    }

    /// How many permits there are by now.
    pub fn there_are(&self) -> u64 {
        self.resized.unwrap_or(self.permits)
    }
}

/// The permits as a signed number: no lock has more than an `i64` can count.
pub(crate) fn signed(permits: u64) -> i64 {
    i64::try_from(permits).unwrap_or(i64::MAX)
}

fn is_left(room: i64, permits: u64) -> bool {
    signed(permits) <= room
}

/// Which write of data by which hold. The order is the one in which such writes may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Written {
    /// The hold's ticket.
    pub ticket: Ticket,
    /// The count of all writes of this hold.
    pub count: u64,
}

/// The sum of counts, which saturates: damaged counts may come to more than a `u64` holds.
pub fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// A place on the lock item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Beside the first of the slots, under this nonce.
    Sharer(Nonce),
    /// In the slot with this index: as many others stand before it.
    Slot(usize),
}

/// Where an attempt stands on the lock item, and with which ticket: conditions name it by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footing {
    /// The place.
    pub at: At,
    /// The ticket that it shows.
    pub ticket: Ticket,
    /// When DynamoDB may delete the item, as the client saw it.
    pub expires_at: u64,
}

impl Footing {
    /// The footing that the item shows.
    pub fn of(item: &LockItem, at: At, entry: &Entry) -> Self {
        Footing {
            at,
            ticket: entry.ticket,
            expires_at: item.expires_at,
        }
    }
}

/// An entry on the lock item, and what it does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemPosition<'a> {
    /// It holds the lock.
    Has(At, &'a Entry),
    /// It waits for the lock behind this many other successors.
    Successor(usize, &'a Entry),
}

impl<'a> ItemPosition<'a> {
    /// The entry.
    pub fn entry(self) -> &'a Entry {
        match self {
            ItemPosition::Has(_, entry) | ItemPosition::Successor(_, entry) => entry,
        }
    }
}

/// A row in the queue, of a ticket, or of several tickets that were drawn together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct TicketRow {
    /// The newest of its tickets, by which the row is found.
    pub ticket: Ticket,
    /// How many tickets it is for, its own and those just before it.
    pub tickets: u64,
    /// What it says of them.
    pub state: RowState,
    /// When DynamoDB may delete the row, in whole seconds since 1970.
    pub expires_at: u64,
}

/// What a ticket's row says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum RowState {
    /// A waiter waits for its turn with them.
    Waiting(Entry),
    /// Settled; with the nonce of the waiter that had this row.
    Void(Option<Nonce>),
}

/// A hold as the lock item shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemHold {
    /// Where it stands.
    pub footing: Footing,
    /// How many permits it takes.
    pub permits: u64,
}

impl ItemHold {
    /// The hold that an item shows.
    pub fn of(item: &LockItem, at: At, entry: &Entry) -> Self {
        ItemHold {
            footing: Footing::of(item, at, entry),
            permits: entry.permits,
        }
    }

    /// Whether a write that names one of these is about the other too.
    pub fn stands_as(&self, other: &Self) -> bool {
        (self.footing.at, self.permits) == (other.footing.at, other.permits)
    }
}

impl LockItem {
    /// The entry that holds the lock there.
    pub fn who(&self, has: Has) -> Option<(&Entry, ItemHold)> {
        let (at, entry) = match has {
            Has::Holder => (At::Slot(0), self.holder()?),
            Has::Sharer(index) => {
                let sharer = self.sharers.get(index)?;
                (At::Sharer(sharer.nonce), sharer)
            }
        };
        Some((entry, ItemHold::of(self, at, entry)))
    }
}

impl TicketRow {
    /// The oldest of its tickets.
    pub fn first(&self) -> Ticket {
        self.ticket.first_of(self.tickets)
    }

    /// The entry of the waiter, if the row is still waiting.
    pub fn waiting(&self) -> Option<&Entry> {
        match &self.state {
            RowState::Waiting(entry) => Some(entry),
            RowState::Void(_) => None,
        }
    }
}
