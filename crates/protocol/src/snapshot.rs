//! A snapshot of a lock: the lock item, and the rows behind it as far as they were read.

use std::sync::Arc;

use crate::entry::Entry;
use crate::item::{LockItem, RowState, TicketRow};
use crate::lease::EntryLocation;
use crate::step::{JudgedSnapshot, Known, Occupant, Row, RowAt};
use crate::ticket::{Sequence, Ticket};

/// What a poll has read of a lock. `Next` says where the rows go on.
#[derive(Clone, Debug)]
pub struct Snapshot<Next> {
    /// The lock item.
    pub item: Arc<LockItem>,
    /// In ticket order.
    pub rows: Vec<TicketRow>,
    /// How far the rows were read.
    pub known: Known,
    /// Where to read on. `None` if no row was read yet, or all were.
    pub next: Option<Next>,
}

impl<Next> Snapshot<Next> {
    /// A snapshot of the lock item alone.
    pub fn of(item: impl Into<Arc<LockItem>>) -> Self {
        Snapshot {
            item: item.into(),
            rows: Vec::new(),
            known: Known::Nothing,
            next: None,
        }
    }

    /// Adds the first rows behind the slots to a snapshot of the lock item alone.
    pub fn know(&mut self, rows: Vec<TicketRow>) {
        if let Some(row) = rows.last() {
            self.known = Known::UpTo(row.ticket);
        }
        self.rows = rows;
    }

    /// Adds the rows that were read further.
    pub fn with(mut self, rows: Vec<TicketRow>, next: Option<Next>) -> Self {
        self.rows.extend(rows);
        let read_to = self.rows.last().map_or(Ticket::default(), |row| row.ticket);
        self.known = match next {
            None => Known::All,
            Some(_) => Known::UpTo(read_to),
        };
        self.next = next;
        self
    }

    /// Up to where a read that goes on may skip rows: they are settled, and no page has shown them yet.
    pub fn skips_to(&self) -> Option<Ticket> {
        let watermark = self.item.watermark;
        let last = self.rows.last();
        last.is_some_and(|row| row.ticket < watermark)
            .then_some(watermark)
    }

    /// Whether the snapshot shows what stands at a place.
    pub fn covers(&self, place: EntryLocation) -> bool {
        match place {
            EntryLocation::LockItem => true,
            EntryLocation::Row(ticket) => self.known.covers(ticket),
        }
    }

    /// All entries that the snapshot shows, with their places.
    pub fn entries(&self) -> impl Iterator<Item = (EntryLocation, &Entry)> {
        let waiting = self.rows.iter().filter_map(|row| {
            row.waiting()
                .map(|entry| (EntryLocation::Row(row.ticket), entry))
        });
        self.item
            .entries()
            .map(|entry| (EntryLocation::LockItem, entry))
            .chain(waiting)
    }

    /// The entry in the waiting row of a ticket.
    pub fn waiting(&self, ticket: Ticket) -> Option<&Entry> {
        let index = self
            .rows
            .binary_search_by_key(&ticket, |row| row.ticket)
            .ok()?;
        self.rows[index].waiting()
    }

    /// Gaps after `watermark` and up to `end`, each from its first to its last ticket, as far as the rows that were read show
    /// them.
    pub fn gaps(&self, end: Ticket) -> impl Iterator<Item = (Ticket, Ticket)> {
        let end = end.min(self.item.last).min(self.known.end());
        let behind = self
            .rows
            .partition_point(|row| row.ticket <= self.item.watermark);
        let rows = self.rows[behind..].iter();
        let before = rows.map(|row| (row.first().before(), row.ticket));
        let ends = before.chain([(Some(end), end)]);
        let gaps = ends.scan(self.item.watermark, move |passed, (last, ticket)| {
            let first = passed.next();
            *passed = ticket;
            Some(first.zip(last.map(|last| last.min(end))))
        });
        gaps.flatten().filter(|(first, last)| first <= last)
    }

    /// Rows at or below `watermark`: no client decides by them any more, and they are of no more use.
    pub fn settled_rows(&self, watermark: Ticket) -> impl Iterator<Item = &TicketRow> {
        self.rows
            .iter()
            .take_while(move |row| row.ticket <= watermark)
    }

    /// The snapshot with every entry in it judged.
    pub fn digest(&self, judge: impl Fn(EntryLocation, &Entry) -> Occupant) -> JudgedSnapshot {
        let row = |at: &TicketRow| RowAt {
            first: at.first(),
            ticket: at.ticket,
            row: match &at.state {
                RowState::Waiting(entry) => {
                    Row::Waiting(judge(EntryLocation::Row(at.ticket), entry))
                }
                RowState::Void(_) => Row::Void,
            },
        };
        let item = &self.item;
        let on_item = |entry| judge(EntryLocation::LockItem, entry);
        JudgedSnapshot {
            holder: item.holder().map(on_item),
            sharers: item.sharers.iter().map(on_item).collect(),
            successors: item.successors().iter().map(on_item).collect(),
            admitted: item.admitted(),
            rows: self.rows.iter().map(row).collect(),
            last: item.last,
            watermark: item.watermark,
            known: self.known,
        }
    }
}
