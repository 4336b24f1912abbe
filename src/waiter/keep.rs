//! When a waiter polls, and how it keeps its place: each renewal of a slot is a poll too.

use std::time::Duration;

use super::Waiter;
use crate::place_writes;
use crate::queue;
use crate::requests::{Requests, RetryPolicy};
use crate::snapshot::{self, WATCHED};
use crate::store::{Timed, Write};
use fairlock_protocol::entry::{Entry, ServerTime};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{Footing, ItemPosition, RowState, TicketRow};
use fairlock_protocol::lease::{self, RenewalHistory};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::PollPosition;
use fairlock_protocol::step::QueuePosition;

/// A waiter this near to its slot watches the rows before it with every poll, to see when their owners die.
const NEAR: u64 = 32;
/// A waiter up to this far back does so once a heartbeat. A waiter further back reads only the lock item: one poll reads no more
/// rows.
const FAR: u64 = WATCHED as u64;
/// A `Date` has whole seconds, so the end that it tells may come a little later than it seems: polls that look for it are this far apart.
const SOON: Duration = Duration::from_millis(100);

impl Waiter {
    /// Polls again: renews a slot that is due, reads the lock item, or reads the queue where the rows are due to be watched. A
    /// row far back that is due before the poll is renewed without one. Returns `None` if there is no lock item any more.
    pub(crate) async fn poll_again(&mut self, policy: &RetryPolicy) -> Result<Option<()>, Failure> {
        let is_due = self.renewal_due() <= self.requests.store.now();
        match self.item_position() {
            Some(ItemPosition::Successor(index, entry)) if is_due => {
                let (item, at) = (&self.snapshot.item, self.snapshot.item.at_successor(index));
                let footing = Footing::of(item, at, entry);
                return self.renew_slot(footing, policy).await;
            }
            None if is_due => {
                self.renew_row(policy).await?;
                let asks = self.is_void || self.is_row_missing;
                if !asks
                    && self.behind_the_slots() > NEAR
                    && self.requests.store.now() < self.poll_due
                {
                    self.is_spent = true;
                    return Ok(Some(()));
                }
            }
            _ => {}
        }
        let brief = self.until_due(policy);
        let polled = if self.wants_rows() {
            self.read_queue(&brief).await
        } else {
            self.read_lock(&brief).await
        };
        match polled {
            Err(failure) if self.gives_way(&failure, policy) => Ok(Some(())),
            polled => polled,
        }
    }

    /// The part of the policy that ends before the next renewal, to which all else gives way.
    pub(super) fn until_due(&self, policy: &RetryPolicy) -> RetryPolicy {
        policy.clone().until(self.renewal_due())
    }

    /// Whether a failure only says that there was no time for more attempts before a renewal.
    pub(crate) fn gives_way(&self, failure: &Failure, policy: &RetryPolicy) -> bool {
        let may_pass = failure.is_transient() || self.requests.waits_out(failure);
        may_pass && self.requests.has_time_left(policy)
    }

    /// Whether the next poll reads the rows. A waiter with a slot needs none. A waiter near a slot reads them each time, and one
    /// farther back once a heartbeat. A waiter still farther back leaves them to others.
    fn wants_rows(&self) -> bool {
        if self.item_position().is_some() {
            return false;
        }
        let heartbeat = self.requests.store.config().heartbeat;
        let is_recent = |read| self.requests.store.now().since(read) < heartbeat;
        let behind = self.behind_the_slots();
        let is_stale = !self.rows_read.is_some_and(is_recent);
        self.is_row_missing || behind <= NEAR || behind <= FAR && is_stale
    }

    /// Whether this waiter fills slots. A waiter far from a slot leaves that to waiters near one, unless none of them does. A waiter that is
    /// notified of its slot leaves it to the next ones.
    pub(super) fn fills_slots(&self) -> bool {
        let config = self.requests.store.config();
        let stands_still = self.requests.store.now().since(self.watermark.1) >= config.heartbeat;
        let near = match self.is_told_of_slots() {
            true => (config.filled_slots as u64).max(1),
            false => NEAR,
        };
        stands_still || self.snapshot.item.is_free() || self.behind_the_slots() <= near
    }

