//! A place in the queue: it polls, does what each poll asks for, and takes its turn or leaves.

use std::sync::Arc;
use std::time::Duration;

use super::Acquisition;
use crate::attempt::Attempt;
use crate::client_state::{Departure, Membership, Refused, WaitEstimate};
use crate::counter::Taken;
use crate::exit::Exit;
use crate::hold::Hold;
use crate::holder;
use crate::runtime::background::Task;
use crate::telemetry;
use crate::waiter::{Notified, Waiter};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::lease::RenewalHistory;
use fairlock_protocol::place::{Act, Place};
use fairlock_protocol::ticket::{Sequence, Ticket};

/// A place in the queue, with the membership by which other places of this client notify it.
pub(super) struct Queued {
    waiter: Box<Waiter>,
    membership: Membership,
    /// The lock item was deleted.
    is_lock_gone: bool,
}

impl Acquisition {
    /// Makes a place in the queue. `row` is its row, if the answer does not show the place.
    pub(super) fn queues_up(&self, attempt: Attempt, taken: Taken, row: Option<Entry>) -> Queued {
        let Taken {
            ticket,
            beats,
            answer,
        } = taken;
        let (requests, pace) = (self.requests.clone(), self.inner.pace(&self.name));
        let name = self.name.clone();
        let mut waiter = Waiter::new(requests, name, attempt, ticket, beats, answer, pace);
        waiter.row = row;
        let config = self.store().config();
        telemetry::joined(config, &self.name, ticket, waiter.position());
        let membership = self.inner.waits(&self.name, ticket, &waiter.attempt);
        Queued {
            waiter: Box::new(waiter),
            membership,
            is_lock_gone: false,
        }
    }
}

impl Queued {
    pub(super) async fn carry_out(
        &mut self,
        to: &Acquisition,
        place: &mut Place,
        act: Act,
    ) -> Result<Act, Refused> {
        match act {
            Act::Decide => self.decide(to, place),
            Act::Wait(position) => {
                let span = self.waiter.until_next(position);
                self.poll(to, place, span).await
            }
            Act::VoidOwn | Act::Depart => self.retire(to, place, act).await,
            act => self.run_step(to, place, act).await,
        }
    }

    fn decide(&mut self, to: &Acquisition, place: &mut Place) -> Result<Act, Refused> {
        self.shows(to)?;
        self.waiter
            .knows(|watermark, most| to.inner.rows(&to.name, watermark, most));
        Ok(place.steps(self.waiter.decide()))
    }

    /// Tells the callers, and other places of this client, what the newest poll showed.
    fn shows(&mut self, to: &Acquisition) -> Result<(), Refused> {
        let waiter = &self.waiter;
        to.saw(waiter.item(), Some(WaitEstimate::of(waiter)));
        self.membership.shows(&waiter.row);
        to.inner.rows_are_void(&to.name, waiter.void_rows());
        // A place that already holds the lock is never refused.
        match waiter.position() {
            0 => Ok(()),
            _ => to.ensure_wanted(),
        }
    }

    /// Waits until the poll is due, a notification asks for one, or another place of this client hands over a lock item. The loop repeats
    /// if the place before confirmed that it is there, if the waiter has just asked it, or if the waiter only renewed its row.
    async fn poll(
        &mut self,
        to: &Acquisition,
        place: &mut Place,
        mut span: Duration,
    ) -> Result<Act, Refused> {
        loop {
            let waiter = &mut self.waiter;
            span = longer(to, waiter.subscribes(span), waiter);
            let woken = tokio::select! {
                biased;
                item = self.membership.news() => Woken::Told(Box::new(item)),
                notified = waiter.notified() => Woken::Notified(notified),
                () = to.pause(span) => Woken::Due,
            };
            to.ensure_wanted()?;
            let (news, before) = match woken {
                Woken::Told(item) => {
                    waiter.hear(*item);
                    return Ok(place.polled());
                }
                Woken::Notified(Notified::Confirmed) => {
                    span = waiter.confirmed();
                    continue;
                }
                Woken::Notified(Notified::Poll(news)) => {
                    let before = waiter.heeds(news);
                    (Some(news), before)
                }
                Woken::Due => match waiter.asks_first() {
                    Some(patience) => {
                        span = patience;
                        continue;
                    }
                    None => (None, None),
                },
            };
            let was_queued = waiter.is_queued();
            let mut polled = Box::pin(waiter.poll_again(&to.policy())).await?;
            if news.is_some() && waiter.is_spent {
                // Only the row was renewed, which was due. The poll follows.
                polled = Box::pin(waiter.poll_again(&to.policy())).await?;
            }
            if polled.is_none() {
                return Ok(self.lock_gone(place));
            }
            if waiter.is_spent {
                span = waiter.until_due_poll();
                self.shows(to)?;
                continue;
            }
            match news {
                Some(news) => waiter.was_notified(news, before),
                None => waiter.has_polled(was_queued),
            }
            return Ok(place.polled());
        }
    }

