//! The items of one lock as values: the lock item, and the rows of the queue behind the slots.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::{Entry, Nonce, ServerTime};
use crate::step::Has;
use crate::ticket::{Sequence, Ticket};

/// The one item that says who has the lock and who is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockItem {
    /// How many there are to be had at one time, as all who use the lock say it.
    pub permits: u64,
    /// How many there are instead since somebody changed that.
    pub resized: Option<u64>,
    /// How many the sharers leave, as counted. Below zero where there are fewer than they have since somebody changed that.
    pub room: i64,
    /// The newest ticket drawn.
    pub last: Ticket,
    /// Every ticket up to this one is settled or stands on this item.
    pub watermark: Ticket,
    /// How many left the queue; a slot write fails when this moved since its look.
    pub left: u64,
    /// Those who have it beside the first of the slots, in ticket order. They may outlast it.
    pub sharers: Vec<Entry>,
    /// In ticket order. The first of them has the lock as soon as the sharers leave what it takes: nobody writes that.
    pub slots: Vec<Entry>,
    /// What a holder left for those after it.
    pub data: Option<Arc<[u8]>>,
    /// The write that left it so.
    pub written: Option<Written>,
    /// When the newest ticket was drawn, by DynamoDB's time.
    pub drawn_at: Option<ServerTime>,
    /// The longest grace of those who drew the open tickets.
    pub grace: Option<Duration>,
    /// When the lock was last given to one who stood in a slot, by the same time; for people.
    pub granted_at: Option<ServerTime>,
    /// When DynamoDB may delete the item, in whole seconds since 1970.
    pub expires_at: u64,
}

impl LockItem {
    /// A free lock whose queue is so far, and of which nothing else is known.
    pub fn free(last: Ticket, watermark: Ticket) -> Self {
        LockItem {
            permits: 0,
            resized: None,
            room: 0,
            last,
            watermark,
            left: 0,
            sharers: Vec::new(),
            slots: Vec::new(),
            data: None,
            written: None,
            drawn_at: None,
            grace: None,
            granted_at: None,
            expires_at: 0,
        }
    }

    /// The first of the slots, if it has the lock.
    pub fn holder(&self) -> Option<&Entry> {
        self.slots.first().filter(|first| self.fits(first))
    }

    /// Those in the slots who wait for the lock, in ticket order; nobody when it is free.
    pub fn successors(&self) -> &[Entry] {
        &self.slots[self.first_successor()..]
    }

    /// Whether the sharers leave what it takes. Who waits for the whole lock needs all of it, however many permits it has by now, and so
    /// does one who waits for more than there are.
    fn fits(&self, entry: &Entry) -> bool {
        self.sharers.is_empty()
            || (entry.permits < self.permits && is_left(self.room, entry.permits))
    }

    /// What is left beside all who have the lock. None, if one of them has all of it.
    fn left_over(&self) -> i64 {
        match self.holder() {
            Some(holder) if holder.permits >= self.permits => 0,
            Some(holder) => self.room.saturating_sub(signed(holder.permits)),
            None => self.room,
        }
    }

    /// Those who have the lock.
    pub fn holders(&self) -> impl Iterator<Item = &Entry> {
        self.holder().into_iter().chain(&self.sharers)
    }

