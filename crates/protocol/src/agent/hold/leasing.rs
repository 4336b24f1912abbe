//! A hold becomes a lease, which no client renews any more.

use std::sync::Arc;

use super::super::again::{Policy, Sending};
use super::super::context::Context;
use super::super::fate::Fate;
use super::super::{Answer, Done, LeaseTerm, Reply, ReplyId, What};
use super::{Hold, Life};
use crate::write::LockWrite;

/// A lease that a hold becomes.
pub(super) struct Leasing {
    term: LeaseTerm,
    reply: Option<ReplyId>,
    pub(super) sending: Option<Sending>,
    /// Until when the item is to stay.
    keeps: Option<u64>,
}

impl Hold {
    /// It ends for its caller, and for those behind it. Permits on which the caller counts no more are freed first.
    pub(super) fn is_leased_out(
        &mut self,
        term: LeaseTerm,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) -> Fate {
        if !matches!(self.life, Life::Held) {
            return self.is_given_back(false, reply, cx);
        }
        self.parts(cx);
        cx.asks_again();
        cx.confirms_no_more();
        (self.renewal, self.freeing.sending) = (None, None);
        self.life = Life::LeasingOut(Box::new(Leasing {
            term,
            reply,
            sending: None,
            keeps: cx.clocks.expiry(cx.terms.retention),
        }));
        self.sends_leasing(cx);
        Fate::Stays
    }

    pub(super) fn sends_leasing(&mut self, cx: &mut Context<'_>) {
        let (policy, of) = (
            Policy::of_renewals(self.lease_ends(), cx.terms),
            self.of(cx),
        );
        let Life::LeasingOut(leasing) = &mut self.life else {
            return;
        };
        let (permits, nonce) = (cx.lock.permits, self.attempt.nonce);
        let write = match self.freeing.counts_on < self.held.permits {
            true => LockWrite::downgrade(permits, nonce, self.held, self.freeing.counts_on),
            false => {
                let term = &leasing.term;
                let (beat, place) = (self.attempt.next_beat(), (nonce, self.held.footing));
                let until = (beat, term.span, term.begins(&cx.clocks));
                let write = LockWrite::lease_out(permits, place, until, Arc::clone(&term.id));
                write.keeping(leasing.keeps)
            }
        };
        let request = cx.send(of, What::shown(write));
        Sending::tries(&mut leasing.sending, policy, request, cx.clocks.now);
    }

    /// Takes in the answer. Where the hold stands elsewhere by now, or the item stays longer, it is asked again.
    pub(super) fn is_leasing_out(&mut self, reply: Reply, cx: &mut Context<'_>) -> Fate {
        let item = reply.item().cloned();
        let own = item.as_deref().and_then(|item| self.own(item));
        let Life::LeasingOut(leasing) = &mut self.life else {
            return Fate::Stays;
        };
        let (to, Some(sending)) = (leasing.reply, &mut leasing.sending) else {
            return Fate::Stays;
        };
        let is_applied = match reply.answer {
            Ok(answer) => matches!(answer, Answer::Applied(_)),
            Err(failure) => {
                self.attempt.is_in_doubt |= failure.is_ambiguous();
                return match cx.failed(sending, failure) {
                    None => Fate::Stays,
                    Some(failure) => self.ends_with(to, Err(failure), cx),
                };
            }
        };
        let (Some((still, entry)), Some(item)) = (own, &item) else {
            return self.ends_with(to, Ok(Done::NotOurs(item)), cx);
        };
        if entry.id.as_deref() == Some(&*leasing.term.id) {
            let entry = Box::new(entry.clone());
            return self.ends_with(to, Ok(Done::LeasedOut(entry)), cx);
        }
        let stays_longer = leasing
            .keeps
            .take_if(|keeps| item.expires_at > *keeps)
            .is_some();
        let before = std::mem::replace(&mut self.held, still);
        if is_applied {
            cx.lets_in(item);
        }
        match stays_longer || !still.stands_as(&before) {
            true => self.sends_leasing(cx),
            false => return self.ends_with(to, Ok(Done::NotOurs(Some(Arc::clone(item)))), cx),
        }
        Fate::Stays
    }
}
