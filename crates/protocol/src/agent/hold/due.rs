//! When something of a hold is due, and what is done then.

use std::sync::Arc;
use std::time::Duration;

use super::super::context::Context;
use super::super::fate::Fate;
use super::super::{Output, Refusal};
use super::{Hold, Life, Offer};
use crate::moment::Moment;

impl Hold {
    /// The local deadline: the end of the lease, or of the longest time that the caller wants.
    pub(super) fn ends(&self) -> Moment {
        let lease = self.lease_ends();
        self.limit().map_or(lease, |limit| limit.min(lease))
    }

    pub(super) fn lease_ends(&self) -> Moment {
        let until = self.beats.believed_until(self.beat, self.relies_on);
        until.unwrap_or_default()
    }

    pub(super) fn limit(&self) -> Option<Moment> {
        Some(self.bound_from? + self.bounds.max?)
    }

    /// How much is left of the shortest time that the caller wants.
    pub(super) fn owed(&self, now: Moment) -> Duration {
        self.owed_until().since(now)
    }

    /// When the shortest time is over that the caller wants.
    pub(super) fn owed_until(&self) -> Moment {
        let until = self.bound_from.zip(self.bounds.min);
        until.map_or(Moment::default(), |(from, least)| from + least)
    }

    /// When to send the next renewal. Soon, if the hold has no date and a renewal may bring one. A lease that outlasts the hold is renewed
    /// too: the answer tells what others did to its place.
    pub(super) fn renewal_due(&self, cx: &Context<'_>) -> Moment {
        let until = self.beats.believed_until(self.beat, self.lease);
        let outlasts = { self.limit() }.is_some_and(|limit| until.is_some_and(|it| limit <= it));
        let asked = self.lease.saturating_sub(cx.terms.margin);
        let heartbeat = cx.clocks.heartbeat(self.is_dated, cx.terms.heartbeat);
        let heartbeat = match asked < cx.terms.lease && !outlasts {
            // The lease was cut short to end with the hold, and still ends too early.
            true => heartbeat.min(asked / 3),
            false => heartbeat,
        };
        let established = self.beats.established(self.beat).unwrap_or_default();
        established + self.stagger.span(heartbeat)
    }

    /// When it is sent, which is later after a refusal that no time mends.
    fn renews_at(&self, cx: &Context<'_>) -> Moment {
        self.renewal_due(cx).max(self.not_before)
    }

    /// When something is due.
    pub(in super::super) fn due(&self, cx: &Context<'_>) -> Option<Moment> {
        let puts = self.puts.front().and_then(|put| put.sending?.due());
        let renewal = || match &self.renewal {
            Some(renewal) => renewal.sending.due(),
            None => Some(self.renews_at(cx)),
        };
        let own = match &self.life {
            Life::Granting(_) => renewal().into_iter().chain(self.refuses_at(cx)).min(),
            Life::GivingBack(_) => renewal(),
            Life::PassingOn(_, sending) => {
                let renewal = self.renewal.as_ref().map(|it| it.sending);
                let sending = sending.or(renewal).and_then(|it| it.due());
                sending.into_iter().chain(cx.callers.next_until()).min()
            }
            Life::Held => {
                let offer = match self.offer {
                    Offer::Open(until, _) => Some(until),
                    Offer::Taken | Offer::TakenBack => None,
                };
                let callers = cx.callers.next_until();
                let frees = self.frees_at(cx);
                [Some(self.ends()), renewal(), offer, callers, frees]
                    .into_iter()
                    .flatten()
                    .min()
            }
            Life::Lost => None,
            Life::Kept(until, _) => Some(*until),
            Life::Releasing(release) => release.sending.and_then(|sending| sending.due()),
            Life::LeasingOut(leasing) => leasing.sending.and_then(|sending| sending.due()),
        };
        own.into_iter().chain(puts).min()
    }

    /// When its callers must have been answered, before they are told of it.
    fn refuses_at(&self, cx: &Context<'_>) -> Option<Moment> {
        Some(cx.callers.next_until()? + cx.terms.request_timeout)
    }

    /// Does what is due.
    pub(in super::super) fn on_time(&mut self, cx: &mut Context<'_>) -> Fate {
        let now = cx.now();
        let is_due = |due: Option<Moment>| due.is_some_and(|due| due <= now);
        if let Life::PassingOn(..) = self.life {
            self.parts(cx);
        }
        match &self.life {
            Life::Held if self.ends() <= now => return self.expires(cx),
            Life::Granting(_) if is_due(self.refuses_at(cx)) => {
                if cx.callers.until() > now {
                    self.parts(cx);
                    return Fate::Stays;
                }
                let item = Some(Arc::clone(&self.item));
                return self.is_unwanted(Refusal::not_granted(item));
            }
            Life::Kept(until, deadline) if *until <= now => {
                let deadline = *deadline;
                return self.releases(deadline, None, cx);
            }
            Life::Releasing(release) if is_due(release.sending.and_then(|it| it.due())) => {
                self.sends_release(cx);
            }
            Life::LeasingOut(leasing)
                if is_due(leasing.sending.and_then(|sending| sending.due())) =>
            {
                self.sends_leasing(cx);
            }
            Life::PassingOn(_, Some(sending)) if is_due(sending.due()) => {
                self.sends_passing_on(cx);
            }
            Life::Held | Life::Granting(_) | Life::GivingBack(_) | Life::PassingOn(_, None) => {
                let due = match &self.renewal {
                    Some(renewal) => renewal.sending.due(),
                    None => Some(self.renews_at(cx)),
                };
                if is_due(due) {
                    self.renews(cx);
                }
                if let Life::Held = self.life {
                    self.parts(cx);
                    self.looks_for_its_caller(cx);
                    if is_due(self.frees_at(cx)) {
                        self.sends_freeing(cx);
                    }
                }
            }
            Life::Lost
            | Life::Kept(..)
            | Life::Releasing(_)
            | Life::LeasingOut(_)
            | Life::PassingOn(..) => {}
        }
        if is_due(self.puts.front().and_then(|put| put.sending?.due())) {
            self.puts_next(cx);
        }
        Fate::Stays
    }

    /// The second span begins when the first is noticed: a process that stood still gives its callers time.
    pub(super) fn looks_for_its_caller(&mut self, cx: &mut Context<'_>) {
        self.offer = match self.offer {
            Offer::Open(until, 0) if until <= cx.now() => {
                cx.tell(Output::TakeBack(self.id));
                Offer::TakenBack
            }
            Offer::Open(until, more) if until <= cx.now() => {
                Offer::Open(cx.now() + cx.terms.request_timeout, more - 1)
            }
            _ => return,
        };
    }
}
