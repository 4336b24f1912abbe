//! The turns at a place: each hold is kept renewed until it ends; then the next of those who came together has the lock, or it
//! is handed over.

use std::pin::pin;
use std::sync::Arc;

use super::Acquisition;
use crate::background::Task;
use crate::core::{Core, GiveBack, GivenBack, Holding, Refused, alone};
use crate::error::Loss;
use crate::heartbeat;
use crate::hold::{Hold, Standing};
use crate::offer::{self, Offer};
use crate::seats::Ended;
use crate::store::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::ticket::Sequence;

/// What became of the last turn at a place.
pub(super) struct Done {
    ended: Result<Ended, Failure>,
    /// Whoever is to be told.
    caller: Option<GiveBack>,
    hold: Arc<Hold>,
}

impl Done {
    pub(super) fn tell(self, core: &Core) {
        let Done {
            ended,
            caller,
            hold,
        } = self;
        match (caller, ended) {
            (Some(caller), ended) => tell(core, caller, ended),
            (None, Ok(_)) => {}
            (None, Err(failure)) => {
                tracing::warn!(lock = %hold.name, ticket = %hold.ticket, %failure, "could not release: the lease ends the hold");
                core.undone(&hold.name, Some(hold.ticket), Task::Release);
            }
        }
    }
}

/// Nobody may be left to be told; the release is done all the same.
fn tell(core: &Core, caller: GiveBack, ended: Result<Ended, Failure>) {
    let GiveBack { started, tell } = caller;
    let _ = tell.send((ended, core.store.now().since(started)));
}

impl Acquisition {
    /// Each turn of the loop is one turn at the place.
    pub(super) async fn turns(&mut self, mut hold: Arc<Hold>) -> Done {
        let mut before: Option<GiveBack> = None;
        // What tells those who wait of an outage is of no more use.
        self.store = self.core.store.clone();
        loop {
            self.hold = Some(Arc::clone(&hold));
            let (given_back, offer) = self.grants(&hold);
            if let Some(before) = before.take() {
                tell(&self.core, before, Ok(Ended::PassedOn));
            }
            self.keeps(&hold, offer).await;
            if hold.is_lost() {
                self.sends_the_rest_on(&hold);
            }
            let caller = match hold.standing() {
                // Released at once, whatever its guard does.
                Standing::Lost(Loss::ShutDown) => None,
                // Its guard may still be in use.
                _ => given_back.await.ok(),
            };
            let deadline = hold.believed_until();
            if let Some(next) = self.next_turn(&hold).await {
                (hold, before) = (Arc::new(next), caller);
                continue;
            }
            // Boxed, or the task would have room for it all the time.
            let ended = Box::pin(self.core.release(&hold, deadline)).await;
            self.hold = None;
            self.core.lets_go(&hold);
            return Done {
                ended,
                caller,
                hold,
            };
        }
    }

    /// Offers a hold to the first caller who takes it. If nobody does, it is given back at once.
    fn grants(&self, hold: &Arc<Hold>) -> (GivenBack, Offer<Holding>) {
        let (core, party) = (&self.core, &self.party);
        core.keep(hold, party, &self.listed);
        let (hold, listed) = (Arc::clone(hold), self.listed.clone());
        let (holding, given_back) = Holding::new(core, hold, Arc::clone(party), listed);
        let (granted, offer) = offer::offer(holding);
        // Either `shutdown` saw the hold, or it was called before this: then nobody is to have the guard.
        if core.closed.is_cancelled() {
            party.refuse(Refused::GaveUp);
        }
        drop(party.grant(granted));
        (given_back, offer)
    }

    /// Ends with the hold, which ends at once if its guard is given back.
    async fn keeps(&self, hold: &Hold, offer: Offer<Holding>) {
        let core = &self.core;
        let saw = |item: &LockItem| core.saw(&hold.name, item);
        let mut renewing = pin!(heartbeat::keep(&core.store, hold, saw));
        let untaken = tokio::select! {
            biased;
            () = &mut renewing => return,
            untaken = core.untaken(offer) => untaken,
        };
        if let Some(guard) = untaken {
            tracing::info!(lock = %hold.name, ticket = %hold.ticket, "granted to a call that was not polled: gives the lock back");
            drop(guard);
        }
        tokio::select! {
            biased;
            // First: nothing is freed under a hold that has ended.
            () = &mut renewing => return,
            () = core.frees_late(hold, &self.party) => {}
        }
        renewing.await;
    }

    /// The next hold at the same place, without a request but for a renewal that is overdue, and the end of what checks this
    /// hold. None: nobody waits for it there, or the place is not to be kept.
    async fn next_turn(&mut self, hold: &Hold) -> Option<Hold> {
        let core = Arc::clone(&self.core);
        let is_kept = !self.is_over
            && core.is_passed_on(hold, &self.party)
            && core.store.now() < hold.believed_until()
            && core.has_lease_left(hold).await
            && core.acts_no_more(hold).await;
        if is_kept {
            // Nobody else keeps their time: those whose time is over are not to be granted it.
            self.party.part(core.store.now());
        }
        if !is_kept || !core.is_passed_on(hold, &self.party) {
            self.sends_the_rest_on(hold);
            return None;
        }
        let next = hold.ticket.next()?;
        tracing::debug!(lock = %hold.name, ticket = %next, "passed on");
        Some(hold.passed_on(next))
    }

    /// The place is gone, or will be: those who still wait behind the hold go to the end of the line, by a place of their own.
    fn sends_the_rest_on(&mut self, hold: &Hold) {
        if std::mem::replace(&mut self.is_over, true) || hold.turns_left() == 1 {
            return;
        }
        let (core, party) = (&self.core, &self.party);
        party.part(core.store.now());
        if party.is_over() || core.closed.is_cancelled() {
            party.refuse(Refused::GaveUp);
        } else {
            core.acquire(&self.name, Arc::clone(party), alone(&self.name), None);
        }
    }
}