    async fn run_step(
        &mut self,
        to: &Acquisition,
        place: &mut Place,
        act: Act,
    ) -> Result<Act, Refused> {
        let policy = to.policy();
        let registration = self.waiter.attempt.registration();
        let before = registration.map(|_| self.waiter.item().clone());
        let (reads, fills) = (act == Act::ReadOn, matches!(act, Act::Fill(_)));
        let done = self.waiter.carry_out(act, &policy).await;
        // This place notifies others only of changes that its own writes made.
        if !reads && (!fills || self.waiter.has_settled_rows()) {
            self.notify_promoted(before.as_ref());
        }
        self.tidy(to);
        match done {
            Ok(Some(())) => Ok(place.polled()),
            Ok(None) => Ok(self.lock_gone(place)),
            // The step gave way to a renewal, which is due.
            Err(failure) if self.waiter.gives_way(&failure, &policy) => {
                self.poll(to, place, Duration::ZERO).await
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Notifies the places that got another standing on the lock item by what this place did.
    fn notify_promoted(&self, before: Option<&LockItem>) {
        if let (Some(registration), Some(before)) = (self.waiter.attempt.registration(), before) {
            let promoted = self.waiter.item().promoted_since(before);
            promoted.for_each(|entry| registration.tell_change(entry));
        }
    }

    fn lock_gone(&mut self, place: &mut Place) -> Act {
        self.is_lock_gone = true;
        place.lock_gone(self.waiter.ticket <= self.waiter.item().watermark)
    }

    /// Makes the ticket void. If another client gave the ticket a slot before, the place keeps that slot, or the lock if its turn has come.
    async fn retire(
        &mut self,
        to: &Acquisition,
        place: &mut Place,
        act: Act,
    ) -> Result<Act, Refused> {
        self.membership.leaves();
        let policy = to.policy();
        let mut exit = Exit {
            requests: &to.requests,
            name: &to.name,
            policy: &policy,
            attempt: &self.waiter.attempt,
            ticket: Some(self.waiter.ticket),
            seen: None,
        };
        let act = exit.run(place, act).await?;
        if let Some(item) = exit.seen {
            self.waiter.hear(item);
        }
        Ok(act)
    }

    /// Deletes settled rows at once, so that other clients no longer read them, and do not delete them again. If every holder and waiter
    /// of the lock is of this client, collects several rows for one request.
    fn tidy(&mut self, to: &Acquisition) {
        let settled_rows = self.waiter.take_settled_rows();
        if settled_rows.is_empty() {
            return;
        }
        let item = self.waiter.item();
        let end = item.last.next().unwrap_or_default();
        match to.inner.surrounds(&to.name, item, end) {
            true => to.inner.clean_later(&to.name, settled_rows),
            false => to.inner.clean(&to.name, settled_rows),
        }
    }

    pub(super) async fn granted(
        self,
        to: &Acquisition,
        place: Place,
    ) -> Result<Option<Arc<Hold>>, Refused> {
        let item = self.waiter.item().clone();
        to.inner.came_in(&to.name, &item);
        let (attempt, ticket, beats) = self.ends(to);
        to.grant(place, attempt, (ticket, beats), &item).await
    }

    /// Ends a place whose ticket will never be granted.
    pub(super) fn passed(self, to: &Acquisition) {
        let item = self.waiter.item();
        let watermark = item.watermark;
        let last = (!self.is_lock_gone).then_some(item);
        let reason = holder::evicted(last, self.waiter.ticket);
        let (attempt, ticket, _) = self.ends(to);
        tracing::info!(lock = %to.name, %ticket, %reason, "was passed in the queue: draws again");
        to.batch.note_requeued(Some(reason));
        to.inner.forget(&attempt);
        if ticket <= watermark {
            // A late join may have put the row there after other clients deleted it.
            to.inner.clean(&to.name, vec![ticket]);
        }
    }

    pub(super) fn leaves(self, to: &Acquisition, place: Place, refused: &Refused) {
        let seen = self.waiter.item().clone();
        let (attempt, ticket, _) = self.ends(to);
        // This client must write nothing more, not even its departure. The place ends when its lease expires.
        if refused.is_newer_format() {
            return;
        }
        tracing::debug!(lock = %to.name, %ticket, "leaves the queue");
        to.leaves(Departure::of(place, attempt, ticket, seen));
    }

    /// Takes the place apart. The client takes over its settled rows to delete, its open poll to finish, and its pace for later places.
    fn ends(self, to: &Acquisition) -> (Attempt, Ticket, RenewalHistory) {
        let Queued {
            mut waiter,
            membership,
            ..
        } = self;
        drop(membership);
        to.inner.clean_later(&to.name, waiter.take_settled_rows());
        if let Some(snapshot) = waiter.take_ahead() {
            let ticket = Some(waiter.ticket);
            to.inner
                .spawn(&to.name, ticket, Task::Poll, snapshot.drain());
        }
        to.inner.learnt(&to.name, waiter.pace.clone());
        let Waiter {
            attempt,
            ticket,
            beats,
            ..
        } = *waiter;
        (attempt, ticket, beats)
    }
}

/// Why a place polls, or does not.
enum Woken {
    /// Another place of this client handed over a lock item.
    Told(Box<LockItem>),
    Notified(Notified),
    /// The time to poll has come.
    Due,
}

/// Polls less often if a local handoff will wake this waiter anyway.
fn longer(to: &Acquisition, span: Duration, waiter: &mut Waiter) -> Duration {
    if to.inner.surrounds(&to.name, waiter.item(), waiter.ticket) {
        span.max(waiter.at_leisure())
    } else {
        span
    }
}
