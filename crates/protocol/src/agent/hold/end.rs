//! The end of a hold.

use std::sync::Arc;

use super::super::again::{Policy, Sending};
use super::super::context::Context;
use super::super::fate::{Exit, Fate};
use super::super::{
    Answer, Done, Failed, Loss, Note, Output, Refusal, Reply, ReplyId, Shown, What, Work,
};
use super::{Hold, Life};
use crate::item::{At, LockItem};
use crate::lease;
use crate::moment::Moment;
use crate::ticket::Ticket;
use crate::write::LockWrite;

/// A release that is sent until its deadline.
pub(super) struct Release {
    pub(super) sending: Option<Sending>,
    pub(super) deadline: Moment,
    pub(super) reply: Option<ReplyId>,
}

impl Hold {
    /// Its local deadline has passed.
    pub(in super::super) fn expires(&mut self, cx: &mut Context<'_>) -> Fate {
        if !matches!(self.life, Life::Held) {
            return Fate::Stays;
        }
        let why = self.expiry_reason();
        let is_for_its_client = matches!(why, Loss::MaxHold(_));
        self.loses(why.clone(), cx);
        match is_for_its_client {
            true => self.departs(why, false, None, cx),
            // The guard may still be in use.
            false => Fate::Stays,
        }
    }

    /// The client is shut down.
    pub(in super::super) fn closes(&mut self, keeps_holds: bool, cx: &mut Context<'_>) -> Fate {
        match self.life {
            Life::Held if keeps_holds => {
                cx.asks_again();
                Fate::Stays
            }
            Life::Held => {
                self.loses(Loss::ShutDown, cx);
                self.departs(Loss::ShutDown, false, None, cx)
            }
            Life::Granting(_) => self.is_unwanted(Refusal::ShutDown),
            Life::Kept(..) => self.is_over(cx),
            Life::PassingOn(..) => {
                cx.asks_again();
                Fate::Stays
            }
            Life::Lost | Life::GivingBack(_) | Life::Releasing(_) | Life::LeasingOut(_) => {
                Fate::Stays
            }
        }
    }

    /// No caller wants it, and none has been told of it.
    pub(in super::super) fn is_unwanted(&self, why: Refusal) -> Fate {
        let (ticket, seen) = (self.held.footing.ticket, Arc::clone(&self.item));
        Fate::Leaves(why, Exit::of(self.attempt.clone(), ticket, seen))
    }

    pub(in super::super) fn is_granting(&self) -> bool {
        matches!(self.life, Life::Granting(_))
    }

    /// The callers behind it ask again: its place is lost for them too.
    pub(super) fn loses(&mut self, why: Loss, cx: &mut Context<'_>) {
        self.parts(cx);
        cx.callers.kept.place_lost = Some(why.clone());
        cx.asks_again();
        cx.confirms_no_more();
        self.renewal = None;
        self.life = Life::Lost;
        self.loss = Some(why.clone());
        self.freeing.sending = None;
        self.freed(&Ok(Done::Lost(why.clone())), cx);
        cx.tell(Output::Lost { hold: self.id, why });
    }

    pub(super) fn expiry_reason(&self) -> Loss {
        if let (Some(limit), Some(max)) = (self.limit(), self.bounds.max)
            && limit <= self.lease_ends()
        {
            return Loss::MaxHold(max);
        }
        match self.trouble.clone() {
            Some(trouble) => Loss::Unreachable(trouble),
            None => Loss::Expired,
        }
    }

    /// Leaves the table after a loss. A hold that ended at its deadline is not released within the safety margin: what its caller sent last may
    /// still arrive.
    pub(super) fn departs(
        &mut self,
        why: Loss,
        is_unused: bool,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) -> Fate {
        let margin = cx.terms.margin;
        let owes_margin = !is_unused && !margin.is_zero();
        let deadline = self.lease_ends();
        let is_time_over = matches!(why, Loss::Expired | Loss::Unreachable(_) | Loss::MaxHold(_));
        let is_gone = matches!(why, Loss::Evicted(_) | Loss::Broken(_) | Loss::Deleted);
        if is_gone || owes_margin && is_time_over {
            cx.shared.is_done(reply, Ok(Done::Lost(why.clone())));
        }
        match why {
            Loss::Evicted(_) | Loss::Broken(_) | Loss::Deleted => self.is_over(cx),
            Loss::MaxHold(_) if owes_margin => {
                let limit = self.limit().unwrap_or(cx.now());
                // This client's clock may run fast.
                self.life = Life::Kept(limit + lease::believed_for(margin), deadline + margin);
                cx.note(Note::KeptForMargin(self.ticket));
                Fate::Stays
            }
            Loss::Expired | Loss::Unreachable(_) if owes_margin => {
                cx.note(Note::KeptForMargin(self.ticket));
                self.is_over(cx)
            }
            // Its caller may have given it back in time, and this client heard of it late.
            Loss::ShutDown | Loss::Expired | Loss::Unreachable(_)
                if !is_unused && !self.owed(cx.now()).is_zero() =>
            {
                self.life = Life::GivingBack(reply);
                self.renews(cx);
                Fate::Stays
            }
            _ => self.releases(deadline, reply, cx),
        }
    }

