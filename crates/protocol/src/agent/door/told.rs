//! What a call is told.

use std::sync::Arc;

use super::{Ask, Asked, Door, Entering, Step};
use crate::agent::context::{Context, Stamped};
use crate::agent::fate::{Exit, Fate, Taken};
use crate::agent::waiter::Heard;
use crate::agent::waiting::Stand;
use crate::agent::{Answer, Failed, Lock, Refusal, Reply, RequestId, Shown};
use crate::doorway::Seen;
use crate::entry::{Entry, Nonce};
use crate::item::{ItemPosition, LockItem};
use crate::lease;
use crate::place::Found;
use crate::stamps::Reading;
use crate::ticket::Ticket;

impl Door {
    /// Takes in what became of a request.
    pub(in crate::agent) fn answered(
        &mut self,
        request: RequestId,
        reply: Reply,
        cx: &mut Context<'_>,
    ) -> Fate {
        let Some(at) = self.asks.iter().position(|ask| ask.sending.is(request)) else {
            return Fate::Stays;
        };
        let mut ask = self.asks.remove(at);
        let is_for_a_place = matches!(
            ask.asked,
            Asked::Enter(_) | Asked::EnterOver(_) | Asked::Share(..)
        );
        match reply.answer {
            Ok(answer) => {
                cx.hears((ask.asked.access(), ask.sending.sent), None);
                let heard = Heard {
                    sent: ask.sending.sent,
                    arrived: reply.arrived,
                    reading: reply.reading,
                };
                self.told(ask, answer, heard, cx)
            }
            Err(failure) => {
                self.attempt.is_in_doubt |= is_for_a_place && failure.is_ambiguous();
                cx.hears((ask.asked.access(), ask.sending.sent), Some(&failure));
                if failure.is_busy() {
                    cx.memory.brake.press(cx.clocks.now);
                }
                if self.ending.is_some() {
                    return self.ends_if_answered(cx);
                }
                if self.reads_first(&ask, &failure) {
                    return self.rests_at_the_door(cx);
                }
                let waits_out = self.waits_out(&failure, cx);
                match cx.failed_for_now(&mut ask.sending, (failure, waits_out)) {
                    None => {
                        self.asks.push(ask);
                        Fate::Stays
                    }
                    Some(failure) => self.failed(ask.asked, failure, cx),
                }
            }
        }
    }

    /// Whether a step in the queue may give way to a renewal, and be tried later.
    fn may_pass(&self, failure: &Failed, cx: &Context<'_>) -> bool {
        let may_help = failure.is_transient() || self.waits_out(failure, cx);
        may_help && !self.is_over(cx)
    }

    /// A caller that waits puts up for a while with a policy that denies its requests: one that was just attached denies for some seconds.
    fn waits_out(&self, failure: &Failed, cx: &Context<'_>) -> bool {
        self.claim.waits() && cx.callers.kept.waits_out(failure)
    }

    /// Whether a caller that waits reads before it writes again, because DynamoDB is too busy and nothing of it was applied.
    fn reads_first(&self, ask: &Ask, failure: &Failed) -> bool {
        let writes = match ask.asked {
            Asked::Enter(_) | Asked::EnterOver(_) | Asked::Share(..) => !self.attempt.is_in_doubt,
            Asked::Draw(..) => !ask.sending.is_in_doubt,
            _ => false,
        };
        writes && failure.is_busy() && self.claim.waits()
    }

    fn rests_at_the_door(&mut self, cx: &mut Context<'_>) -> Fate {
        let (now, chance) = (cx.now(), cx.random.unit());
        let pause = cx.memory.brake.pause(cx.terms.rest(), chance, now);
        self.pauses_until = Some(now + pause);
        Fate::Stays
    }

