//! The renewals of a hold.

use std::sync::Arc;
use std::time::Duration;

use super::super::again::{Policy, Sending};
use super::super::context::{Context, Stamped};
use super::super::fate::{Exit, Fate};
use super::super::terms::ending_after;
use super::super::{Answer, Done, Failed, Loss, Note, Refusal, Reply, Shown, What};
use super::evicted;
use super::{Hold, Life};
use crate::failure::{Kind, cause};
use crate::item::{At, LockItem};
use crate::lease::Renewal as Refused;
use crate::moment::Moment;
use crate::stamps::Reading;
use crate::ticket::Ticket;
use crate::write::LockWrite;

/// A renewal is late if it is sent more than a twentieth of a heartbeat after it was due.
const IN_STEP: u32 = 20;

/// A renewal under way.
pub(super) struct Renewal {
    pub(super) sending: Sending,
    pub(super) stamped: Stamped,
    pub(super) beat: u64,
    /// Where the hold stood, and until when the item was to be kept.
    pub(super) before: At,
    pub(super) keeps: Option<u64>,
    pub(super) due: Moment,
}

/// What a renewal showed.
enum Renewed {
    Shown(Arc<LockItem>),
    /// It is to be sent again at once: the hold stands elsewhere, or the item stays longer.
    Again,
    /// Others came in between: neither this renewal nor a later one was applied.
    Overtaken,
    /// The hold is not ours any more.
    Gone(Option<Arc<LockItem>>),
}

impl Hold {
    /// Sends the next try of the renewal, with a beat, stamps and a lease of its own.
    pub(super) fn renews(&mut self, cx: &mut Context<'_>) {
        let (stamped, beat) = (Stamped::now(cx), self.attempt.next_beat());
        let due = match &self.renewal {
            Some(renewal) => renewal.due,
            None => self.renewal_due(cx),
        };
        let footing = self.held.footing;
        let keeps = cx
            .clocks
            .keeps_for_longer(footing.expires_at, cx.terms.retention);
        let write = LockWrite::renew(
            cx.lock.permits,
            (self.attempt.nonce, footing),
            (beat, self.lease_to_ask_for(cx)),
            cx.clocks.stamps(),
        );
        let write = match self.life {
            Life::GivingBack(_) => write.given_back(footing.at),
            _ => write,
        };
        let request = cx.send(self.of(cx), What::shown(write.keeping(keeps)));
        let sending = match self.renewal.take() {
            Some(mut renewal) => {
                renewal.sending.sent(request, cx.now());
                renewal.sending
            }
            None => Sending::new(self.policy_to_renew(cx), request, cx.now()),
        };
        self.renewal = Some(Renewal {
            sending,
            stamped,
            beat,
            before: footing.at,
            keeps,
            due,
        });
    }

    fn policy_to_renew(&self, cx: &Context<'_>) -> Policy {
        match self.life {
            Life::Granting(until) => Policy::of_renewals(until, cx.terms),
            Life::GivingBack(_) => Policy {
                through_refusals: true,
                ..Policy::of_renewals(self.lease_ends(), cx.terms)
            },
            _ => Policy::of_renewals(self.ends(), cx.terms),
        }
    }

    /// It ends with the hold. No margin is due once the caller's work is over.
    fn lease_to_ask_for(&self, cx: &Context<'_>) -> Duration {
        let terms = cx.terms;
        match (&self.life, self.limit()) {
            (Life::GivingBack(_), _) => self.owed(cx.now()),
            (Life::Granting(_), _) => terms.in_table(self.bounds.lease(terms)),
            (_, Some(limit)) => terms.in_table(ending_after(limit.since(cx.now()), terms)),
            (_, None) => terms.in_table(terms.lease),
        }
    }

    pub(super) fn is_renewed(&mut self, reply: Reply, cx: &mut Context<'_>) -> Fate {
        let Some(renewal) = self.renewal.take() else {
            return Fate::Stays;
        };
        let answer = match reply.answer {
            Ok(answer) => answer,
            Err(failure) => return self.failed_to_renew(renewal, failure, cx),
        };
        match self.reads(answer, &renewal) {
            Renewed::Overtaken => self.failed_to_renew(renewal, overtaken(), cx),
            Renewed::Shown(item) => self.takes_in(&renewal, (item, reply.reading), cx),
            Renewed::Again => {
                self.renewal = Some(renewal);
                self.renews(cx);
                Fate::Stays
            }
            Renewed::Gone(item) => self.is_gone(item, cx),
        }
    }

    fn failed_to_renew(
        &mut self,
        mut renewal: Renewal,
        failure: Failed,
        cx: &mut Context<'_>,
    ) -> Fate {
        let before = self.trouble.replace(failure.to_string().into());
        if before.is_none() && matches!(self.life, Life::Held) {
            cx.note(Note::RenewalFailed(self.id, self.ticket, failure.clone()));
        }
        match cx.failed(&mut renewal.sending, failure) {
            Some(failure) => self.cannot_renew(failure, cx),
            None => {
                self.renewal = Some(renewal);
                self.stays_in_trouble(cx)
            }
        }
    }

    fn stays_in_trouble(&self, cx: &mut Context<'_>) -> Fate {
        if matches!(self.life, Life::Held) {
            self.shows(cx);
        }
        Fate::Stays
    }

