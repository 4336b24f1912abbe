//! What the caller of a hold orders.

use std::sync::Arc;

use super::super::again::{Policy, Sending};
use super::super::context::Context;
use super::super::fate::Fate;
use super::super::{Answer, Done, Order, Reply, ReplyId, RequestId, Shown, What};
use super::{Hold, Life, Offer, evicted};
use crate::bytes::Bytes;
use crate::item::{LockItem, Written};
use crate::write::LockWrite;

/// Data that its caller writes.
pub(super) struct Put {
    pub(super) bytes: Option<Bytes>,
    pub(super) reply: Option<ReplyId>,
    pub(super) written: Written,
    pub(super) sending: Option<Sending>,
}

impl Hold {
    pub(in super::super) fn is_taken(&mut self) {
        self.offer = Offer::Taken;
    }

    pub(in super::super) fn ordered(
        &mut self,
        order: Order,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) -> Fate {
        match order {
            Order::Release { is_unused } => self.is_given_back(is_unused, reply, cx),
            Order::BeginBounds => {
                self.bound_from.get_or_insert(cx.clocks.now);
                self.shows(cx);
                Fate::Stays
            }
            Order::Put(bytes) => self.puts(bytes, reply, cx),
            Order::Free(permits) => self.frees(permits, reply, cx),
            Order::LeaseOut(term) => self.is_leased_out(term, reply, cx),
            Order::Check => {
                self.acts_late = true;
                Fate::Stays
            }
        }
    }

    pub(super) fn is_given_back(
        &mut self,
        is_unused: bool,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) -> Fate {
        if let (Life::Lost, Some(loss)) = (&self.life, self.loss.clone()) {
            return self.departs(loss, is_unused, reply, cx);
        }
        if self.turns_down(reply, cx) {
            return Fate::Stays;
        }
        if is_unused || self.owed(cx.now()).is_zero() {
            return self.passes_on(reply, cx);
        }
        self.renewal = None;
        self.life = Life::GivingBack(reply);
        self.renews(cx);
        Fate::Stays
    }

    /// Whether the hold has ended: the giver of an order is told what that comes to.
    pub(super) fn turns_down(&self, reply: Option<ReplyId>, cx: &mut Context<'_>) -> bool {
        let why = match (&self.life, &self.loss) {
            (Life::Held, _) => return false,
            (_, Some(why)) => Done::Lost(why.clone()),
            (_, None) => Done::NotOurs(None),
        };
        cx.shared.is_done(reply, Ok(why));
        true
    }

    pub(super) fn puts(
        &mut self,
        bytes: Option<Bytes>,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) -> Fate {
        if self.turns_down(reply, cx) {
            return Fate::Stays;
        }
        self.writes += 1;
        let (ticket, count) = (self.ticket, self.writes);
        self.puts.push_back(Put {
            bytes,
            reply,
            written: Written { ticket, count },
            sending: None,
        });
        if self.puts.len() == 1 {
            self.puts_next(cx);
        }
        Fate::Stays
    }

    /// Sends the next try of the first write of data.
    pub(super) fn puts_next(&mut self, cx: &mut Context<'_>) {
        let (place, of, until) = (
            (self.attempt.nonce, self.held.footing),
            self.of(cx),
            self.ends(),
        );
        let turns = self.turns();
        let Some(put) = self.puts.front_mut() else {
            return;
        };
        let write = LockWrite::data(
            cx.lock.permits,
            place,
            (put.written, turns),
            put.bytes.clone(),
        );
        let request = cx.send(of, What::shown(write));
        let policy = Policy::until(until, cx.terms);
        Sending::tries(&mut put.sending, policy, request, cx.clocks.now);
    }

    /// Takes in the answer to a write of data. A refusal may be due to this write itself, whose answer was lost.
    pub(super) fn is_put(&mut self, reply: Reply, cx: &mut Context<'_>) -> Fate {
        let Some(mut put) = self.puts.pop_front() else {
            return Fate::Stays;
        };
        let item = match (reply.answer, &mut put.sending) {
            (Ok(Answer::Applied(Shown::Item(item))), _) => Some(item),
            (Ok(Answer::ConditionFailed(Some(Shown::Item(item)))), _) => Some(item),
            (Ok(_), _) | (Err(_), None) => None,
            (Err(failure), Some(sending)) => match cx.failed(sending, failure) {
                None => {
                    self.puts.push_front(put);
                    return Fate::Stays;
                }
                Some(failure) => {
                    self.acts_late |= sending.is_in_doubt;
                    cx.shared.is_done(put.reply, Err(failure));
                    self.puts_next(cx);
                    return Fate::Stays;
                }
            },
        };
        let still = item.as_deref().and_then(|item| self.own(item));
        let still = still.map(|(still, _)| still);
        if let Some(item) = item.as_ref().filter(|_| still.is_some()) {
            self.sees(item);
            self.shows(cx);
        }
        let is_written = |item: &Arc<LockItem>| item.written >= Some(put.written);
        let what = match still {
            Some(_) if item.as_ref().is_some_and(is_written) => Done::Put,
            Some(_) => Done::NotOurs(item),
            None => {
                if let Life::Held = self.life {
                    self.loses(evicted(item.clone(), self.place()), cx);
                }
                Done::NotOurs(item)
            }
        };
        cx.shared.is_done(put.reply, Ok(what));
        self.puts_next(cx);
        Fate::Stays
    }

    /// Takes in what became of a request of it.
    pub(in super::super) fn answered(
        &mut self,
        request: RequestId,
        reply: Reply,
        cx: &mut Context<'_>,
    ) -> Fate {
        let is = |sending: Option<Sending>| sending.is_some_and(|sending| sending.is(request));
        if is(self.renewal.as_ref().map(|renewal| renewal.sending)) {
            return self.is_renewed(reply, cx);
        }
        if is(self.puts.front().and_then(|put| put.sending)) {
            return self.is_put(reply, cx);
        }
        if is(self.freeing.sending) {
            return self.is_freed(reply, cx);
        }
        match &self.life {
            Life::LeasingOut(leasing) if is(leasing.sending) => self.is_leasing_out(reply, cx),
            Life::Releasing(release) if is(release.sending) => self.is_released(reply, cx),
            Life::PassingOn(_, sending) if is(*sending) => self.is_passed_on(reply, cx),
            _ => Fate::Stays,
        }
    }
}
