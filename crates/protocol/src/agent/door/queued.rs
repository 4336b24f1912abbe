//! A place in the queue: it polls, does what each poll asks for, and takes its turn.

use std::sync::Arc;

use super::{Ask, Asked, Door, Renewing, Step};
use crate::agent::context::{Context, Stamped};
use crate::agent::fate::{Fate, Taken};
use crate::agent::leaving::void_row;
use crate::agent::waiter::{Heard, Waiter};
use crate::agent::{Answer, Shown, What};
use crate::entry::{Entry, Nonce};
use crate::item::{Footing, ItemPosition, LockItem, RowState, TicketRow};
use crate::lease::{Renewal, RenewalHistory};
use crate::moment::Moment;
use crate::outage::Access;
use crate::place::{Act, Found};
use crate::snapshot::Snapshot;
use crate::step::{Filling, QueuePosition};
use crate::ticket::Ticket;
use crate::write::{Drawing, LockWrite, RowWrite};

impl Door {
    /// Draws a ticket. From now on there is a ticket, and however the place ends, the ticket is settled.
    pub(super) fn draws(&mut self, cx: &mut Context<'_>) -> Fate {
        if self.most_drawn(cx).is_none() {
            let act = self.course.drew(false);
            return self.acts(act, cx);
        }
        self.asks_anew(cx);
        self.asks(Asked::Draw(self.drawing(cx), 1), cx)
    }

    /// How to draw as the item asks for, as far as that is known.
    pub(super) fn drawing(&self, cx: &Context<'_>) -> Drawing {
        let seen = self.seen.as_deref();
        let keeps = seen.and_then(|item| cx.clocks.keeps(item.expires_at, cx.terms.retention));
        Drawing::over(seen, cx.clocks.stamps(), cx.terms.join_timeout, keeps)
    }

    /// A place in the queue, of which the answer shows the slot, or the draw of its ticket.
    pub(super) fn queues_up(
        &mut self,
        place: (Ticket, RenewalHistory),
        shown: (Arc<LockItem>, Heard),
        cx: &mut Context<'_>,
    ) {
        let permits = self.claim.takes(cx.lock);
        let how = (cx.memory.pace(cx.terms), cx.terms.lease, permits);
        let waiter = Waiter::new(self.attempt.clone(), place, shown, how);
        if waiter.is_in {
            cx.note(waiter.joined());
        }
        self.queue = Some(Box::new(waiter));
        self.way = None;
    }

    /// What the newest poll asks for.
    pub(super) fn decides(&mut self, cx: &Context<'_>) -> Option<Act> {
        let step = self.queue.as_ref()?.decide(cx);
        Some(self.course.steps(step))
    }

    /// Waits until it polls, or is renewed.
    pub(super) fn waits(&mut self, position: QueuePosition, cx: &mut Context<'_>) -> Fate {
        let jitter = cx.jitter();
        if let Some(waiter) = &mut self.queue {
            waiter.waits(position, jitter, cx);
            let due = waiter.due(cx);
            self.pauses_until = Some(waiter.subscribes(due, cx));
        }
        Fate::Stays
    }

    /// When to poll because of a notification, if it waits for nothing else.
    pub(super) fn news_due(&self, cx: &Context<'_>) -> Option<Moment> {
        let waiter = self.queue.as_ref();
        let waiter = waiter.filter(|_| self.pauses_until.is_some())?;
        waiter.news_due(cx)
    }

    /// Polls because of a notification.
    pub(super) fn heeds_news(&mut self, cx: &mut Context<'_>) -> Fate {
        let news = cx.post.as_mut().and_then(|post| post.takes_news());
        if let (Some(waiter), Some(news)) = (&mut self.queue, news) {
            waiter.heeds(news);
        }
        self.pauses_until = None;
        self.polls(cx)
    }

    /// Asks the place before instead, if that answers.
    pub(super) fn polls_when_due(&mut self, cx: &mut Context<'_>) -> Fate {
        if let Some(waiter) = &mut self.queue {
            if let Some(until) = waiter.asks_first(cx) {
                self.pauses_until = Some(until);
                return Fate::Stays;
            }
            waiter.polls_when_due();
        }
        self.polls(cx)
    }

    /// A notification has come. What it says of polls is due at its time.
    pub(in crate::agent) fn is_told(&mut self, cx: &mut Context<'_>) {
        let waiter = self.queue.as_mut().filter(|_| self.pauses_until.is_some());
        if let Some(until) = waiter.and_then(|waiter| waiter.confirmed(cx)) {
            self.pauses_until = Some(until);
        }
    }

