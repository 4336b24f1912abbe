//! The turns at a place, after its grant. The task renews the hold until it ends. Then it passes the lock to the next caller of the batch, or
//! releases it to the next client.

use std::pin::pin;
use std::sync::Arc;

use super::Acquisition;
use crate::client_state::{ClientInner, GiveBack, GivenBack, Holding, Refused, alone};
use crate::error::LossReason;
use crate::heartbeat;
use crate::hold::{Hold, HoldStatus};
use crate::offer::{self, Offer};
use crate::place_writes::Ended;
use crate::runtime::background::Task;
use crate::telemetry::ReleaseOutcome;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Sequence;
use tracing::Instrument;

/// The outcome of the last turn at a place.
pub(super) struct Done {
    pub(super) ended: Result<Ended, Failure>,
    /// The caller to notify, if there is one.
    pub(super) caller: Option<GiveBack>,
    pub(super) hold: Arc<Hold>,
}

impl Done {
    /// Records a release that failed and of which no caller will be notified. Must be called before the job is off the client's list, because
    /// a shutdown reports what is recorded when the list is empty.
    pub(super) fn note(&self, inner: &ClientInner) {
        let Done {
            ended,
            caller,
            hold,
        } = self;
        let is_heard = caller.as_ref().is_some_and(|it| !it.tell.is_closed());
        if let (false, Err(failure)) = (is_heard, ended) {
            inner.undone(&hold.name, Some(hold.ticket), Task::Release);
            tracing::warn!(lock = %hold.name, ticket = %hold.ticket, %failure, "could not release: the lease ends the hold");
        }
    }

    pub(super) fn tell(self, inner: &ClientInner) {
        if let Some(caller) = self.caller {
            tell(inner, caller, self.ended);
        }
    }
}

/// The caller may be gone. The release is done all the same.
pub(super) fn tell(inner: &ClientInner, caller: GiveBack, ended: Result<Ended, Failure>) {
    let GiveBack { started, tell, .. } = caller;
    let _ = tell.send((ended, inner.store.now().since(started)));
}

impl Acquisition {
    /// Runs the turns at the place. Each pass of the loop is one hold.
    pub(super) async fn turns(&mut self, mut hold: Arc<Hold>) -> Done {
        let mut before: Option<GiveBack> = None;
        // Callers need no reports of an outage any more, so the client's plain requests are enough.
        self.requests = self.inner.requests.clone();
        loop {
            self.hold = Some(Arc::clone(&hold));
            let (given_back, offer) = self.offer_to_batch(&hold);
            if let Some(before) = before.take() {
                tell(&self.inner, before, Ok(Ended::PassedOn));
            }
            let span = hold.telemetry.span();
            self.renew_until_ended(&hold, offer).instrument(span).await;
            if hold.is_lost() {
                hold.attempt.confirms_no_more();
                self.requeue_the_rest(&hold);
            }
            let caller = match hold.is_released_by_its_task() {
                true => {
                    // A shutdown waits for this release, though no guard has asked for it.
                    self.listed.becomes(Task::Release, hold.ticket);
                    None
                }
                // The guard may still be in use.
                false => given_back.await.ok(),
            };
            let deadline = hold.lease_until();
            let lease = caller.as_ref().and_then(GiveBack::lease_for_caller);
            if lease.is_some() {
                self.requeue_the_rest(&hold);
            } else if let Some(next) = self.next_turn(&hold).await {
                (hold, before) = (Arc::new(next), caller);
                continue;
            }
            let done = self.finish(&hold, caller, deadline).await;
            self.hold = None;
            self.inner.lets_go(&hold);
            return done;
        }
    }

    /// Ends the last hold of the place:
    ///
    /// - A hold that was lost at its local deadline is kept in the table until its safety margin is over.
    /// - A hold that its caller made a lease gets its last write, and stays in the table.
    /// - A hold that was released before its shortest time is kept for the rest of it.
    /// - The task releases every other hold, and those that it kept for a while. It leaves a hold to its lease if that lease includes the
    ///   margin, if the last renewal failed, or if the client is shut down meanwhile.
    ///
    /// All of these are boxed, so that the task does not reserve memory for them all the time.
    async fn finish(
        &self,
        hold: &Arc<Hold>,
        mut caller: Option<GiveBack>,
        mut deadline: Moment,
    ) -> Done {
        deadline = match Box::pin(self.keeps_for_margin(hold, &mut caller, deadline)).await {
            Ok(until) => until,
            Err(done) => return done,
        };
        let is_ours = matches!(
            hold.status(),
            HoldStatus::Released | HoldStatus::Lost(LossReason::ShutDown)
        );
        let lease = caller.as_ref().and_then(GiveBack::lease_for_caller);
        // The caller of a hold that was given back after its deadline is told that it was lost.
        let lease = lease.filter(|_| hold.ended_late().is_none());
        if let (HoldStatus::Released, Some(term)) = (hold.status(), lease.cloned()) {
            return Done {
                ended: Box::pin(self.leases_out(hold, &term)).await,
                caller,
                hold: Arc::clone(hold),
            };
        }
        if is_ours && !hold.owed().is_zero() {
            deadline = match Box::pin(self.keeps_on(hold, caller.take())).await {
                Ok(until) => until,
                Err(done) => return done,
            };
        }
        Done {
            ended: Box::pin(self.inner.release(hold, deadline)).await,
            caller,
            hold: Arc::clone(hold),
        }
    }