    /// Those who have the lock and their successors, in the order in which they have it.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.holders().chain(self.successors())
    }

    /// In which slot the first successor stands, if there is one.
    pub fn first_successor(&self) -> usize {
        usize::from(self.holder().is_some())
    }

    /// The place of the successor of this number.
    pub fn at_successor(&self, index: usize) -> At {
        At::Slot(self.first_successor() + index)
    }

    /// Where an attempt stands on the lock item, with whichever ticket.
    pub fn position_of(&self, nonce: Nonce) -> Option<Spot<'_>> {
        if let Some(sharer) = self.sharers.iter().find(|sharer| sharer.nonce == nonce) {
            return Some(Spot::Has(At::Sharer(nonce), sharer));
        }
        let slot = self.slots.iter().position(|entry| entry.nonce == nonce)?;
        let entry = &self.slots[slot];
        Some(match (slot, self.holder().is_some()) {
            (0, true) => Spot::Has(At::Slot(0), entry),
            (successor, false) => Spot::Successor(successor, entry),
            (behind, true) => Spot::Successor(behind - 1, entry),
        })
    }

    /// Where a place stands on the lock item. None: it has ended, though another of its nonce may have begun: a late copy of the
    /// request for it gives the nonce a place again, with a newer ticket.
    pub fn standing(&self, nonce: Nonce, ticket: Ticket) -> Option<Spot<'_>> {
        let spot = self.position_of(nonce)?;
        let (Spot::Has(_, entry) | Spot::Successor(_, entry)) = spot;
        (entry.ticket == ticket).then_some(spot)
    }

    /// Where a hold stands on the lock item. None: it has ended, as `standing` says.
    pub fn hold_of(&self, nonce: Nonce, ticket: Ticket) -> Option<(At, &Entry)> {
        match self.standing(nonce, ticket)? {
            Spot::Has(at, entry) => Some((at, entry)),
            Spot::Successor(..) => None,
        }
    }

    /// Turns before the successor of this number, or of all that are there. Who have it at one time end theirs together, as far
    /// as those behind them care.
    pub fn turns_before(&self, successor: usize) -> u64 {
        let held = self.holders().map(|holder| holder.tickets).max();
        let successors = self
            .successors()
            .iter()
            .take(successor)
            .map(|successor| successor.tickets);
        sum(held.into_iter().chain(successors))
    }

    /// Who stands at a place.
    pub fn entry_at(&self, at: At) -> Option<&Entry> {
        match at {
            At::Sharer(nonce) => self.sharers.iter().find(|sharer| sharer.nonce == nonce),
            At::Slot(index) => self.slots.get(index),
        }
    }

    /// The same, to be changed.
    pub fn entry_at_mut(&mut self, at: At) -> Option<&mut Entry> {
        match at {
            At::Sharer(nonce) => self.sharers.iter_mut().find(|it| it.nonce == nonce),
            At::Slot(index) => self.slots.get_mut(index),
        }
    }

    /// Nobody has it, and so nobody on this item waits for it.
    pub fn is_free(&self) -> bool {
        self.slots.is_empty() && self.sharers.is_empty()
    }

    /// Nobody has it and nobody's ticket is open.
    pub fn is_idle(&self) -> bool {
        self.is_free() && self.watermark == self.last
    }

    /// How long a ticket may take to join the queue, for one whose own grace is this: it may be of a client with a longer one.
    pub fn grace(&self, own: Duration) -> Duration {
        own.max(self.grace.unwrap_or_default())
    }

    /// Permits that those who have the lock have together.
    pub fn taken(&self) -> u64 {
        sum(self.holders().map(|holder| holder.permits))
    }

    /// Whoever has had it for longest.
    pub fn first_holder(&self) -> Option<&Entry> {
        self.holders().min_by_key(|holder| holder.ticket)
    }

    /// Since when it has it. One that entered before it had heard the time of any answer says so with its
    /// first renewal.
    pub fn held_since(&self) -> Option<ServerTime> {
        let first = self.first_holder()?;
        match self.holder() {
            // It stood in the queue when it was given the lock, or came after the last to whom that was done.
            Some(holder) if holder == first => first
                .since
                .map(|since| self.granted_at.map_or(since, |at| at.max(since))),
            _ => first.since,
        }
    }

    /// Free, and somebody who drew a ticket is on the way to it.
    pub fn is_being_taken(&self) -> bool {
        self.is_free() && !self.is_idle()
    }

    /// So many permits are to be had at once: nobody waits, and they are left.
    pub fn has_room_for(&self, permits: u64) -> bool {
        self.has_left(permits) && self.watermark == self.last && self.successors().is_empty()
    }

    /// So many permits are left beside those who have some, whoever waits for them.
    pub fn has_left(&self, permits: u64) -> bool {
        self.is_free() || (permits < self.permits && is_left(self.left_over(), permits))
    }

    /// The first of the successors who need not wait any more: what they take is left.
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

/// No lock has more permits than there are numbers of either sign.
pub(crate) fn signed(permits: u64) -> i64 {
    i64::try_from(permits).unwrap_or(i64::MAX)
}

fn is_left(room: i64, permits: u64) -> bool {
    signed(permits) <= room
}

/// Which write of data by which hold, in the order in which they may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// The hold's ticket.
    pub ticket: Ticket,
    /// Of all that this hold wrote.
    pub count: u64,
}

/// Damaged counts may come to more than there are numbers.
pub fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// A place on the lock item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Beside the first of the slots, under its nonce.
    Sharer(Nonce),
    /// So many others stand before it in the slots.
    Slot(usize),
}

/// Where an attempt stands on the lock item, and with which ticket: by both it is named in conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footing {
    /// The place.
    pub at: At,
    /// The ticket that it shows.
    pub ticket: Ticket,
    /// When DynamoDB may delete the item, as it was seen.
    pub expires_at: u64,
}

impl Footing {
    /// As the item shows it.
    pub fn of(item: &LockItem, at: At, entry: &Entry) -> Self {
        Footing {
            at,
            ticket: entry.ticket,
            expires_at: item.expires_at,
        }
    }
}

/// Who stands at a place on the lock item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot<'a> {
    /// Has the lock.
    Has(At, &'a Entry),
    /// Waits for the lock behind so many other successors.
    Successor(usize, &'a Entry),
}

/// A row in the queue, of a ticket, or of several that were drawn together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketRow {
    /// The newest of them, by which the row is found.
    pub ticket: Ticket,
    /// How many it is for, its own and those just before it.
    pub tickets: u64,
    /// What it says of them.
    pub state: RowState,
    /// When DynamoDB may delete the row, in whole seconds since 1970.
    pub expires_at: u64,
}

/// What a ticket's row says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowState {
    /// Nobody has had them yet.
    Waiting(Entry),
    /// Settled; with the nonce of whoever had been waiting there.
    Void(Option<Nonce>),
}

/// A hold as it is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where it stands.
    pub footing: Footing,
    /// What it takes.
    pub permits: u64,
}

impl Held {
    /// As an item shows it.
    pub fn of(item: &LockItem, at: At, entry: &Entry) -> Self {
        Held {
            footing: Footing::of(item, at, entry),
            permits: entry.permits,
        }
    }
}

impl LockItem {
    /// Who stands there.
    pub fn who(&self, has: Has) -> Option<(&Entry, Held)> {
        let (at, entry) = match has {
            Has::Holder => (At::Slot(0), self.holder()?),
            Has::Sharer(index) => {
                let sharer = self.sharers.get(index)?;
                (At::Sharer(sharer.nonce), sharer)
            }
        };
        Some((entry, Held::of(self, at, entry)))
    }
}

impl TicketRow {
    /// The oldest of its tickets.
    pub fn first(&self) -> Ticket {
        self.ticket.first_of(self.tickets)
    }

    /// Whoever waits there.
    pub fn waiting(&self) -> Option<&Entry> {
        match &self.state {
            RowState::Waiting(entry) => Some(entry),
            RowState::Void(_) => None,
        }
    }
}