    /// Renews its place if that is due, or polls.
    pub(super) fn polls(&mut self, cx: &mut Context<'_>) -> Fate {
        let Some(waiter) = &self.queue else {
            return Fate::Stays;
        };
        if waiter.renewal_due(cx) > cx.now() {
            return self.looks(cx);
        }
        let item = &waiter.snapshot.item;
        let slot = match waiter.position() {
            Some(ItemPosition::Has(..)) => return self.looks(cx),
            Some(ItemPosition::Successor(index, entry)) => {
                Some(Footing::of(item, item.at_successor(index), entry))
            }
            None => None,
        };
        let renewing = self.renewing(cx);
        match slot {
            Some(footing) => self.asks(Asked::RenewSlot(renewing, footing), cx),
            None => self.asks(Asked::RenewRow(renewing), cx),
        }
    }

    fn looks(&mut self, cx: &mut Context<'_>) -> Fate {
        let wants_rows = self.queue.as_ref().is_some_and(|it| it.wants_rows(cx));
        if wants_rows {
            return self.asks(Asked::Query(None), cx);
        }
        self.forgets_slow_polls(cx.now());
        let is_polling = self.polls_under_way().next().is_some();
        match is_polling {
            // One that was sent before, and is under way, is as good.
            true => Fate::Stays,
            false => self.asks(Asked::Poll, cx),
        }
    }

    /// A renewal whose first try is yet to be made.
    fn renewing(&mut self, cx: &Context<'_>) -> Renewing {
        let lease_and_before = self.queue.as_mut().map(|waiter| {
            let lease = waiter.lease_to_ask_for(cx);
            (lease, waiter.beats.asks_for(lease))
        });
        let (lease, before) = lease_and_before.unwrap_or_default();
        Renewing {
            stamped: Stamped::now(cx),
            beat: 0,
            lease,
            before,
            keeps: None,
        }
    }

    /// A poll that has been under way for longer than polls take may have been sent while requests were slower.
    fn forgets_slow_polls(&mut self, now: Moment) {
        if let Some(waiter) = &self.queue {
            let is_news = |ask: &Ask| waiter.pace.is_news(ask.sending.sent, now);
            self.asks
                .retain(|ask| !matches!(ask.asked, Asked::Poll) || is_news(ask));
        }
    }

    fn polls_under_way(&self) -> impl Iterator<Item = Moment> {
        let polls = self
            .asks
            .iter()
            .filter(|ask| matches!(ask.asked, Asked::Poll));
        polls.map(|ask| ask.sending.sent)
    }

    /// When a successor that may hold the lock at any moment sends the next poll, though the last one is not answered.
    pub(super) fn overlap_due(&self, cx: &Context<'_>) -> Option<Moment> {
        let waiter = self.queue.as_ref().filter(|_| self.ending.is_none())?;
        let mut polls = self.polls_under_way();
        let (only, None) = (polls.next()?, polls.next()) else {
            return None;
        };
        Some(only + waiter.overlap(cx)?)
    }

    /// Gives slots to the next in the queue, as the snapshot shows them.
    pub(super) fn fills(&self, filling: &Filling, cx: &Context<'_>) -> Option<(Step, What)> {
        let snapshot = self.snapshot()?;
        let found = filling.found.iter();
        let found: Vec<_> = found
            .filter_map(|at| snapshot.waiting(*at).cloned())
            .collect();
        let (slots, date) = (cx.terms.filled_slots, cx.clocks.stamps().server);
        let filled = (&found[..], filling.watermark);
        let write = LockWrite::fill(cx.lock.permits, &snapshot.item, filled, slots, date);
        Some((Step::Fill, What::shown(write)))
    }

    pub(super) fn admits(&self, successors: usize, cx: &Context<'_>) -> Option<(Step, What)> {
        let item = &self.snapshot()?.item;
        let admitted = item.successors().get(..successors)?;
        let write = LockWrite::admit(cx.lock.permits, item.first_successor(), admitted)?;
        Some((Step::Admit, What::shown(write)))
    }

    pub(super) fn voids_own(&self, cx: &Context<'_>) -> Option<(Step, What)> {
        let (waiter, expiry) = (
            self.queue.as_ref()?,
            cx.clocks.row_expiry(cx.terms.retention),
        );
        let void = RowWrite::void_own(waiter.attempt.nonce, waiter.attempt.tickets, expiry);
        Some((Step::VoidOwn, What::WriteRow(waiter.ticket, void)))
    }

