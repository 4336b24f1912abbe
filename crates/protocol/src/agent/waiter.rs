//! A place in the queue, as its owner knows it: what it has seen, when it polls, and when it is renewed.

use std::sync::Arc;
use std::time::Duration;

use super::context::{Attempt, Context};
use super::path::Path;
use super::waiting::Stand;
use super::{Cursor, Note};
use crate::entry::Entry;
use crate::item::{ItemPosition, LockItem};
use crate::judge::Judge;
use crate::lease::{self, RenewalHistory};
use crate::moment::Moment;
use crate::pace::{PollPosition, PollSchedule};
use crate::snapshot::Snapshot;
use crate::stamps::Reading;
use crate::step::{self, Known, QueuePosition, Step};
use crate::ticket::{Sequence, Ticket};

/// A waiter this near to its slot watches the rows before it with every poll, to see when their owners die.
pub(super) const NEAR: u64 = 32;
/// A waiter up to this far back does so once a heartbeat. A waiter further back reads only the lock item.
const FAR: u64 = 128;
/// A `Date` has whole seconds, so the end that it tells may come a little later than it seems: polls that look for it are this far apart.
const SOON: Duration = Duration::from_millis(100);

/// When an answer was sent for and came, and what it told of the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) sent: Moment,
    pub(super) arrived: Moment,
    pub(super) reading: Reading,
}

impl Heard {
    /// Nothing was heard.
    pub(super) const NEVER: Heard = Heard {
        sent: Moment(Duration::ZERO),
        arrived: Moment(Duration::ZERO),
        reading: Reading::UNTOLD,
    };
}

pub(super) struct Waiter {
    pub(super) attempt: Attempt,
    pub(super) ticket: Ticket,
    /// How many permits it waits for.
    permits: u64,
    pub(super) beats: RenewalHistory,
    pub(super) snapshot: Snapshot<Cursor>,
    /// What the answer to the snapshot told of the time.
    pub(super) reading: Reading,
    pub(super) pace: PollSchedule,
    pub(super) judge: Judge,
    /// When the snapshot arrived.
    pub(super) polled: Moment,
    /// When the row was last renewed while it was in the queue, and for which lease. A slot is renewed by what it shows.
    row_renewed: (Moment, Duration),
    poll_due: Moment,
    /// Up to where every ticket is settled or on the lock item, and since when that was seen.
    watermark: (Ticket, Moment),
    /// When the rows were last read and watched.
    rows_read: Option<Moment>,
    /// The row was found void: the ticket will be granted only if it got a slot before.
    pub(super) is_void: bool,
    /// The row was not there to be renewed, so the queue must be read.
    pub(super) is_row_missing: bool,
    /// It has a slot, or its row.
    pub(super) is_in: bool,
    /// The last poll found no lock item.
    pub(super) is_lock_gone: bool,
    pub(super) path: Path,
}

impl Waiter {
    /// A waiter of which the answer shows its place, or the draw of its ticket.
    pub(super) fn new(
        attempt: Attempt,
        (ticket, beats): (Ticket, RenewalHistory),
        (item, heard): (Arc<LockItem>, Heard),
        (pace, lease, permits): (PollSchedule, Duration, u64),
    ) -> Self {
        let mut waiter = Waiter {
            judge: Judge::of(attempt.nonce, ticket),
            attempt,
            ticket,
            permits,
            beats,
            snapshot: Snapshot::of(Arc::clone(&item)),
            reading: heard.reading,
            pace,
            polled: heard.arrived,
            row_renewed: (heard.sent, lease),
            poll_due: heard.sent,
            watermark: (item.watermark, heard.arrived),
            rows_read: None,
            is_void: false,
            is_row_missing: false,
            is_in: false,
            is_lock_gone: false,
            path: Path::default(),
        };
        waiter.saw(Snapshot::of(item), heard);
        waiter.is_in = waiter.position().is_some();
        waiter
    }

    /// How many turns come before its first one. `None` if it was passed.
    pub(super) fn turns_before(&self) -> Option<u64> {
        let item = self.item();
        match self.position() {
            Some(ItemPosition::Has(..)) => Some(0),
            Some(ItemPosition::Successor(index, _)) => Some(item.turns_before(index)),
            None => {
                let behind = self.behind_the_slots().checked_sub(1)?;
                Some(item.turns_before(usize::MAX).saturating_add(behind))
            }
        }
    }

    /// It has come into the queue.
    pub(super) fn joined(&self) -> Note {
        Note::Joined(self.ticket, self.turns_before().unwrap_or_default())
    }

    pub(super) fn stands(&self) -> Stand {
        Stand {
            position: self.turns_before(),
            place: Some(self.attempt.stood(self.ticket)),
            turn: self.pace.mean(),
            item: Some(Arc::clone(&self.snapshot.item)),
        }
    }

    fn item(&self) -> &LockItem {
        &self.snapshot.item
    }

