//! The turns at a place, one after the other: callers of one client that came together pass the lock on among themselves.

use super::super::again::{Policy, Sending};
use super::super::context::Context;
use super::super::fate::Fate;
use super::super::{Answer, Done, Failed, HoldId, Reply, ReplyId, Shown, What};
use super::freeing::Freeing;
use super::{Hold, Life};
use crate::failure::{Kind, cause};
use crate::lease;
use crate::ticket::Sequence;
use crate::write::LockWrite;

impl Hold {
    /// How many turns its place has yet, with this one.
    pub(super) fn turns(&self) -> u64 {
        let newest = self.held.footing.ticket.get();
        newest.saturating_sub(self.ticket.get()) + 1
    }

    /// Its caller is done. The next one at its place has the lock, if the place has a turn left and half a lease, which a renewal may bring.
    /// Otherwise it is released.
    pub(super) fn passes_on(&mut self, reply: Option<ReplyId>, cx: &mut Context<'_>) -> Fate {
        self.parts(cx);
        let (now, ends) = (cx.now(), self.lease_ends());
        if cx.callers.is_empty() || self.turns() < 2 || ends <= now || cx.shared.is_closed {
            return self.releases(ends, reply, cx);
        }
        let is_short = lease::is_short(cx.terms.lease, ends.since(now));
        self.life = Life::PassingOn(reply, None);
        match (is_short, self.acts_late || !self.puts.is_empty()) {
            (true, _) if self.renewal.is_some() => {}
            (true, _) => self.renews(cx),
            (false, true) => self.sends_passing_on(cx),
            (false, false) => return self.is_next(reply, cx),
        }
        Fate::Stays
    }

    /// Takes its turn off its place: no write of its data is accepted any more.
    pub(super) fn sends_passing_on(&mut self, cx: &mut Context<'_>) {
        let (nonce, ticket) = (self.attempt.nonce, self.held.footing.ticket);
        let write = LockWrite::pass_on(cx.lock.permits, nonce, ticket, self.turns() - 1);
        let request = cx.send(self.of(cx), What::shown(write));
        let policy = Policy::of_renewals(self.lease_ends(), cx.terms);
        if let Life::PassingOn(_, sending) = &mut self.life {
            Sending::tries(sending, policy, request, cx.clocks.now);
        }
    }

    /// Takes in the answer to that. If it is refused and its turn stands there, or it fails for good, the hold is released.
    pub(super) fn is_passed_on(&mut self, reply: Reply, cx: &mut Context<'_>) -> Fate {
        let Life::PassingOn(to, Some(sending)) = &mut self.life else {
            return Fate::Stays;
        };
        let to = *to;
        let item = match reply.answer {
            Ok(
                Answer::Applied(Shown::Item(item))
                | Answer::ConditionFailed(Some(Shown::Item(item))),
            ) => Some(item),
            Ok(_) => None,
            Err(failure) => {
                return match cx.failed(sending, failure) {
                    None => Fate::Stays,
                    Some(_) => self.releases(self.lease_ends(), to, cx),
                };
            }
        };
        let left = self.turns() - 1;
        let own = item.as_deref().and_then(|item| self.own(item));
        match own.map(|(_, entry)| entry.tickets <= left) {
            Some(true) => {
                self.acts_late = false;
                if let Some(item) = &item {
                    self.sees(item);
                }
                self.is_next(to, cx)
            }
            Some(false) => self.releases(self.lease_ends(), to, cx),
            None => self.ends_with(to, Ok(Done::NotOurs(item)), cx),
        }
    }

    /// The next caller has the lock, with the next ticket.
    fn is_next(&mut self, reply: Option<ReplyId>, cx: &mut Context<'_>) -> Fate {
        self.parts(cx);
        let ends = self.lease_ends();
        let next = self.ticket.next().filter(|_| ends > cx.now());
        let Some(next) = next.filter(|_| !cx.callers.is_empty()) else {
            return self.releases(ends, reply, cx);
        };
        self.forgets_orders(cx);
        self.freeing = Freeing::nothing(self.held.permits);
        cx.shared.is_held_no_more(self.id);
        (self.ticket, self.writes) = (next, 0);
        cx.shared.is_done(reply, Ok(Done::PassedOn));
        self.id = HoldId(cx.shared.next_id());
        self.is_granted(cx).err().unwrap_or(Fate::Stays)
    }

    /// What became of writes of data that are under way is not known any more. Permits that were to be free are.
    pub(super) fn forgets_orders(&mut self, cx: &mut Context<'_>) {
        for put in self.puts.drain(..) {
            let kind = Kind::Unknown(cause("the hold ended before this was answered"));
            let verb = "write data";
            let failed = Err(Failed { verb, kind });
            cx.shared.is_done(put.reply, failed);
        }
        self.freed(&Ok(Done::Freed), cx);
    }
}