    pub(super) fn departs(&self, cx: &Context<'_>) -> Option<(Step, What)> {
        let leave = LockWrite::leave(cx.lock.permits, self.queue.as_ref()?.ticket);
        Some((Step::Depart, What::shown(leave)))
    }

    fn cleans_own(&self) -> Option<(Step, What)> {
        let ticket = self.queue.as_ref()?.ticket;
        let clean = RowWrite::remove(&void_row(ticket));
        Some((Step::CleanOwn, What::WriteRow(ticket, clean)))
    }

    /// Its turn has come.
    pub(super) fn takes_its_turn(&mut self, cx: &mut Context<'_>) -> Fate {
        let Some(waiter) = self.queue.take() else {
            return self.begins_again(cx);
        };
        let item = Arc::clone(&waiter.snapshot.item);
        let own = item.position_of_place(waiter.attempt.nonce, waiter.ticket);
        if !matches!(own, Some(ItemPosition::Has(..))) {
            self.queue = Some(waiter);
            return self.begins_again(cx);
        }
        cx.tells_waiting(|| waiter.stands());
        cx.memory.learns(waiter.pace);
        Fate::Holds(Box::new(Taken {
            attempt: waiter.attempt,
            beats: waiter.beats,
            claim: Arc::clone(&self.claim),
            began: self.began,
            item,
        }))
    }

    /// Takes in the answer to a draw.
    pub(super) fn drew(
        &mut self,
        (drawing, tries): (Drawing, u32),
        (item, heard): (Option<Arc<LockItem>>, Heard),
        is_applied: bool,
        cx: &mut Context<'_>,
    ) -> Fate {
        let Some(item) = item.filter(|_| is_applied || tries < 3) else {
            let act = self.course.drew(false);
            return self.acts(act, cx);
        };
        self.seen = Some(Arc::clone(&item));
        if !is_applied {
            // Each further try knows better what stands on the item.
            let better = Drawing {
                stamps: drawing.stamps,
                ..self.drawing(cx)
            };
            if better == drawing || self.most_drawn(cx).is_none_or(|most| most < item.last) {
                let act = self.course.drew(false);
                return self.acts(act, cx);
            }
            return self.asks(Asked::Draw(better, tries + 1), cx);
        }
        let act = self.course.drew(true);
        let history =
            RenewalHistory::taken((heard.sent, std::time::Duration::ZERO), cx.terms.lease);
        self.queues_up(
            (item.last, history.with_margin(cx.terms.margin)),
            (item, heard),
            cx,
        );
        self.acts(act, cx)
    }

    /// Takes in the answer to a join: its row, or that other clients had closed the gap already.
    pub(super) fn joined(
        &mut self,
        (first, newest): (Stamped, Stamped),
        answer: Answer,
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        let row = match answer {
            Answer::Applied(Shown::Row(row)) | Answer::ConditionFailed(Some(Shown::Row(row))) => {
                Some(row.state)
            }
            _ => None,
        };
        let own = |entry: &Entry| entry.nonce == self.attempt.nonce;
        let is_waiting = match (row, &mut self.queue) {
            (Some(RowState::Waiting(entry)), Some(waiter)) if own(&entry) => {
                let shown = (&entry, heard.reading);
                waiter.beats = Stamped::history(first, newest, shown, cx.terms);
                waiter.row_is_renewed(newest.sent, cx.terms.lease);
                waiter.is_in = true;
                cx.note(waiter.joined());
                true
            }
            _ => false,
        };
        if !is_waiting {
            cx.callers.kept.is_more_patient();
        }
        let act = self.course.joined(is_waiting);
        self.acts(act, cx)
    }

    /// Takes in the answer to a renewal of a slot, which is a poll too.
    pub(super) fn slot_is_renewed(
        &mut self,
        renewing: Renewing,
        footing: Footing,
        (item, is_applied): (Option<Arc<LockItem>>, bool),
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        let Some(waiter) = &mut self.queue else {
            return Fate::Stays;
        };
        let shown = item.as_deref().and_then(|item| item.entry_at(footing.at));
        let own =
            shown.filter(|it| it.nonce == waiter.attempt.nonce && it.ticket == footing.ticket);
        let stands = Renewal::refused(own.map(|own| own.beat), renewing.beat) == Renewal::Stands;
        match own.filter(|_| is_applied || stands) {
            Some(own) => {
                let early = renewing.stamped.early(own, heard.reading);
                waiter.beats.renewed(own.beat, early);
            }
            None => waiter.beats.renewal_refused(renewing.before),
        }
        self.polled_item(item, heard, cx)
    }

