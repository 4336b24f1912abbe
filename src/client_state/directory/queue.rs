//! The places of one client that wait for one lock. What a place learns is passed to the places that it concerns, so that they need not
//! poll.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::Notify;

use super::{Directory, Known};
use crate::name::LockName;
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::{LockItem, RowState, TicketRow};
use fairlock_protocol::ticket::{Sequence, Ticket};

/// The places that wait, in ticket order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Ticket, Waiting>,
}

/// A place that waits.
#[derive(Debug)]
struct Waiting {
    nonce: Nonce,
    tickets: u64,
    /// What other places of this client may make of its row.
    row: Own,
    /// A lock item that concerns it.
    news: Option<LockItem>,
    /// The watermark when the place was last notified that it is time to fill slots.
    asked: Option<Ticket>,
    woken: Arc<Notify>,
}

/// A row of this client's own, as its waiter knows it.
#[derive(Debug, Default)]
enum Own {
    /// The waiter has not seen it yet, or found it void.
    #[default]
    Unseen,
    Waits(Box<Entry>),
    /// The waiter leaves with its ticket, whatever becomes of its requests. Or another place of this client has read that the row is void.
    Leaves,
}

impl Own {
    fn waiting(&self) -> Option<&Entry> {
        match self {
            Own::Waits(entry) => Some(entry.as_ref()),
            Own::Unseen | Own::Leaves => None,
        }
    }
}

impl Waiting {
    fn tell(&mut self, item: &LockItem) {
        self.news = Some(item.clone());
        self.woken.notify_one();
    }

    /// Asks the place to fill slots, unless it was asked at this watermark before.
    fn ask(&mut self, item: &LockItem) {
        if self.asked.replace(item.watermark) != Some(item.watermark) {
            self.tell(item);
        }
    }

    fn leaves(&self) -> bool {
        matches!(self.row, Own::Leaves)
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Notifies the places that hold the lock by this item.
    pub(super) fn saw(&mut self, item: &LockItem) {
        for holder in item.holders() {
            if let Some(promoted) = self.waiting.get_mut(&holder.ticket)
                && promoted.nonce == holder.nonce
            {
                promoted.tell(item);
            }
        }
    }

    /// The ticket of the first place behind the slots that is not leaving, if it is time to fill slots again.
    fn fills_slots(&self, item: &LockItem, slots: usize) -> Option<Ticket> {
        let mut stay = self.behind(item.watermark).filter(|(_, own)| !own.leaves());
        let (first, _) = stay
            .next()
            .filter(|_| item.successors().len() <= slots / 2)?;
        Some(*first)
    }

    fn behind(&self, watermark: Ticket) -> impl Iterator<Item = (&Ticket, &Waiting)> {
        let behind = (Bound::Excluded(watermark), Bound::Unbounded);
        self.waiting.range(behind)
    }

    fn rows(&self, watermark: Ticket, max: usize) -> Vec<TicketRow> {
        let mut next = watermark.next();
        let rows = self.behind(watermark).map_while(|(ticket, own)| {
            let is_next = next.replace(ticket.next()?) == Some(ticket.first_of(own.tickets));
            let entry = own.row.waiting().cloned().filter(|_| is_next)?;
            Some(TicketRow {
                ticket: *ticket,
                tickets: entry.tickets,
                state: RowState::Waiting(entry),
                expires_at: 0,
            })
        });
        rows.take(max).collect()
    }

    /// Whether all places that wait before a ticket are of this client, by this lock item.
    pub(super) fn is_alone(&self, item: &LockItem, ticket: Ticket) -> bool {
        let mut before = item
            .successors()
            .iter()
            .take_while(|successor| successor.ticket < ticket);
        let is_own = |entry: &Entry| {
            let own = self.waiting.get(&entry.ticket);
            own.is_some_and(|own| own.nonce == entry.nonce)
        };
        !self.is_empty() && before.all(is_own) && self.reaches(item.watermark, ticket)
    }

    /// Whether the places behind the slots stand without a gap up to a ticket, or up to where that ticket's own place begins.
    fn reaches(&self, watermark: Ticket, ticket: Ticket) -> bool {
        let mut next = watermark.next();
        for (at, own) in self.behind(watermark) {
            if next.is_some_and(|next| next >= ticket) {
                break;
            }
            if Some(at.first_of(own.tickets)) > next {
                return false;
            }
            if *at >= ticket {
                return true;
            }
            next = at.next();
        }
        next.is_some_and(|next| next >= ticket)
    }
}

impl Directory {
    /// Adds a place that waits, until its membership is dropped.
    pub(in crate::client_state) fn waits(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Ticket,
        nonce: Nonce,
        tickets: u64,
    ) -> Membership {
        let woken = Arc::new(Notify::new());
        let waiting = Waiting {
            nonce,
            tickets,
            row: Own::default(),
            news: None,
            asked: None,
            woken: Arc::clone(&woken),
        };
        let mut state = self.state();
        state.known(name).queue.waiting.insert(ticket, waiting);
        Membership {
            directory: Arc::clone(self),
            name: name.clone(),
            ticket,
            woken,
        }
    }