    pub(crate) fn until_next(&mut self, position: QueuePosition) -> Duration {
        let position = match position {
            QueuePosition::Successor(index) if self.far_back() > 0 => {
                PollPosition::Queue(index as u64 + 1)
            }
            QueuePosition::Successor(index) => PollPosition::Successor(index),
            QueuePosition::Queue if self.is_told_of_slots() => {
                PollPosition::QueueTold(self.turns_to_a_slot())
            }
            QueuePosition::Queue => PollPosition::Queue(self.turns_to_a_slot()),
        };
        self.until_next_at(position)
    }

    /// Sets the time of the next poll. Returns how long it is until then, or until a renewal before it.
    pub(super) fn until_next_at(&mut self, position: PollPosition) -> Duration {
        let now = self.requests.store.now();
        let jitter = self.requests.store.config().random_source.jitter();
        let slowed = self.requests.slowed();
        let span = self.pace.until_next(position, jitter, slowed, now);
        self.poll_due = now + span.min(self.requests.store.config().longest_lease());
        self.polls_when_kept_ends();
        self.until_due_poll()
    }

    /// The time until a poll that only makes sure.
    pub(crate) fn at_leisure(&mut self) -> Duration {
        let longest = self.requests.store.config().max_poll_interval;
        let place = u32::try_from(self.position()).unwrap_or(u32::MAX);
        let leisurely = longest.saturating_mul(place);
        let leisurely = leisurely.min(self.requests.store.config().longest_lease());
        self.poll_due = self.poll_due.max(self.polled + leisurely);
        self.polls_when_kept_ends();
        self.until_due_poll()
    }

    /// The first successor polls no later than when a hold that was given back ends, by its own watch or by DynamoDB's clock.
    fn polls_when_kept_ends(&mut self) {
        if !matches!(self.item_position(), Some(ItemPosition::Successor(0, _))) {
            return;
        }
        let kept = self.snapshot.item.holders();
        let ends = kept.filter_map(|entry| {
            let until = entry.kept_until()?;
            let watched = self.judge.dead_at(entry);
            let left = |now: ServerTime| until.0.saturating_sub(now.0).max(SOON);
            let told = self.reading.date.map(|now| self.polled + left(now));
            watched.into_iter().chain(told).min()
        });
        let end = ends.filter(|end| *end > self.polled).min();
        self.poll_due = end.map_or(self.poll_due, |end| self.poll_due.min(end));
    }

    /// The time until the poll that is due, or a renewal before it.
    pub(crate) fn until_due_poll(&self) -> Duration {
        let due = self.poll_due.min(self.renewal_due());
        due.since(self.requests.store.now())
    }

    /// Waiters fill slots again when half of those that they fill are free. Callers that came at once may have taken more. They may also leave
    /// at once, so nobody waits for all of them.
    fn turns_to_a_slot(&self) -> u64 {
        let taken = self.snapshot.item.successors().len();
        let kept = taken.min(self.requests.store.config().filled_slots);
        self.behind_the_slots() + kept as u64 / 2
    }

    pub(super) fn renewal_due(&self) -> Moment {
        match self.item_position() {
            Some(ItemPosition::Has(_, entry) | ItemPosition::Successor(_, entry)) => {
                self.slot_due(entry)
            }
            None => self.row_due(),
        }
    }

    /// How many turns come before this waiter stands in one of the slots that the queue fills. Callers that share the lock have their turns
    /// together, so none of them is far back, and those before another waiter count as one.
    fn far_back(&self) -> u64 {
        let item = &self.snapshot.item;
        let shares = |permits: u64| permits < item.permits;
        if shares(self.attempt.permits) {
            return 0;
        }
        match self.item_position() {
            Some(ItemPosition::Has(..)) => 0,
            Some(ItemPosition::Successor(index, _)) => {
                let before = &item.successors()[..index];
                let together = before.windows(2);
                let together = together.filter(|two| two.iter().all(|it| shares(it.permits)));
                let turns = 1 + index - together.count();
                turns.saturating_sub(self.requests.store.config().filled_slots) as u64
            }
            None => self.behind_the_slots(),
        }
    }

    /// When the renewal of a slot is due. A slot shows the beat that it was given with, so it is due at once if that was long
    /// ago. So is a slot with the long lease of a place far back that is near by now. A slot without a date is due soon.
    fn slot_due(&self, entry: &Entry) -> Moment {
        let config = self.requests.store.config();
        let lease = self.attempt.believed_in(entry.lease).max(config.lease);
        let heartbeat = match entry.stamps.server {
            Some(_) => config.heartbeat_of(lease),
            None => self.requests.store.heartbeat(false),
        };
        match self.beats.established(entry.beat) {
            Some(sent) if lease <= config.lease.max(self.left()) => sent + heartbeat,
            _ => Moment::default(),
        }
    }

