//! A waiter in the queue: it polls, keeps its place renewed, clears expired entries and gaps out of its way, and has its turn.

mod keep;
mod notified;
mod overlapping_polls;

use std::time::Duration;

pub(crate) use notified::Notified;

use crate::attempt::Attempt;
use crate::name::LockName;
use crate::place_id::PlaceId;
use crate::place_writes;
use crate::removal;
use crate::requests::{Requests, RetryPolicy};
use crate::snapshot::{self, Snapshot};
use crate::store::{Timed, Write, all_of};
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{ItemPosition, LockItem, RowState, TicketRow};
use fairlock_protocol::judge::Judge;
use fairlock_protocol::lease::RenewalHistory;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::PollSchedule;
use fairlock_protocol::place::Act;
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::step::{self, Filling, Known, QueuePosition, Step};
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::write::LockWrite;

/// The wait of a ticket for its turn.
#[derive(Debug)]
pub(crate) struct Waiter {
    requests: Requests,
    name: LockName,
    pub(crate) attempt: Attempt,
    pub(crate) ticket: Ticket,
    pub(crate) beats: RenewalHistory,
    /// The entry that its row showed when it was last written, if the waiter has a row.
    pub(crate) row: Option<Entry>,
    judge: Judge,
    /// What the answer to the snapshot told of the time.
    reading: Reading,
    pub(crate) pace: PollSchedule,
    snapshot: Snapshot,
    /// When the snapshot arrived.
    polled: Moment,
    /// When the row was last renewed while it was in the queue, and for which lease. A slot is renewed by what it shows.
    row_renewed: Moment,
    row_lease: Duration,
    poll_due: Moment,
    /// The row was renewed since the last poll, so the snapshot decides nothing more.
    pub(crate) is_spent: bool,
    /// The watermark, up to which every ticket is settled or on the lock item, and since when this waiter has seen it there.
    watermark: (Ticket, Moment),
    /// A poll that was sent before the last one was answered.
    ahead: Option<overlapping_polls::Sent>,
    /// When the rows were last read and watched.
    rows_read: Option<Moment>,
    /// The row was found void: the ticket will be granted only if it got a slot before.
    is_void: bool,
    /// The row was not there to be renewed, so the queue must be read.
    is_row_missing: bool,
    settled_rows: Vec<Ticket>,
    path: notified::Path,
}

impl Waiter {
    /// A waiter whose place the answer shows. If it has only a row, the answer drew its ticket.
    pub(crate) fn new(
        requests: Requests,
        name: LockName,
        attempt: Attempt,
        ticket: Ticket,
        beats: RenewalHistory,
        answer: Timed<LockItem>,
        pace: PollSchedule,
    ) -> Self {
        let judge = Judge::of(attempt.nonce, ticket);
        let mut waiter = Waiter {
            name,
            attempt,
            ticket,
            beats,
            row: None,
            judge,
            reading: answer.reading,
            pace,
            snapshot: Snapshot::of(answer.value.clone()),
            polled: answer.arrived,
            row_renewed: answer.sent,
            row_lease: requests.store.config().lease,
            poll_due: answer.sent,
            is_spent: false,
            watermark: (answer.value.watermark, answer.arrived),
            ahead: None,
            rows_read: None,
            is_void: false,
            is_row_missing: false,
            settled_rows: Vec::new(),
            path: notified::Path::default(),
            requests,
        };
        waiter.saw(answer.map(Snapshot::of));
        waiter
    }

    /// The lock item as the last poll showed it.
    pub(crate) fn item(&self) -> &LockItem {
        &self.snapshot.item
    }

    pub(crate) fn place_id(&self) -> PlaceId {
        self.attempt.place_id(&self.name, self.ticket)
    }

    /// How many turns are before this waiter, the holder's included. Callers that share the lock count as one. Void tickets count
    /// until they are seen.
    pub(crate) fn position(&self) -> usize {
        let item = &self.snapshot.item;
        let before = match self.item_position() {
            Some(ItemPosition::Has(..)) => 0,
            Some(ItemPosition::Successor(index, _)) => item.turns_before(index),
            None => {
                let behind = self.behind_the_slots().saturating_sub(1);
                item.turns_before(usize::MAX).saturating_add(behind)
            }
        };
        usize::try_from(before).unwrap_or(usize::MAX)
    }