    pub(super) fn failed(&mut self, asked: Asked, failure: Failed, cx: &mut Context<'_>) -> Fate {
        match asked {
            Asked::Step(Step::Redate, _) => self.gives_in(cx),
            Asked::Delete(_) => self.asks(Asked::Query(None), cx),
            Asked::Step(step @ Step::CleanOwn, _) => {
                self.retired(step, (None, false), Heard::NEVER, cx)
            }
            // Nothing of a draw was applied, or what was leaves a gap.
            Asked::Draw(..) if failure.is_transient() && !self.is_over(cx) => {
                let act = self.course.drew(false);
                self.acts(act, cx)
            }
            _ if self.queue.is_some() && self.may_pass(&failure, cx) => self.gives_way(cx),
            Asked::Step(Step::Void, _) if !self.asks.is_empty() => {
                self.failure.get_or_insert(failure);
                Fate::Stays
            }
            _ => {
                let failure = self.failure.take().unwrap_or(failure);
                self.ends(Refusal::Failed(failure))
            }
        }
    }

    pub(super) fn told(
        &mut self,
        ask: Ask,
        answer: Answer,
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        let item = match &answer {
            Answer::Applied(Shown::Item(item))
            | Answer::ConditionFailed(Some(Shown::Item(item)))
            | Answer::Read(Some(item)) => Some(Arc::clone(item)),
            _ => None,
        };
        let is_applied = matches!(answer, Answer::Applied(_));
        if let Some(item) = &item
            && ask.asked.may_end()
            && let Some(nonce) = self.lease_shown(item, heard.reading, cx.lock)
        {
            let why = Refusal::Leased {
                item: Arc::clone(item),
                nonce,
                reading: heard.reading,
            };
            return self.is_leased(&ask.asked, item, why, cx);
        }
        if item.as_deref().is_some_and(|item| self.holds_by(item)) && self.is_wanted(cx) {
            self.ending = None;
        }
        match ask.asked {
            Asked::Enter(entering) | Asked::EnterOver(entering) | Asked::Share(entering, _) => {
                self.asked(ask, entering, (item, heard), cx)
            }
            Asked::Draw(drawing, tries) if self.ending.is_none() || is_applied => {
                self.drew((drawing, tries), (item, heard), is_applied, cx)
            }
            _ if self.ending.is_some() => self.ends_if_answered(cx),
            Asked::Draw(..) => Fate::Stays,
            Asked::Join(entering) => {
                self.joined((entering.first, entering.newest), answer, heard, cx)
            }
            Asked::Read => {
                (self.seen, self.reading) = (item, heard.reading);
                let seen = match &self.seen {
                    Some(item) => self.sight_of(item, cx.terms.filled_slots, cx),
                    None => Seen::Nobody,
                };
                let act = self.course.read(seen);
                self.acts(act, cx)
            }
            Asked::Poll => {
                // What the place does by an earlier answer comes first.
                let is_poll = |it: &Ask| matches!(it.asked, Asked::Poll);
                if !self.asks.iter().all(is_poll) {
                    return Fate::Stays;
                }
                // The later of two polls makes the earlier one old.
                self.asks
                    .retain(|it| !matches!(it.asked, Asked::Poll) || it.sending.sent > heard.sent);
                self.polled_item(item, heard, cx)
            }
            Asked::RenewSlot(renewing, footing) => {
                self.slot_is_renewed(renewing, footing, (item, is_applied), heard, cx)
            }
            Asked::RenewRow(renewing) => self.row_is_renewed(renewing, answer, heard, cx),
            Asked::Delete(_) => self.asks(Asked::Query(None), cx),
            Asked::Step(step, made) => {
                let note = made.1.filter(|_| is_applied);
                note.into_iter().for_each(|note| cx.note(note));
                self.stepped(
                    (step, ask.sending.is_in_doubt),
                    (item, is_applied),
                    heard,
                    cx,
                )
            }
            Asked::Query(after) => self.read_page(after.is_some(), answer, heard, cx),
        }
    }