    /// What the answer to a renewal shows. A refusal whose item shows this beat, or a later one, shows that a copy was applied.
    fn reads(&mut self, answer: Answer, renewal: &Renewal) -> Renewed {
        let item = match answer {
            Answer::Applied(Shown::Item(item)) => return Renewed::Shown(item),
            Answer::ConditionFailed(Some(Shown::Item(item))) | Answer::Read(Some(item)) => item,
            _ => return Renewed::Gone(None),
        };
        let at_its_place = item.entry_at(renewal.before);
        let own = at_its_place.filter(|own| {
            own.nonce == self.attempt.nonce && own.ticket == self.held.footing.ticket
        });
        match Refused::refused(own.map(|own| own.beat), renewal.beat) {
            Refused::Stands => return Renewed::Shown(item),
            Refused::Older | Refused::Gone => {}
        }
        let Some((still, _)) = self.own(&item) else {
            return Renewed::Gone(Some(item));
        };
        let is_kept_longer = renewal.keeps.is_some_and(|keeps| item.expires_at > keeps);
        let is_elsewhere = still.footing.at != renewal.before;
        self.held = still;
        match is_kept_longer || is_elsewhere {
            true => Renewed::Again,
            false => Renewed::Overtaken,
        }
    }

    /// Takes in the item that shows the renewed hold.
    fn takes_in(
        &mut self,
        renewal: &Renewal,
        (item, reading): (Arc<LockItem>, Reading),
        cx: &mut Context<'_>,
    ) -> Fate {
        let Some((still, entry)) = self.own(&item) else {
            return self.is_gone(Some(item), cx);
        };
        self.beats
            .renewed(entry.beat, renewal.stamped.early(entry, reading));
        (self.beat, self.lease) = (entry.beat, entry.lease);
        self.held = still;
        // A renewal that only brings a date is no heartbeat.
        if std::mem::replace(&mut self.is_dated, entry.stamps.server.is_some()) {
            self.stagger.step();
        }
        let lag = renewal.stamped.sent.since(renewal.due);
        if lag > cx.terms.heartbeat / IN_STEP {
            self.stagger.again();
        }
        if let Life::Held = self.life {
            cx.note(Note::Renewed(lag));
        }
        if self.is_granting() {
            self.relies_on = entry.lease.min(cx.terms.in_table(cx.terms.lease));
        }
        self.trouble = None;
        self.sees(&item);
        match self.life {
            // The answer came too late for its lease.
            Life::Granting(_) if self.ends() <= cx.now() => {
                cx.is_granted_late(self.held.footing.ticket);
                let why = Refusal::not_granted(Some(Arc::clone(&self.item)));
                return match self.is_unwanted(why) {
                    Fate::Leaves(_, leaving) if self.waits => Fate::Again(Some(leaving)),
                    fate => fate,
                };
            }
            Life::Granting(_) => return self.is_granted(cx).err().unwrap_or(Fate::Stays),
            Life::PassingOn(reply, None) => return self.passes_on(reply, cx),
            Life::Held => self.shows(cx),
            Life::GivingBack(reply) => self.is_kept_on(renewal.stamped.sent, reply, cx),
            Life::Lost
            | Life::PassingOn(..)
            | Life::Kept(..)
            | Life::Releasing(_)
            | Life::LeasingOut(_) => {}
        }
        Fate::Stays
    }

    /// A renewal was refused, or failed for good.
    fn cannot_renew(&mut self, failure: Failed, cx: &mut Context<'_>) -> Fate {
        match self.life {
            Life::Granting(_) => {
                let leaving = Exit::unseen(self.attempt.clone());
                let why = Loss::Unreachable(failure.to_string().into());
                cx.callers.kept.place_lost = Some(why);
                cx.note(Note::GrantFailed(self.held.footing.ticket, failure.clone()));
                // A policy that denies it may be new: how long a call puts up with that is counted at the door.
                match self.waits && (failure.is_transient() || failure.is_denied()) {
                    true => Fate::Again(Some(leaving)),
                    false => Fate::Leaves(Refusal::Failed(failure), leaving),
                }
            }
            Life::GivingBack(reply) => self.ends_with(reply, Err(failure), cx),
            Life::PassingOn(reply, None) => self.releases(self.lease_ends(), reply, cx),
            _ => {
                self.not_before = cx.now() + cx.terms.heartbeat / 4;
                self.stays_in_trouble(cx)
            }
        }
    }

    /// The item shows the hold no more.
    fn is_gone(&mut self, item: Option<Arc<LockItem>>, cx: &mut Context<'_>) -> Fate {
        match self.life {
            Life::Granting(_) => {
                cx.doubts(&self.attempt, Ticket::default());
                cx.callers.kept.place_lost = Some(evicted(item.clone(), self.place()));
                match self.waits {
                    true => Fate::Again(None),
                    false => Fate::Refused(Refusal::not_granted(item)),
                }
            }
            Life::GivingBack(reply) | Life::PassingOn(reply, _) => {
                self.ends_with(reply, Ok(Done::NotOurs(item)), cx)
            }
            Life::Held => {
                self.loses(evicted(item, self.place()), cx);
                Fate::Stays
            }
            Life::Lost | Life::Kept(..) | Life::Releasing(_) | Life::LeasingOut(_) => Fate::Stays,
        }
    }
}

fn overtaken() -> Failed {
    let why = cause("other renewals of the same place came in between");
    Failed {
        verb: "renew",
        kind: Kind::Conflict(why),
    }
}