    /// Where the last poll showed the waiter on the lock item.
    fn item_position(&self) -> Option<ItemPosition<'_>> {
        self.snapshot
            .item
            .position_of_place(self.attempt.nonce, self.ticket)
    }

    /// Whether the last poll showed the waiter behind the slots.
    pub(crate) fn is_queued(&self) -> bool {
        self.item_position().is_none()
    }

    /// The number of tickets from the last one with a slot to the first of this waiter's.
    fn behind_the_slots(&self) -> u64 {
        let first = self.ticket.first_of(self.attempt.tickets);
        first
            .get()
            .saturating_sub(self.snapshot.item.watermark.get())
    }

    /// Takes the rows that the steps of this waiter have settled, for the client to delete.
    pub(crate) fn take_settled_rows(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.settled_rows)
    }

    /// Whether the steps of this waiter have settled rows that were not taken since: a fill was its own.
    pub(crate) fn has_settled_rows(&self) -> bool {
        !self.settled_rows.is_empty()
    }

    /// The step for which the newest snapshot asks.
    pub(crate) fn decide(&self) -> Step {
        let (judge, now) = (&self.judge, self.requests.store.judges(self.reading));
        let view = judge.view(&self.snapshot, &now);
        let expired = |gap| judge.expired(&self.snapshot.item, &now, gap);
        let slots = self.requests.store.config().filled_slots;
        let step = match step::next_step(&view, self.ticket, slots, expired) {
            Step::ReadOn if !self.fills_slots() => Step::Wait(QueuePosition::Queue),
            step => step,
        };
        match step {
            Step::Wait(QueuePosition::Queue) if self.is_void => Step::Retire,
            step => step,
        }
    }

    /// Does what its place asks for by the newest snapshot, and takes in the snapshot that comes of it. Gives up when a renewal
    /// is due. Returns `None` if there is no lock item any more.
    pub(crate) async fn carry_out(
        &mut self,
        act: Act,
        policy: &RetryPolicy,
    ) -> Result<Option<()>, Failure> {
        let brief = self.until_due(policy);
        let (requests, name, seen) = (&self.requests, &self.name, &self.snapshot);
        match act {
            Act::Remove(removal) => {
                let removed = removal::carry_out(requests, name, &brief, seen, &removal).await?;
                match removed.shown {
                    Some(answer) => Ok(self.saw_item(answer)),
                    None => self.read_queue(&brief).await,
                }
            }
            Act::Admit(successors) => {
                let item = &seen.item;
                let (first, admitted) = (item.first_successor(), &item.successors()[..successors]);
                let admit = || place_writes::admit(&requests.store, name, first, admitted);
                let answer = requests.retry(&brief, admit).await?;
                Ok(self.saw_item(answer.map(Write::shown)))
            }
            Act::Fill(filling) => self.fill(filling, &brief).await,
            // Reads on: no other act comes here.
            _ => {
                let further =
                    snapshot::read_on((seen.clone(), self.reading), requests, name, &brief).await?;
                Ok(further.map(|further| self.saw(further)))
            }
        }
    }

    /// Gives slots to the next in the queue. The rows up to the watermark are settled then, and kept in `settled_rows`.
    async fn fill(
        &mut self,
        filling: Filling,
        policy: &RetryPolicy,
    ) -> Result<Option<()>, Failure> {
        let before = self.snapshot.clone();
        let found = filling.found.iter();
        let found: Vec<_> = found
            .filter_map(|at| before.waiting(*at).cloned())
            .collect();
        let own = &self.attempt;
        let unanswered = Attempt::new(own.nonce, own.tickets, own.permits);
        let (store, name, item) = (&self.requests.store, &self.name, &before.item);
        let fill = || async {
            let (permits, slots) = (all_of(name), store.config().filled_slots);
            let filled = (&found[..], filling.watermark);
            let write = LockWrite::fill(permits, item, filled, slots, store.stamps().server);
            unanswered.note(store.write(name, &write).await)
        };
        let answer = self.requests.retry(policy, fill).await?;
        let is_ours = answer.value.is_applied() || unanswered.is_in_doubt();
        let taken = self.saw_item(answer.map(Write::shown));
        if is_ours {
            let settled_rows = before.settled_rows(self.snapshot.item.watermark);
            self.settled_rows.extend(settled_rows.map(|row| row.ticket));
        }
        Ok(taken)
    }

    /// The void rows that the newest poll has read, with the nonces of their waiters.
    pub(crate) fn void_rows(&self) -> impl Iterator<Item = (Ticket, Nonce)> {
        let rows = self.snapshot.rows.iter();
        rows.filter_map(|row| match row.state {
            RowState::Void(nonce) => Some((row.ticket, nonce?)),
            RowState::Waiting(_) => None,
        })
    }

    /// Adds rows that are known without a read: those of this client, if they reach from the slots to this waiter.
    pub(crate) fn knows(&mut self, rows: impl FnOnce(Ticket, usize) -> Vec<TicketRow>) {
        let (watermark, slots) = (
            self.snapshot.item.watermark,
            self.requests.store.config().filled_slots,
        );
        let is_near = self.ticket > watermark && self.behind_the_slots() <= slots as u64;
        if self.snapshot.known == Known::Nothing && is_near {
            let rows = rows(watermark, slots + 1);
            if rows.iter().any(|row| row.ticket == self.ticket) {
                self.snapshot.know(rows);
            }
        }
    }

    /// Takes in a lock item that the answer to another request of this client showed.
    pub(crate) fn hear(&mut self, item: LockItem) {
        let now = self.requests.store.now();
        // A poll of another place may be older than the newest answer.
        self.reading.date = None;
        self.shows(Snapshot::of(item), now);
    }

    /// The first ticket of the holder, by which turns are counted.
    fn holder(&self) -> Option<Ticket> {
        let holder = self.snapshot.item.first_holder();
        holder.map(Entry::first)
    }

    /// Takes in a snapshot of the lock item alone. Returns `None` if there is no lock item.
    fn saw_item(&mut self, answer: Timed<Option<LockItem>>) -> Option<()> {
        let item = answer.transpose()?;
        self.saw(item.map(Snapshot::of));
        Some(())
    }

    fn saw(&mut self, snapshot: Timed<Snapshot>) {
        self.pace.timed(snapshot.sent, snapshot.arrived);
        self.reading = snapshot.reading;
        self.shows(snapshot.value, snapshot.arrived);
    }

    fn shows(&mut self, snapshot: Snapshot, arrived: Moment) {
        if snapshot.item.watermark != self.watermark.0 {
            self.watermark = (snapshot.item.watermark, arrived);
        }
        (self.snapshot, self.polled) = (snapshot, arrived);
        self.is_spent = false;
        self.watch(arrived);
        self.pace.saw(self.holder(), arrived);
    }

    /// Watches all entries that the snapshot shows, and its gaps, from its arrival on.
    fn watch(&mut self, arrived: Moment) {
        self.judge.saw(&self.snapshot, self.ticket, arrived);
        if self.snapshot.known != Known::Nothing {
            self.rows_read = Some(arrived);
            self.is_row_missing = false;
        }
    }
}