    /// The time until this waiter is not far back any more, if the queue is fast and has been since the last poll.
    fn left(&self) -> Duration {
        let left = self.pace.time_of(self.far_back());
        left.saturating_sub(self.requests.store.now().since(self.polled))
    }

    /// The lease for which to renew this waiter's place.
    fn lease_to_ask_for(&self) -> Duration {
        let config = self.requests.store.config();
        lease::stretched(config.lease, config.longest_lease(), self.left())
    }

    /// When the renewal of the row is due. It is due at once if the queue got so much faster that the waiter's turn would come
    /// before its lease ended, should it die.
    fn row_due(&self) -> Moment {
        let config = self.requests.store.config();
        let left = self.left();
        if self.row_lease > config.lease.max(left) {
            Moment::default()
        } else {
            self.row_renewed + config.heartbeat_of(self.row_lease)
        }
    }

    /// Renews a slot. The answer shows the holder and the neighbours, so it is a poll. A refusal shows where the slot has moved
    /// to.
    async fn renew_slot(
        &mut self,
        footing: Footing,
        policy: &RetryPolicy,
    ) -> Result<Option<()>, Failure> {
        let lease = self.lease_to_ask_for();
        let (requests, attempt) = (&self.requests, &self.attempt);
        let renew = || place_writes::renew(&requests.store, &self.name, attempt, (footing, lease));
        let answer = ask_for(requests, &mut self.beats, lease, policy, renew).await?;
        if let Write::Applied(item) = &answer.value
            && let Some(ItemPosition::Successor(_, entry)) =
                item.position_of_place(attempt.nonce, footing.ticket)
        {
            let sent = answer.answered().sent_early(entry);
            self.beats.renewed(entry.beat, sent);
        }
        Ok(self.saw_item(answer.map(Write::shown)))
    }

    /// Renews the row while it waits. If the row is no longer there, reading the queue shows why.
    async fn renew_row(&mut self, policy: &RetryPolicy) -> Result<(), Failure> {
        let lease = self.lease_to_ask_for();
        let (requests, attempt, ticket) = (&self.requests, &self.attempt, self.ticket);
        let renew = || queue::renew(&requests.store, &self.name, attempt, (ticket, lease));
        let answer = ask_for(requests, &mut self.beats, lease, policy, renew).await?;
        (self.row_renewed, self.row_lease) = (answer.sent, lease);
        let answered = answer.answered();
        match answer.value {
            Write::Applied(TicketRow {
                state: RowState::Waiting(entry),
                ..
            }) => {
                let sent = answered.sent_early(&entry);
                self.beats.renewed(entry.beat, sent);
                self.row = Some(entry);
            }
            Write::ConditionFailed(Some(TicketRow {
                state: RowState::Void(_),
                ..
            })) => self.is_void = true,
            Write::Applied(_) | Write::ConditionFailed(_) => self.is_row_missing = true,
        }
        Ok(())
    }

    pub(super) async fn read_queue(&mut self, policy: &RetryPolicy) -> Result<Option<()>, Failure> {
        // This reads all rows before the waiter, so that waiters that died together are timed together.
        let before = self.behind_the_slots() as usize;
        let answer = snapshot::read(&self.requests, &self.name, before, policy).await?;
        Ok(answer.map(|answer| self.saw(answer)))
    }
}

/// Sends a renewal that asks for `lease`.
async fn ask_for<T, Fut>(
    requests: &Requests,
    beats: &mut RenewalHistory,
    lease: Duration,
    policy: &RetryPolicy,
    renew: impl Fn() -> Fut + Send,
) -> Result<Timed<Write<T>>, Failure>
where
    Fut: Future<Output = Result<Timed<Write<T>>, Failure>> + Send,
{
    let before = beats.asks_for(lease);
    // The holder's renewals come first, until this place has half of the time left in which it may be renewed.
    let config = requests.store.config();
    let heartbeat = config.heartbeat;
    let until = requests.store.now() + config.lease.saturating_sub(heartbeat) / 2;
    let policy = policy.clone().giving_way(heartbeat / 2, until);
    let answer = requests.retry_renewal(&policy, renew).await?;
    if matches!(answer.value, Write::ConditionFailed(_)) {
        beats.renewal_refused(before);
    }
    Ok(answer)
}
