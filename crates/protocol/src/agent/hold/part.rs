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
pub(super) struct Part {
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

impl Part {
    pub(super) fn all(permits: u64) -> Self {
        Part {
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
    pub(super) fn gives_some_back(
        &mut self,
        permits: u64,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) -> Fate {
        if let Some(why) = self.is_not_held() {
            cx.shared.is_done(reply, Ok(why));
            return Fate::Stays;
        }
        self.part.counts_on = self.part.counts_on.saturating_sub(permits);
        self.part.givers.extend(reply);
        let acts_late = self.is_followed(cx) && (self.acts_late || !self.puts.is_empty());
        let is_due = self.part_due(cx).is_some_and(|due| due <= cx.now());
        match self.part.sending {
            Some(_) => {}
            None if acts_late || is_due => self.sends_part(cx),
            None => self.part_is(&Ok(Done::Freed), cx),
        }
        Fate::Stays
    }

    /// Whether another caller has the next turn at its place. That one wants all permits, and comes before all who would share them.
    pub(super) fn is_followed(&self, cx: &Context<'_>) -> bool {
        self.turns() > 1 && !cx.callers.is_empty() && !cx.shared.is_closed
    }

    /// When the table is told that permits are free, if some are that it does not know of.
    pub(super) fn part_due(&self, cx: &Context<'_>) -> Option<Moment> {
        if let Some(sending) = self.part.sending {
            return sending.due();
        }
        let is_spare = self.part.counts_on < self.held.permits && !self.is_followed(cx);
        is_spare.then(|| self.part.not_before.max(self.owed_until()))
    }

    /// Sends the next try. Where another caller follows, nothing that its own caller has begun may act any more, and its permits stay.
    pub(super) fn sends_part(&mut self, cx: &mut Context<'_>) {
        let (permits, nonce, held) = (cx.lock.permits, self.attempt.nonce, self.held);
        let is_followed = self.is_followed(cx);
        self.part.frees_of = (!is_followed).then_some(held);
        let write = match is_followed {
            true => LockWrite::pass_on(permits, nonce, held.footing.ticket, self.turns() - 1),
            false => LockWrite::downgrade(permits, nonce, held, self.part.counts_on),
        };
        let request = cx.send(self.of(cx), What::shown(write));
        match &mut self.part.sending {
            Some(sending) => sending.sent(request, cx.clocks.now),
            None => {
                let policy = Policy::until(self.ends(), cx.terms);
                self.part.sending = Some(Sending::new(policy, request, cx.clocks.now));
            }
        }
    }

    /// Takes in the answer. Where the hold stands elsewhere by now, or has fewer permits, it is asked again.
    pub(super) fn is_parted(&mut self, reply: Reply, cx: &mut Context<'_>) -> Fate {
        let item = match (reply.item().cloned(), reply.answer) {
            (item, Ok(_)) => item,
            (_, Err(failure)) => return self.failed_to_part(failure, cx),
        };
        self.part.sending = None;
        let ticket = self.held.footing.ticket;
        let shown = item.as_deref().and_then(|item| {
            let (at, entry) = item.hold_of(self.attempt.nonce, ticket)?;
            Some((ItemHold::of(item, at, entry), entry.tickets < self.turns()))
        });
        let (Some((still, is_passed)), Some(item)) = (shown, item.as_ref()) else {
            return self.parts_with_all(item, cx);
        };
        self.held = still;
        self.sees(item);
        self.shows(cx);
        cx.lets_in(item);
        self.acts_late &= !is_passed;
        let is_spare = self.part.counts_on < still.permits && !self.is_followed(cx);
        let is_as_it_was = match self.part.frees_of {
            Some(before) => is_spare && still.stands_as(&before),
            None => !is_passed,
        };
        match is_spare {
            _ if is_as_it_was => return self.parts_with_all(Some(Arc::clone(item)), cx),
            true => self.sends_part(cx),
            false => self.part_is(&Ok(Done::Freed), cx),
        }
        Fate::Stays
    }

    fn failed_to_part(&mut self, failure: Failed, cx: &mut Context<'_>) -> Fate {
        let Some(sending) = &mut self.part.sending else {
            return Fate::Stays;
        };
        if let Some(failure) = cx.failed(sending, failure) {
            self.part.sending = None;
            self.part.not_before = cx.now() + cx.terms.heartbeat / 4;
            cx.note(Note::NotFreed(self.ticket, failure.clone()));
            self.part_is(&Err(failure), cx);
        }
        Fate::Stays
    }

    /// The table does not show it as it should.
    fn parts_with_all(&mut self, item: Option<Arc<LockItem>>, cx: &mut Context<'_>) -> Fate {
        if let Life::Held = self.life {
            self.loses(evicted(item, self.ticket), cx);
        }
        Fate::Stays
    }

    /// What became of the orders.
    pub(super) fn part_is(&mut self, done: &Result<Done, Failed>, cx: &mut Context<'_>) {
        for giver in self.part.givers.drain(..) {
            cx.shared.is_done(Some(giver), done.clone());
        }
    }
}
