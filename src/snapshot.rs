//! A snapshot of a lock: the lock item, and the rows behind it as far as they were read.

use crate::name::LockName;
use crate::queue::{self, Cursor, Page};
use crate::store::{RetryPolicy, Store, Timed};
use fairlock_protocol::entry::{Entry, ServerTime};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{LockItem, RowState, TicketRow};
use fairlock_protocol::lease::{self, EntryLocation};
use fairlock_protocol::step::{JudgedSnapshot, Known, Occupant, Row, RowAt};
use fairlock_protocol::ticket::{Sequence, Ticket};

/// Rows read at a time, besides the lock item and as many rows as there are slots. Most of these rows are settled.
const SPARE_ROWS: usize = 16;
/// The most rows behind the slots that are read at once, and so watched.
pub(crate) const WATCHED: usize = 128;

#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) item: LockItem,
    pub(crate) rows: Vec<TicketRow>,
    pub(crate) known: Known,
    next: Option<Cursor>,
}

impl Snapshot {
    /// A snapshot of the lock item alone.
    pub(crate) fn of(item: LockItem) -> Self {
        Snapshot {
            item,
            rows: Vec::new(),
            known: Known::Nothing,
            next: None,
        }
    }

    /// The snapshot in an answer that shows the lock item alone. Returns `None` if there is no lock item.
    pub(crate) fn answered(answer: Timed<Option<LockItem>>) -> Option<Timed<Snapshot>> {
        Some(answer.transpose()?.map(Snapshot::of))
    }

    /// Reads the lock item and the first rows behind it, `rows` of them or a few more. Returns `None` if there is no lock item.
    pub(crate) async fn read(
        store: &Store,
        name: &LockName,
        rows: usize,
        policy: &RetryPolicy,
    ) -> Result<Option<Timed<Snapshot>>, Failure> {
        let limit = 1 + store.config().filled_slots + SPARE_ROWS + rows.min(WATCHED);
        let answer = store
            .retry_read(policy, || queue::read(store, name, None, limit))
            .await?;
        let snapshot = answer
            .map(|Page { lock, rows, next }| lock.map(|item| Snapshot::of(item).with(rows, next)));
        Ok(snapshot.transpose())
    }

    /// Reads the next rows, or the first ones. Skips settled rows that no page has shown yet, however many there are. Returns
    /// `None` if there is no lock item any more.
    pub(crate) async fn read_on(
        mut self,
        store: &Store,
        name: &LockName,
        policy: &RetryPolicy,
    ) -> Result<Option<Timed<Snapshot>>, Failure> {
        let Some(cursor) = self.next.take() else {
            return Snapshot::read(store, name, 0, policy).await;
        };
        let watermark = self.item.watermark;
        let is_in_settled_rows = self.rows.last().is_some_and(|row| row.ticket < watermark);
        let cursor = match is_in_settled_rows {
            true => queue::behind(store, name, watermark),
            false => cursor,
        };
        let limit = store.config().filled_slots + SPARE_ROWS;
        let read = || queue::read(store, name, Some(cursor.clone()), limit);
        let answer = store.retry_read(policy, read).await?;
        Ok(Some(answer.map(|page| self.with(page.rows, page.next))))
    }

    /// Adds the first rows behind the slots to a snapshot of the lock item alone.
    pub(crate) fn know(&mut self, rows: Vec<TicketRow>) {
        if let Some(row) = rows.last() {
            self.known = Known::UpTo(row.ticket);
        }
        self.rows = rows;
    }

    /// Adds the rows that were read further.
    fn with(mut self, rows: Vec<TicketRow>, next: Option<Cursor>) -> Self {
        self.rows.extend(rows);
        let read_to = self.rows.last().map_or(Ticket::default(), |row| row.ticket);
        self.known = if next.is_none() {
            Known::All
        } else {
            Known::UpTo(read_to)
        };
        self.next = next;
        self
    }

    /// Whether the snapshot shows what stands at a place.
    pub(crate) fn covers(&self, place: EntryLocation) -> bool {
        match place {
            EntryLocation::LockItem => true,
            EntryLocation::Row(ticket) => self.known.covers(ticket),
        }
    }

    /// All entries that the snapshot shows, with their places.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (EntryLocation, &Entry)> {
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
    pub(crate) fn waiting(&self, ticket: Ticket) -> Option<&Entry> {
        let index = self
            .rows
            .binary_search_by_key(&ticket, |row| row.ticket)
            .ok()?;
        self.rows[index].waiting()
    }

    /// Gaps after `watermark` and up to `end`, each from its first to its last ticket, as far as the rows that were read show
    /// them.
    pub(crate) fn gaps(&self, end: Ticket) -> impl Iterator<Item = (Ticket, Ticket)> {
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
    pub(crate) fn settled_rows(&self, watermark: Ticket) -> impl Iterator<Item = &TicketRow> {
        self.rows
            .iter()
            .take_while(move |row| row.ticket <= watermark)
    }

    /// The snapshot with every entry in it judged.
    pub(crate) fn digest(
        &self,
        judge: impl Fn(EntryLocation, &Entry) -> Occupant,
    ) -> JudgedSnapshot {
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
            last: self.item.last,
            watermark: self.item.watermark,
            known: self.known,
        }
    }
}

/// Judges by DynamoDB's own clock alone, for a client that has not watched the entry.
pub(crate) fn by_server_clock(store: &Store, entry: &Entry, now: Option<ServerTime>) -> Occupant {
    let is_over = lease::is_over(entry, store.config().allowance, now);
    if is_over || lease::ended_before(entry, store.boot_began()) {
        Occupant::Dead
    } else {
        Occupant::Alive
    }
}

/// Whether the newest ticket was drawn so long ago, by DynamoDB's own clock, or by a process of an earlier boot, that no row of it can be
/// under way.
pub(crate) fn gaps_are_over(store: &Store, item: &LockItem, now: Option<ServerTime>) -> bool {
    let join_timeout = item.join_timeout(store.config().join_timeout);
    let span = join_timeout.saturating_add(store.config().allowance);
    lease::is_past(item.drawn_at, span, now) || lease::is_before(item.drawn_at, store.boot_began())
}