    fn stepped(
        &mut self,
        (step, is_in_doubt): (Step, bool),
        (item, is_applied): (Option<Arc<LockItem>>, bool),
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        match step {
            Step::Settle(upto) if is_applied && self.queue.is_none() => self.settled(upto, cx),
            Step::Settle(_) => self.asks(Asked::Query(None), cx),
            Step::Evict | Step::Admit => {
                self.tells_promoted(item.as_deref(), cx);
                self.polled_item(item, heard, cx)
            }
            Step::Fill => {
                if is_applied || is_in_doubt {
                    self.tells_promoted(item.as_deref(), cx);
                }
                if let (true, Some(item), Some(waiter)) =
                    (is_applied || is_in_doubt, &item, &self.queue)
                {
                    let rows = waiter.snapshot.settled_rows(item.watermark);
                    cx.cleans(rows.map(|row| row.ticket).collect());
                }
                self.polled_item(item, heard, cx)
            }
            Step::Void => match (self.asks.is_empty(), self.failure.take()) {
                (true, None) => self.asks(Asked::Query(None), cx),
                (true, Some(failure)) => self.ends(Refusal::Failed(failure)),
                (false, failure) => {
                    self.failure = failure;
                    Fate::Stays
                }
            },
            Step::Redate => self.gives_in(cx),
            Step::VoidOwn | Step::Depart | Step::CleanOwn => {
                self.retired(step, (item, is_applied), heard, cx)
            }
        }
    }

    /// Tells those who stand otherwise by what this place did.
    fn tells_promoted(&self, item: Option<&LockItem>, cx: &mut Context<'_>) {
        if let (Some(waiter), Some(item)) = (&self.queue, item) {
            cx.tells_promoted(&waiter.snapshot.item, item);
        }
    }

    /// Takes in the answer to a request for a place: where the item shows the place, or else the lock.
    pub(super) fn asked(
        &mut self,
        ask: Ask,
        entering: Entering,
        (item, heard): (Option<Arc<LockItem>>, Heard),
        cx: &mut Context<'_>,
    ) -> Fate {
        let nonce = self.attempt.nonce;
        let position = item.as_ref().and_then(|item| item.position_of(nonce));
        let own = position.map(|position| match position {
            ItemPosition::Has(at, entry) => (Some(at), entry.clone()),
            ItemPosition::Successor(_, entry) => (None, entry.clone()),
        });
        match (item, own) {
            (Some(item), Some((at, entry))) => {
                let believed = entering.first.sent + lease::believed(cx.terms.lease);
                let is_old = self.attempt.is_in_doubt && believed <= cx.now();
                let takes_late = at.is_some() && self.is_wanted(cx);
                let wanted = (self.ending.is_none() || takes_late) && !is_old;
                let (first, newest) = (entering.first, entering.newest);
                let beats = Stamped::history(first, newest, (&entry, heard.reading), cx.terms);
                if wanted && at.is_none() && self.claim.waits() {
                    self.queues_up((entry.ticket, beats), (item, heard), cx);
                    let act = self.course.asked(Found::Waits, Seen::Unknown);
                    return self.acts(act, cx);
                }
                if !wanted || at.is_none() {
                    return self.gives_back((entry.ticket, item), is_old, cx);
                }
                self.course.asked(Found::Holds, Seen::Unknown);
                self.cleans_behind(&ask.asked, entry.ticket, cx);
                let seen = Some(Arc::clone(&item));
                cx.tells_waiting(|| Stand {
                    item: seen,
                    ..Stand::default()
                });
                Fate::Holds(Box::new(Taken {
                    attempt: self.attempt.clone(),
                    beats,
                    claim: Arc::clone(&self.claim),
                    began: self.began,
                    item,
                }))
            }
            (item, _) if self.ending.is_some() => {
                self.resolved(item.as_ref(), cx);
                self.seen = item;
                self.ends_if_answered(cx)
            }
            (Some(item), None) if entering.keeps.is_some_and(|keeps| item.expires_at > keeps) => {
                self.asks_again(ask, cx)
            }
            (item, _) => {
                self.resolved(item.as_ref(), cx);
                (self.seen, self.reading) = (item, heard.reading);
                let act = self.course.asked(Found::Nowhere, self.sight(cx));
                self.acts(act, cx)
            }
        }
    }

