//! Permits that a hold gives back while it goes on: at once, or when no caller of its own place is next and its shortest time is over.

use std::sync::Arc;

use super::super::again::{Policy, Sending};
use super::super::context::Context;
use super::super::fate::Fate;
use super::super::{Done, Failed, Note, Reply, ReplyId, What};
use super::{Hold, Life, evicted};
use crate::item::{ItemHold, LockItem};
use crate::moment::Moment;
use crate::write::LockWrite;

/// What the caller of a hold counts on, and the write that tells the table so.
pub(super) struct Freeing {
    /// How many permits. The table shows more while callers of its place want all, for example.
    pub(super) counts_on: u64,
    pub(super) sending: Option<Sending>,
    /// The hold of which the newest try frees permits. `None` if it only ends what the caller has begun.
    frees_of: Option<ItemHold>,
    /// The givers of orders that have not been carried out.
    givers: Vec<ReplyId>,
    /// After a failure.
    not_before: Moment,
}

impl Freeing {
    pub(super) fn nothing(permits: u64) -> Self {
        Freeing {
            counts_on: permits,
            sending: None,
            frees_of: None,
            givers: Vec::new(),
            not_before: Moment::default(),
        }
    }
}

impl Hold {
    /// Its caller counts on so many permits fewer from now on.
    pub(super) fn frees(
        &mut self,
        permits: u64,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) -> Fate {
        if self.turns_down(reply, cx) {
            return Fate::Stays;
        }
        self.freeing.counts_on = self.freeing.counts_on.saturating_sub(permits);
        self.freeing.givers.extend(reply);
        let acts_late = self.is_followed(cx) && (self.acts_late || !self.puts.is_empty());
        let is_due = self.frees_at(cx).is_some_and(|due| due <= cx.now());
        match self.freeing.sending {
            Some(_) => {}
            None if acts_late || is_due => self.sends_freeing(cx),
            None => self.freed(&Ok(Done::Freed), cx),
        }
        Fate::Stays
    }

    /// Whether another caller has the next turn at its place. That one wants all permits, and comes before all who would share them.
    pub(super) fn is_followed(&self, cx: &Context<'_>) -> bool {
        self.turns() > 1 && !cx.callers.is_empty() && !cx.shared.is_closed
    }

    /// When the table is told that permits are free, if some are that it does not know of.
    pub(super) fn frees_at(&self, cx: &Context<'_>) -> Option<Moment> {
        if let Some(sending) = self.freeing.sending {
            return sending.due();
        }
        let is_spare = self.freeing.counts_on < self.held.permits && !self.is_followed(cx);
        is_spare.then(|| self.freeing.not_before.max(self.owed_until()))
    }

    /// Sends the next try, unless another answer has shown that an earlier one was applied. Where another caller follows, nothing that its own
    /// caller has begun may act any more, and its permits stay.
    pub(super) fn sends_freeing(&mut self, cx: &mut Context<'_>) {
        let (permits, nonce, held) = (cx.lock.permits, self.attempt.nonce, self.held);
        let is_followed = self.is_followed(cx);
        if !is_followed && self.freeing.counts_on >= held.permits {
            self.freeing.sending = None;
            return self.freed(&Ok(Done::Freed), cx);
        }
        self.freeing.frees_of = (!is_followed).then_some(held);
        let write = match is_followed {
            true => LockWrite::pass_on(permits, nonce, held.footing.ticket, self.turns() - 1),
            false => LockWrite::downgrade(permits, nonce, held, self.freeing.counts_on),
        };
        let request = cx.send(self.of(cx), What::shown(write));
        let policy = Policy::until(self.ends(), cx.terms);
        Sending::tries(&mut self.freeing.sending, policy, request, cx.clocks.now);
    }

    /// Takes in the answer. Where the hold stands elsewhere by now, or has fewer permits, it is asked again.
    pub(super) fn is_freed(&mut self, reply: Reply, cx: &mut Context<'_>) -> Fate {
        let item = match (reply.item().cloned(), reply.answer) {
            (item, Ok(_)) => item,
            (_, Err(failure)) => return self.failed_to_free(failure, cx),
        };
        self.freeing.sending = None;
        let own = item.as_deref().and_then(|item| self.own(item));
        let own = own.map(|(still, entry)| (still, entry.tickets < self.turns()));
        let (Some((still, is_passed)), Some(item)) = (own, item.as_ref()) else {
            return self.loses_to(item, cx);
        };
        self.held = still;
        self.sees(item);
        self.shows(cx);
        cx.lets_in(item);
        self.acts_late &= !is_passed;
        let is_spare = self.freeing.counts_on < still.permits && !self.is_followed(cx);
        let is_as_it_was = match self.freeing.frees_of {
            Some(before) => is_spare && still.stands_as(&before),
            None => !is_passed,
        };
        match is_spare {
            _ if is_as_it_was => return self.loses_to(Some(Arc::clone(item)), cx),
            true => self.sends_freeing(cx),
            false => self.freed(&Ok(Done::Freed), cx),
        }
        Fate::Stays
    }

    fn failed_to_free(&mut self, failure: Failed, cx: &mut Context<'_>) -> Fate {
        let Some(sending) = &mut self.freeing.sending else {
            return Fate::Stays;
        };
        if let Some(failure) = cx.failed(sending, failure) {
            self.freeing.sending = None;
            self.freeing.not_before = cx.now() + cx.terms.heartbeat / 4;
            cx.note(Note::NotFreed(self.ticket, failure.clone()));
            self.freed(&Err(failure), cx);
        }
        Fate::Stays
    }

    /// The table does not show it as it should.
    fn loses_to(&mut self, item: Option<Arc<LockItem>>, cx: &mut Context<'_>) -> Fate {
        if let Life::Held = self.life {
            self.loses(evicted(item, self.place()), cx);
        }
        Fate::Stays
    }

    /// What became of the orders.
    pub(super) fn freed(&mut self, done: &Result<Done, Failed>, cx: &mut Context<'_>) {
        for giver in self.freeing.givers.drain(..) {
            cx.shared.is_done(Some(giver), done.clone());
        }
    }
}