    /// Offers a hold to the first caller that takes it. If no caller does, gives the hold back at once.
    fn offer_to_batch(&self, hold: &Arc<Hold>) -> (GivenBack, Offer<Holding>) {
        let (inner, batch) = (&self.inner, &self.batch);
        inner.keep(hold, batch, &self.listed);
        let (held, listed) = (Arc::clone(hold), self.listed.clone());
        let (holding, given_back) = Holding::new(inner, held, Arc::clone(batch), listed);
        let (granted, offer) = offer::offer(holding);
        // A shutdown after `keep` finds the hold and deals with it. After an earlier shutdown, no caller may get the guard.
        if inner.closed.is_cancelled() {
            batch.refuse(&Refused::ShuttingDown);
        }
        if let Ok(call) = batch.grant(granted) {
            hold.telemetry.granted_to(&call, inner.store.now());
        }
        (given_back, offer)
    }

    /// Keeps a hold renewed. Returns when the hold ends. Giving its guard back ends it at once.
    async fn renew_until_ended(&self, hold: &Hold, offer: Offer<Holding>) {
        let inner = &self.inner;
        let saw = |item: &LockItem| inner.saw(&hold.name, item);
        let mut renewing = pin!(heartbeat::keep(&inner.requests, hold, saw));
        let untaken = tokio::select! {
            biased;
            () = &mut renewing => return,
            untaken = inner.untaken(offer) => untaken,
        };
        if let Some(guard) = untaken {
            tracing::info!(lock = %hold.name, ticket = %hold.ticket, "granted to a call that was not polled: gives the lock back");
            drop(guard);
        }
        tokio::select! {
            biased;
            // Polled first: it notices that the hold has ended, and then no permits may be freed.
            () = &mut renewing => return,
            () = inner.free_permits_later(hold, &self.batch) => {}
        }
        renewing.await;
    }

    /// Returns the next hold at the same place. Sends a request in two cases only. It renews a lease of which less than half is left. It sends
    /// *pass on* if the hold that ends was used for a check, or if a write of its data got no answer. Returns `None` if no caller waits
    /// for the lock there, if the place is lost, or if such a request fails.
    async fn next_turn(&mut self, hold: &Hold) -> Option<Hold> {
        let inner = Arc::clone(&self.inner);
        let is_kept = !self.callers_answered
            && inner.is_passed_on(hold, &self.batch)
            && inner.store.now() < hold.believed_until()
            && inner.has_lease_left(hold).await
            && inner.acts_no_more(hold).await;
        if is_kept {
            // No other task keeps these callers' time: a caller whose time has run out must not be granted the lock.
            self.batch.part(inner.store.now());
        }
        if !is_kept || !inner.is_passed_on(hold, &self.batch) {
            self.requeue_the_rest(hold);
            return None;
        }
        let next = hold.ticket.next()?;
        hold.telemetry.released(ReleaseOutcome::PassedOn);
        Some(hold.passed_on(next))
    }

    /// Moves the callers that still wait behind the hold to a new place at the end of the queue. This place is lost, or about to be released.
    fn requeue_the_rest(&mut self, hold: &Hold) {
        if std::mem::replace(&mut self.callers_answered, true) || hold.turns_left() == 1 {
            return;
        }
        let (inner, batch) = (&self.inner, &self.batch);
        batch.part(inner.store.now());
        if batch.is_over() || inner.closed.is_cancelled() {
            batch.refuse(&inner.why_stopped());
        } else {
            let lost = match hold.status() {
                HoldStatus::Lost(reason) => Some(reason),
                HoldStatus::Held | HoldStatus::Released => hold.ended_late(),
            };
            batch.note_requeued(lost);
            inner.acquire(&self.name, Arc::clone(batch), alone(&self.name), None);
        }
    }
}