    /// Where the last poll showed it on the lock item.
    pub(super) fn position(&self) -> Option<ItemPosition<'_>> {
        self.item()
            .position_of_place(self.attempt.nonce, self.ticket)
    }

    /// The number of tickets from the last one with a slot to its first one.
    pub(super) fn behind_the_slots(&self) -> u64 {
        let (first, watermark) = (
            self.ticket.first_of(self.attempt.tickets),
            self.item().watermark,
        );
        first.get().saturating_sub(watermark.get())
    }

    /// The step for which the newest snapshot asks.
    pub(super) fn decide(&self, cx: &Context<'_>) -> Step {
        let now = cx.clocks.judges(self.reading, cx.terms.join_timeout);
        let view = self.judge.view(&self.snapshot, &now);
        let expired = |gap| self.judge.expired(self.item(), &now, gap);
        let slots = cx.terms.filled_slots;
        let step = match step::next_step(&view, self.ticket, slots, expired) {
            Step::ReadOn if !self.fills_slots(cx) => Step::Wait(QueuePosition::Queue),
            step => step,
        };
        match step {
            Step::Wait(QueuePosition::Queue) if self.is_void => Step::Retire,
            step => step,
        }
    }

    /// Whether it fills slots. A waiter far from a slot leaves that to those near one, unless none of them does. A waiter that is notified
    /// of its slot leaves it to the next ones.
    fn fills_slots(&self, cx: &Context<'_>) -> bool {
        let stands_still = cx.now().since(self.watermark.1) >= cx.terms.heartbeat;
        let near = match self.is_told_of_slots(cx) {
            true => (cx.terms.filled_slots as u64).max(1),
            false => NEAR,
        };
        stands_still || self.item().is_free() || self.behind_the_slots() <= near
    }

    /// Takes in a snapshot.
    pub(super) fn saw(&mut self, snapshot: Snapshot<Cursor>, heard: Heard) {
        self.pace.timed(heard.sent, heard.arrived);
        self.reading = heard.reading;
        self.shows(snapshot, heard.arrived);
    }

    /// Takes in a lock item that the answer to another request of this client showed. It may be older than the newest answer.
    pub(super) fn hears(&mut self, item: Arc<LockItem>, now: Moment) {
        self.reading.date = None;
        self.shows(Snapshot::of(item), now);
    }

    fn shows(&mut self, snapshot: Snapshot<Cursor>, arrived: Moment) {
        if snapshot.item.watermark != self.watermark.0 {
            self.watermark = (snapshot.item.watermark, arrived);
        }
        (self.snapshot, self.polled) = (snapshot, arrived);
        self.judge.saw(&self.snapshot, self.ticket, arrived);
        if self.snapshot.known != Known::Nothing {
            self.rows_read = Some(arrived);
            self.is_row_missing = false;
        }
        let holder = self.item().first_holder().map(Entry::first);
        self.pace.saw(holder, arrived);
    }

    /// The row was renewed by a write of then, for this lease.
    pub(super) fn row_is_renewed(&mut self, sent: Moment, lease: Duration) {
        self.row_renewed = (sent, lease);
    }
}

/// When it polls, and for which lease it is renewed.
impl Waiter {
    /// Sets the time of the next poll.
    pub(super) fn waits(&mut self, position: QueuePosition, jitter: f64, cx: &Context<'_>) {
        let position = match position {
            QueuePosition::Successor(index) if self.far_back(cx) > 0 => {
                PollPosition::Queue(index as u64 + 1)
            }
            QueuePosition::Successor(index) => PollPosition::Successor(index),
            QueuePosition::Queue if self.is_told_of_slots(cx) => {
                PollPosition::QueueTold(self.turns_to_a_slot(cx))
            }
            QueuePosition::Queue => PollPosition::Queue(self.turns_to_a_slot(cx)),
        };
        self.polls_at(position, jitter, cx);
        self.polls_at_leisure(cx);
    }

    /// Behind places of its own client alone it need not look: what ends those shows its turn. It polls only to make sure.
    fn polls_at_leisure(&mut self, cx: &Context<'_>) {
        let item = Arc::clone(&self.snapshot.item);
        let Some(ItemPosition::Successor(index, _)) = self.position() else {
            return;
        };
        let mut before = item.holders().chain(&item.successors()[..index]);
        if item.is_free() || !before.all(|entry| (cx.is_own)(entry.nonce)) {
            return;
        }
        let (_, longest) = cx.terms.polls;
        let turns = u32::try_from(item.turns_before(index)).unwrap_or(u32::MAX);
        let leisurely = longest.saturating_mul(turns).min(cx.terms.longest_lease());
        self.poll_due = self.poll_due.max(self.polled + leisurely);
        self.polls_when_kept_ends();
    }

    /// The same for another position.
    pub(super) fn polls_at(&mut self, position: PollPosition, jitter: f64, cx: &Context<'_>) {
        let slowed = cx.memory.brake.factor(cx.now());
        let span = self.pace.until_next(position, jitter, slowed, cx.now());
        self.poll_due = cx.now() + span.min(cx.terms.longest_lease());
        self.polls_when_kept_ends();
    }