    /// The lease of the name that has the lock for which the call asks: its own, or the first. What is over of another caller is in the way as
    /// any other entry.
    fn lease_shown(&self, item: &LockItem, reading: Reading, lock: &Lock) -> Option<Nonce> {
        let term = self.claim.lease.as_ref()?;
        let own = self.attempt.nonce;
        let live = |it: &&Entry| it.nonce == own || !lease::is_over(it, reading);
        let live = item
            .leases_of(&term.id, self.claim.takes(lock))
            .filter(live);
        let found = live.min_by_key(|it| it.nonce != own)?;
        Some(found.nonce)
    }

    /// That is what the call came for. No client gives up a lease that it sees: another caller may have been told of it.
    fn is_leased(
        &mut self,
        asked: &Asked,
        item: &Arc<LockItem>,
        why: Refusal,
        cx: &mut Context<'_>,
    ) -> Fate {
        self.ending = None;
        let own = item.position_of(self.attempt.nonce);
        let own = own.map(|own| own.entry().ticket);
        match own.filter(|_| self.queue.is_none()) {
            Some(ticket) if self.claim.waits() => Fate::Leaves(
                why,
                Exit::of(self.attempt.clone(), ticket, Arc::clone(item)),
            ),
            own => {
                own.into_iter()
                    .for_each(|ticket| self.cleans_behind(asked, ticket, cx));
                self.ends(why)
            }
        }
    }

    /// Has the rows deleted that a place with this ticket has left behind, if it went over them.
    fn cleans_behind(&mut self, asked: &Asked, ticket: Ticket, cx: &mut Context<'_>) {
        if let (Asked::EnterOver(_), Some(way)) = (asked, self.way.take()) {
            let rows = way.snapshot.settled_rows(ticket);
            cx.cleans(rows.map(|row| row.ticket).collect());
        }
    }

    /// A refusal that shows the item says that no try was applied before it. A copy may still come.
    pub(super) fn resolved(&mut self, item: Option<&Arc<LockItem>>, cx: &mut Context<'_>) {
        if item.is_some() || self.attempt.is_in_doubt {
            self.doubts(cx);
            self.attempt.is_in_doubt = false;
        }
    }

    /// The item stays longer than this request would have it stay: it is sent again at once without that.
    fn asks_again(&mut self, mut ask: Ask, cx: &mut Context<'_>) -> Fate {
        if let Asked::Enter(entering) | Asked::EnterOver(entering) = &mut ask.asked {
            entering.keeps = None;
        }
        self.tries_again(ask, cx)
    }

    /// Gives back a place that the call does not take: it waits in a slot, came of an old copy, or is not wanted any more. After an old copy
    /// the call asks again.
    pub(super) fn gives_back(
        &mut self,
        (ticket, item): (Ticket, Arc<LockItem>),
        is_old: bool,
        cx: &mut Context<'_>,
    ) -> Fate {
        let attempt = self.attempt.clone();
        let leaving = Exit::of(attempt, ticket, Arc::clone(&item));
        if let Some(ending) = self.ending.take() {
            self.seen = Some(item);
            let why = self.or_late(ending.why, cx);
            return Fate::Leaves(why, leaving);
        }
        if !is_old {
            return Fate::Leaves(Refusal::not_granted(Some(item)), leaving);
        }
        self.attempt.is_in_doubt = false;
        let act = self.course.asked(Found::Nowhere, Seen::Unknown);
        match self.acts(act, cx) {
            Fate::Stays => Fate::Beside(leaving),
            Fate::Refused(why) => Fate::Leaves(why, leaving),
            fate => fate,
        }
    }

    /// What its refusal shows: any slot is for a place that comes at the same time as others.
    pub(super) fn sight(&self, cx: &Context<'_>) -> Seen {
        match &self.seen {
            Some(item) => self.sight_of(item, cx.terms.slots, cx),
            None => Seen::Nobody,
        }
    }
}
