//! How a call without a hold ends, or its place: why, by when its callers hear of it, and what is left to give back.

use std::sync::Arc;

use super::Door;
use crate::agent::context::Context;
use crate::agent::fate::{Exit, Fate};
use crate::agent::hold::evicted;
use crate::agent::waiter::Waiter;
use crate::agent::{Note, Refusal};
use crate::moment::Moment;
use crate::ticket::Ticket;

/// Why it ends, and when its callers must have heard of it. Without a reason their time is over.
pub(super) struct Ending {
    pub(super) why: Option<Refusal>,
    pub(super) until: Moment,
    /// Its callers would still take the lock: their time was over, and no answer may come any more.
    is_wanted: bool,
}

impl Door {
    /// No caller wants the lock any more. Requests under way run to their end, and what they get is given back.
    pub(in crate::agent) fn is_unwanted(&mut self, why: Refusal, cx: &mut Context<'_>) -> Fate {
        self.ends_soon(Some(why), false, cx)
    }

    /// The time of the call is over.
    pub(super) fn runs_out(&mut self, cx: &mut Context<'_>) -> Fate {
        let unserved = cx.callers.kept.unserved(self.claim.waits());
        self.ends_soon(unserved, true, cx)
    }

    fn ends_soon(&mut self, why: Option<Refusal>, is_wanted: bool, cx: &mut Context<'_>) -> Fate {
        let over = cx.now().min(self.until(cx));
        let until = cx.terms.answers_by(over, &self.claim, self.began);
        let ending = self.ending.get_or_insert(Ending {
            why,
            until,
            is_wanted,
        });
        ending.is_wanted &= is_wanted;
        self.pauses_until = None;
        self.asks.retain(|ask| ask.sending.due().is_none());
        self.ends_if_answered(cx)
    }

    /// Its callers hear of its end though its requests are not answered.
    pub(super) fn refuses(&mut self, cx: &mut Context<'_>) {
        let why = self.ending.as_ref().and_then(|ending| ending.why.clone());
        let why = self.or_late(why, cx);
        let refused = cx.callers.all(&why);
        cx.refuse(refused);
    }

    /// The reason, or that the time of the call is over.
    pub(super) fn or_late(&self, why: Option<Refusal>, cx: &Context<'_>) -> Refusal {
        why.unwrap_or_else(|| self.why_late(cx))
    }

    pub(super) fn why_late(&self, cx: &Context<'_>) -> Refusal {
        let kept = &cx.callers.kept;
        let why = kept.why_late(self.claim.waits());
        why.unwrap_or_else(|| self.not_granted())
    }

    /// Whether some caller takes the lock if an answer brings it. An answer that was asked for in time may come when the time is over.
    pub(super) fn is_wanted(&self, cx: &Context<'_>) -> bool {
        let ending = self.ending.as_ref();
        ending.is_none_or(|ending| ending.is_wanted && !cx.callers.is_empty())
    }

    /// Whether it only waits for answers.
    pub(in crate::agent) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub(in crate::agent) fn ticket(&self) -> Option<Ticket> {
        self.queue.as_ref().map(|waiter| waiter.ticket)
    }

    pub(super) fn ends_if_answered(&mut self, cx: &mut Context<'_>) -> Fate {
        match self.ending.take_if(|_| self.asks.is_empty()) {
            Some(ending) => {
                let why = self.or_late(ending.why, cx);
                self.ends(why)
            }
            None => Fate::Stays,
        }
    }

    /// The call is refused. A request that was not answered may get a place, and a place in the queue is left.
    pub(super) fn ends(&mut self, why: Refusal) -> Fate {
        let writes_nothing = matches!(&why, Refusal::Failed(failure) if failure.is_newer_format());
        if writes_nothing {
            // This client must write nothing more, not even its departure. The place ends when its lease expires.
            return Fate::Refused(why);
        }
        if let Some(waiter) = self.queue.take() {
            let Waiter {
                attempt,
                ticket,
                snapshot,
                ..
            } = *waiter;
            let exit = Exit::of_queue(self.course, attempt, ticket, snapshot.item);
            return Fate::Leaves(why, exit);
        }
        match self.attempt.is_in_doubt && self.claim.enters_as().is_none() {
            true => Fate::Leaves(why, Exit::unseen(self.attempt.clone())),
            false => Fate::Refused(why),
        }
    }

    /// A live entry stands in the way, the queue is too long, or the place came to nothing.
    pub(super) fn gives_in(&mut self, cx: &Context<'_>) -> Fate {
        let why = self.giving_in.take();
        let why = why.unwrap_or_else(|| self.why_not(cx));
        self.ends(why)
    }

    pub(super) fn why_not(&self, cx: &Context<'_>) -> Refusal {
        let before = self.shown().map_or(0, |item| item.turns());
        let is_too_long = self.claim.waits() && cx.callers.are_unwilling(before);
        match is_too_long {
            true => Refusal::too_long(before, 0),
            false => self.not_granted(),
        }
    }

    pub(super) fn not_granted(&self) -> Refusal {
        Refusal::NotGranted {
            item: self.shown().cloned(),
            position: self.queue.as_ref().and_then(|it| it.turns_before()),
        }
    }

    /// Refuses those whose time is over, while others still wait.
    pub(super) fn parts(&self, cx: &mut Context<'_>) {
        if self.ending.is_none() {
            cx.refuse_late(|cx| self.why_late(cx));
        }
    }

    pub(super) fn is_passed(&self, waiter: &Waiter, cx: &mut Context<'_>) {
        let ticket = waiter.ticket;
        if !waiter.is_in {
            return cx.note(Note::TooSlow(ticket));
        }
        let item = (!waiter.is_lock_gone).then(|| Arc::clone(&waiter.snapshot.item));
        let why = evicted(item, ticket);
        cx.callers.kept.place_lost = Some(why.clone());
        cx.note(Note::Passed(ticket, why));
    }
}