    pub(super) fn releases(
        &mut self,
        deadline: Moment,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) -> Fate {
        self.parts(cx);
        cx.asks_again();
        (self.renewal, self.freeing.sending) = (None, None);
        self.life = Life::Releasing(Release {
            sending: None,
            deadline,
            reply,
        });
        // Told before the write is answered, so that the next holder's poll comes to the table just behind it.
        cx.tells_release();
        self.sends_release(cx);
        Fate::Stays
    }

    pub(super) fn sends_release(&mut self, cx: &mut Context<'_>) {
        let date = cx.clocks.stamps().server;
        let write = LockWrite::release(cx.lock.permits, self.attempt.nonce, self.held, date);
        let request = cx.send(self.of(cx), What::shown(write));
        if let Life::Releasing(release) = &mut self.life {
            let policy = Policy::until(release.deadline, cx.terms);
            Sending::tries(&mut release.sending, policy, request, cx.clocks.now);
        }
    }

    /// Takes in the answer to a release. If an earlier try had no answer, a refusal means that it released the hold: until the deadline nobody
    /// else can end it, unless somebody breaks it.
    pub(super) fn is_released(&mut self, reply: Reply, cx: &mut Context<'_>) -> Fate {
        let Life::Releasing(release) = &mut self.life else {
            return Fate::Stays;
        };
        let (Some(sending), to) = (release.sending.as_mut(), release.reply) else {
            return Fate::Stays;
        };
        let (has_time, was_in_doubt) = (!sending.is_over(cx.clocks.now), sending.is_in_doubt);
        let item = match reply.answer {
            Ok(Answer::Applied(Shown::Item(item))) => {
                return self.ends_with(to, Ok(Done::HandedOff(item)), cx);
            }
            Ok(Answer::ConditionFailed(Some(Shown::Item(item))) | Answer::Read(Some(item))) => {
                Some(item)
            }
            Ok(_) => None,
            Err(failure) => {
                self.attempt.is_in_doubt |= failure.is_ambiguous();
                return match cx.failed(sending, failure) {
                    None => Fate::Stays,
                    Some(failure) => self.ends_with(to, Err(failure), cx),
                };
            }
        };
        let still = item.as_deref().and_then(|item| self.own(item));
        let still = still.map(|(still, _)| still);
        if let Some(still) = still.filter(|still| !still.stands_as(&self.held)) {
            self.held = still;
            self.sends_release(cx);
            return Fate::Stays;
        }
        let broken = item.as_ref().and_then(|it| it.broken_for(self.place()));
        let is_gone = still.is_none() && broken.is_none();
        let done = match is_gone && was_in_doubt && has_time {
            true => Done::ReleasedEarlier,
            false => Done::NotOurs(item),
        };
        self.ends_with(to, Ok(done), cx)
    }

    pub(super) fn is_kept_on(
        &mut self,
        sent: Moment,
        reply: Option<ReplyId>,
        cx: &mut Context<'_>,
    ) {
        let owed = self.owed(cx.now());
        let deadline = sent + owed + cx.terms.to_release();
        self.life = Life::Kept(cx.now() + owed, deadline);
        cx.note(Note::KeptOn(self.ticket, owed));
        cx.shared.is_done(reply, Ok(Done::KeptOn));
    }

    /// Its last request is answered, or given up.
    pub(super) fn ends_with(
        &mut self,
        reply: Option<ReplyId>,
        what: Result<Done, Failed>,
        cx: &mut Context<'_>,
    ) -> Fate {
        if let (Err(failure), None) = (&what, reply) {
            cx.tell(Output::Undone {
                lock: cx.lock.clone(),
                ticket: Some(self.ticket),
                work: Work::Release,
                failure: failure.clone(),
            });
        }
        if let Ok(Done::HandedOff(item)) = &what {
            let now = cx.now();
            let was_alone = matches!(self.held.footing.at, At::Slot(_)) && item.sharers.is_empty();
            cx.memory
                .released((item, was_alone), (now.since(self.granted), now));
            item.holders().for_each(|holder| cx.tells_change(holder));
            cx.lets_in(item);
        }
        // What a failed release left may go as soon as it is shown. What may be a lease stays.
        let newest = match (&what, &self.life) {
            (Ok(_), _) | (_, Life::LeasingOut(_)) => self.held.footing.ticket,
            (Err(_), _) => Ticket::default(),
        };
        cx.shared.is_done(reply, what);
        self.is_over_upto(newest, cx)
    }

    /// What stands in the table stays there, for its margin or its shortest time.
    fn is_over(&mut self, cx: &mut Context<'_>) -> Fate {
        self.is_over_upto(self.held.footing.ticket, cx)
    }

    /// A late copy of its first request may bring it a ticket that is newer than this.
    fn is_over_upto(&mut self, newest: Ticket, cx: &mut Context<'_>) -> Fate {
        cx.doubts(&self.attempt, newest);
        self.forgets_orders(cx);
        cx.shared.is_held_no_more(self.id);
        Fate::Over
    }
}

/// Why the hold is lost that this item shows no more.
pub(in super::super) fn evicted(item: Option<Arc<LockItem>>, ticket: Ticket) -> Loss {
    let Some(item) = item else {
        return Loss::Deleted;
    };
    match item.broken_for(ticket) {
        Some(notice) => Loss::Broken(Arc::clone(notice)),
        None => Loss::Evicted(Some(item)),
    }
}