    /// Takes in the answer to a renewal of its row. If the row is no longer there, reading the queue shows why.
    pub(super) fn row_is_renewed(
        &mut self,
        renewing: Renewing,
        answer: Answer,
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        let Some(waiter) = &mut self.queue else {
            return Fate::Stays;
        };
        waiter.row_is_renewed(renewing.stamped.sent, renewing.lease);
        let (row, is_applied) = match answer {
            Answer::Applied(Shown::Row(row)) => (Some(row), true),
            Answer::ConditionFailed(Some(Shown::Row(row))) => (Some(row), false),
            _ => (None, false),
        };
        let entry = row.as_deref().and_then(TicketRow::waiting);
        let entry = entry.filter(|it| it.nonce == waiter.attempt.nonce);
        match entry.filter(|it| is_applied || it.beat >= renewing.beat) {
            Some(own) => {
                let early = renewing.stamped.early(own, heard.reading);
                waiter.beats.renewed(own.beat, early);
            }
            None => {
                waiter.beats.renewal_refused(renewing.before);
                let is_void = row.is_some_and(|row| matches!(row.state, RowState::Void(_)));
                (waiter.is_void, waiter.is_row_missing) = (is_void, !is_void);
            }
        }
        if waiter.needs_no_poll(cx) && !waiter.heeds_news() {
            self.pauses_until = Some(waiter.due(cx));
            return Fate::Stays;
        }
        self.looks(cx)
    }

    /// Takes in a lock item that an answer shows, or that there is none.
    pub(super) fn polled_item(
        &mut self,
        item: Option<Arc<LockItem>>,
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        let snapshot = item.map(Snapshot::of);
        self.polled(snapshot, heard, cx)
    }

    /// A poll, or a step, had no time for more tries before a renewal.
    pub(super) fn gives_way(&mut self, cx: &mut Context<'_>) -> Fate {
        match self.asks.is_empty() {
            true => self.polls(cx),
            false => Fate::Stays,
        }
    }

    pub(in crate::agent) fn waits_as(&self, nonce: Nonce) -> bool {
        let waiter = self.queue.as_ref();
        waiter.is_some_and(|it| it.attempt.nonce == nonce)
    }

    /// Whether its turn has come by this item.
    pub(in crate::agent) fn holds_by(&self, item: &LockItem) -> bool {
        let waiter = self.queue.as_ref();
        waiter.is_some_and(|it| item.hold_of(it.attempt.nonce, it.ticket).is_some())
    }

    /// Takes in that the lock shows this place, in the answer to a request of another place of this client.
    pub(in crate::agent) fn hears(&mut self, item: &Arc<LockItem>, cx: &mut Context<'_>) -> Fate {
        let Some(waiter) = &mut self.queue else {
            return Fate::Stays;
        };
        let only_looks = match self.asks.is_empty() {
            true => self.pauses_until.is_some(),
            false => self
                .asks
                .iter()
                .all(|ask| ask.asked.access() == Access::Read),
        };
        if !only_looks || self.ending.is_some() {
            return Fate::Stays;
        }
        self.asks.clear();
        waiter.hears(Arc::clone(item), cx.now());
        self.pauses_until = None;
        let act = self.course.polled();
        self.acts(act, cx)
    }

    /// Takes in that its own row is void, or that its departure was counted, or was not because the ticket was given a slot before.
    pub(super) fn retired(
        &mut self,
        step: Step,
        (item, is_applied): (Option<Arc<LockItem>>, bool),
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        let act = match step {
            Step::VoidOwn => self.course.voided(),
            Step::Depart if is_applied => self.course.departed(true, Found::Nowhere),
            Step::Depart => {
                if let (Some(waiter), Some(item)) = (&mut self.queue, &item) {
                    waiter.saw(Snapshot::of(Arc::clone(item)), heard);
                }
                return self.steps(self.cleans_own(), cx);
            }
            _ => {
                let waiter = self.queue.as_ref();
                let found = waiter.and_then(|waiter| waiter.position());
                let found = found.into();
                self.course.departed(false, found)
            }
        };
        self.acts(act, cx)
    }
}