    /// Notes that a place of this client handed the lock off. If it is time to fill slots again, notifies the first place in the queue that
    /// is not leaving.
    pub(in crate::client_state) fn note_handoff(
        &self,
        name: &LockName,
        item: &LockItem,
        slots: usize,
    ) {
        let mut state = self.state();
        if let Some(Known { queue, .. }) = state.locks.get_mut(name)
            && let Some(first) = queue.fills_slots(item, slots)
            && let Some(own) = queue.waiting.get_mut(&first)
        {
            own.asked = Some(item.watermark);
            own.tell(item);
        }
    }

    /// Notes that a place of this client came from a slot to the lock. Others may hold the lock too, so there may be slots to fill before
    /// any holder hands it off. Notifies the first place in the queue if only places of this client are before it, which is why it polls
    /// rarely.
    pub(in crate::client_state) fn came_in(&self, name: &LockName, item: &LockItem, slots: usize) {
        let mut state = self.state();
        if let Some(Known { queue, .. }) = state.locks.get_mut(name)
            && let Some(first) = queue.fills_slots(item, slots)
            && queue.is_alone(item, first)
            && let Some(own) = queue.waiting.get_mut(&first)
        {
            own.ask(item);
        }
    }

    /// Notes rows that a place of this client has read as void, with the nonces of their waiters. A waiter of this client learns of that by its
    /// next renewal. Until then no other place of the client gives it a slot by what it showed before.
    pub(in crate::client_state) fn are_void(
        &self,
        name: &LockName,
        rows: impl Iterator<Item = (Ticket, Nonce)>,
    ) {
        let mut rows = rows.peekable();
        // As after most polls.
        if rows.peek().is_none() {
            return;
        }
        let mut state = self.state();
        let Some(Known { queue, .. }) = state.locks.get_mut(name) else {
            return;
        };
        for (ticket, nonce) in rows {
            let own = queue.waiting.get_mut(&ticket);
            if let Some(own) = own.filter(|own| own.nonce == nonce) {
                own.row = Own::Leaves;
            }
        }
    }

    /// The first rows behind the slots, as far as they are of this client.
    pub(in crate::client_state) fn rows(
        &self,
        name: &LockName,
        watermark: Ticket,
        max: usize,
    ) -> Vec<TicketRow> {
        let state = self.state();
        let known = state.locks.get(name);
        known.map_or_else(Vec::new, |known| known.queue.rows(watermark, max))
    }
}

/// A place's membership in the directory's queue of its lock. Dropping it removes the place.
#[derive(Debug)]
pub(crate) struct Membership {
    directory: Arc<Directory>,
    name: LockName,
    ticket: Ticket,
    woken: Arc<Notify>,
}

impl Membership {
    /// Ends when another place of this client has seen a lock item that concerns this place. Cancel safe. Each pass of the loop is a
    /// wake-up. A wake-up without news belongs to news that was already taken.
    pub(crate) async fn news(&self) -> LockItem {
        loop {
            if let Some(item) = self.own(|own| own.news.take()).flatten() {
                return item;
            }
            self.woken.notified().await;
        }
    }

    /// Notes what the row of this waiter shows, so that another waiter that fills slots need not read it. A waiter that leaves no longer
    /// shows its row.
    pub(crate) fn shows(&self, row: &Option<Entry>) {
        self.own(|own| {
            if !own.leaves() {
                own.row = row
                    .clone()
                    .map_or(Own::Unseen, |row| Own::Waits(Box::new(row)));
            }
        });
    }

    /// Takes the row back for good, before the waiter sends that it leaves. Otherwise another waiter could fill a slot by this row after
    /// the departure. Its write would apply: the lock item that it relies on already counts the departure, and the write's condition asks
    /// for that item's `departures`.
    pub(crate) fn leaves(&self) {
        self.own(|own| own.row = Own::Leaves);
    }

    fn own<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> Option<T> {
        let mut state = self.directory.state();
        let known = state.locks.get_mut(&self.name)?;
        known.queue.waiting.get_mut(&self.ticket).map(change)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.directory.state();
        state.change(&self.name, |known| {
            known.queue.waiting.remove(&self.ticket);
        });
    }
}