    /// The first successor polls no later than when a hold that was given back ends, by its own watch or by DynamoDB's clock.
    fn polls_when_kept_ends(&mut self) {
        if !matches!(self.position(), Some(ItemPosition::Successor(0, _))) {
            return;
        }
        let ends = self.item().holders().filter_map(|entry| {
            let until = entry.kept_until()?;
            let left = |now: Duration| until.0.saturating_sub(now).max(SOON);
            let watched = self.judge.dead_at(entry);
            let told = self.reading.date.map(|now| self.polled + left(now.0));
            watched.into_iter().chain(told).min()
        });
        let end = ends.filter(|end| *end > self.polled).min();
        self.poll_due = end.map_or(self.poll_due, |end| self.poll_due.min(end));
    }

    /// Waiters fill slots again when half of those that they fill are free.
    fn turns_to_a_slot(&self, cx: &Context<'_>) -> u64 {
        let kept = self.item().successors().len().min(cx.terms.filled_slots);
        self.behind_the_slots() + kept as u64 / 2
    }

    /// How many turns come before it stands in one of the slots that the queue fills. Callers that share the lock have their turns together, so
    /// none of them is far back, and those before another waiter count as one.
    fn far_back(&self, cx: &Context<'_>) -> u64 {
        let item = self.item();
        let shares = |permits: u64| permits < item.permits;
        match self.position() {
            Some(ItemPosition::Has(..)) => 0,
            _ if shares(self.permits) => 0,
            Some(ItemPosition::Successor(index, _)) => {
                let together = item.successors()[..index].windows(2);
                let together = together.filter(|two| two.iter().all(|it| shares(it.permits)));
                let turns = 1 + index - together.count();
                turns.saturating_sub(cx.terms.filled_slots) as u64
            }
            None => self.behind_the_slots(),
        }
    }

    /// The time until it is not far back any more, if the queue is fast and has been since the last poll.
    fn left(&self, cx: &Context<'_>) -> Duration {
        let left = self.pace.time_of(self.far_back(cx));
        left.saturating_sub(cx.now().since(self.polled))
    }

    /// The lease for which to renew it.
    pub(super) fn lease_to_ask_for(&self, cx: &Context<'_>) -> Duration {
        lease::stretched(cx.terms.lease, cx.terms.longest_lease(), self.left(cx))
    }

    /// When its renewal is due. At once, if the queue got so much faster that its turn would come before its lease ended, should it die.
    pub(super) fn renewal_due(&self, cx: &Context<'_>) -> Moment {
        let terms = cx.terms;
        let is_short = |lease: Duration| lease <= terms.lease.max(self.left(cx));
        match self.position().map(ItemPosition::entry) {
            Some(entry) => {
                let lease = entry.lease.saturating_sub(terms.margin).max(terms.lease);
                let heartbeat = match entry.stamps.server {
                    Some(_) => terms.heartbeat_of(lease),
                    None => cx.clocks.heartbeat(false, terms.heartbeat),
                };
                let expires = self.item().expires_at;
                // It came to an item that TTL may delete before long.
                let is_kept = { cx.clocks }
                    .keeps_for_longer(expires, terms.retention)
                    .is_none();
                match self.beats.established(entry.beat) {
                    Some(sent) if is_short(lease) && is_kept => sent + heartbeat,
                    _ => Moment::default(),
                }
            }
            None => match self.row_renewed {
                (sent, lease) if is_short(lease) => sent + terms.heartbeat_of(lease),
                _ => Moment::default(),
            },
        }
    }

    /// When it is to be polled, or renewed before that.
    pub(super) fn due(&self, cx: &Context<'_>) -> Moment {
        self.poll_due.min(self.renewal_due(cx))
    }

    /// Whether its row, far back, was due to be renewed, and nothing else is to be done yet.
    pub(super) fn needs_no_poll(&self, cx: &Context<'_>) -> bool {
        let is_there = !self.is_void && !self.is_row_missing;
        is_there && self.behind_the_slots() > NEAR && cx.now() < self.poll_due
    }

    /// Whether the next poll reads the rows. A waiter with a slot needs none. A waiter near a slot reads them each
    /// time, and a waiter farther back once a heartbeat.
    pub(super) fn wants_rows(&self, cx: &Context<'_>) -> bool {
        if self.position().is_some() {
            return false;
        }
        let is_recent = |read| cx.now().since(read) < cx.terms.heartbeat;
        let (behind, is_stale) = (
            self.behind_the_slots(),
            !self.rows_read.is_some_and(is_recent),
        );
        self.is_row_missing || behind <= NEAR || behind <= FAR && is_stale
    }

    /// How long after a poll the next one is sent, by a successor that may hold the lock at any moment.
    pub(super) fn overlap(&self, cx: &Context<'_>) -> Option<Duration> {
        if self.path.expects_release {
            return Some(self.pace.second_poll());
        }
        match self.position()? {
            ItemPosition::Successor(before, _)
                if cx.memory.brake.factor(cx.now()) == 1 && !self.is_told(cx) =>
            {
                self.pace.overlap(before, cx.now())
            }
            ItemPosition::Successor(..) | ItemPosition::Has(..) => None,
        }
    }
}
