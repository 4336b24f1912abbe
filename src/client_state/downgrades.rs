//! Permits that a hold gives back while it goes on: at once, or when no caller of its own client is next and its shortest time is over.

use std::sync::Arc;

use super::{Batch, ClientInner};
use crate::hold::Hold;
use crate::holder;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;

impl ClientInner {
    /// Gives back so many permits of a hold, on which its guard counts no more. If this call is dropped after that, the hold's own task gives
    /// them back. Returns the item if it does not show the hold any more.
    ///
    /// Callers that came together with this caller, and wait for the next turn at the same place, want all permits. They are before all
    /// waiters to which permits could be given. So the table keeps all permits for them as long as such a caller waits. Even so, writes
    /// that only an exclusive holder may make are refused from now on.
    pub(crate) async fn give_back(
        self: &Arc<Self>,
        hold: &Hold,
        batch: &Batch,
        permits: u64,
    ) -> Result<Result<(), Option<LockItem>>, Failure> {
        let _one_at_a_time = hold.lock_permit_changes().await;
        hold.counts_on_fewer(permits);
        // Asked in this order: a caller that waited may have the next turn by now, and then this hold has ended.
        let is_passed_on = self.is_passed_on(hold, batch);
        if !hold.is_active() {
            return Ok(Ok(()));
        }
        if is_passed_on {
            let policy = self.policy_until(hold.believed_until());
            return self.end_acts(hold, &policy).await;
        }
        match hold.is_spare() && hold.owed().is_zero() {
            true => self.free(hold, hold.permits()).await,
            false => Ok(Ok(())),
        }
    }

    pub(crate) async fn free(
        self: &Arc<Self>,
        hold: &Hold,
        keeps: u64,
    ) -> Result<Result<(), Option<LockItem>>, Failure> {
        let held = hold.held();
        if held.permits <= keeps {
            return Ok(Ok(()));
        }
        let policy = self.policy_until(hold.believed_until());
        let writer = self.writer(&hold.name, &policy);
        let downgraded = writer.downgrade(&hold.attempt, (held, keeps)).await?;
        Ok(downgraded.map(|item| {
            hold.saw(&item);
            self.admit(&hold.name, &item);
        }))
    }

    /// Frees the permits of a hold on which its guard counts no more, and which no call has freed. So the call was dropped. Or they were given
    /// back while callers of this client waited for the next turn, or in the shortest time of the hold. Does not end.
    pub(crate) async fn free_permits_later(self: &Arc<Self>, hold: &Hold, batch: &Batch) {
        // Each turn frees what was left since the turn before.
        loop {
            hold.wait_spare().await;
            // Boxed, so that the task of each hold reserves no memory for it.
            Box::pin(self.free_spare_permits(hold, batch)).await;
        }
    }

    async fn free_spare_permits(self: &Arc<Self>, hold: &Hold, batch: &Batch) {
        let config = self.store.config();
        config.clock.sleep(hold.owed()).await;
        if hold.turns_left() > 1 {
            self.wait_over(batch).await;
        }
        // Ends with the hold, or with an answer: each failure but a refusal takes until the local deadline of the hold.
        while let Some(freed) = self.free_once(hold, batch).await {
            match freed {
                Ok(Ok(())) => {}
                Ok(Err(item)) => {
                    hold.lose(holder::evicted(item.as_ref(), hold.ticket));
                }
                Err(failure) => {
                    tracing::warn!(lock = %hold.name, ticket = %hold.ticket, %failure, "could not free the permits that a hold gave back: tries again");
                    config.clock.sleep(config.heartbeat / 4).await;
                }
            }
        }
    }

    /// Returns `None` if nothing is to be freed any more.
    async fn free_once(
        self: &Arc<Self>,
        hold: &Hold,
        batch: &Batch,
    ) -> Option<Result<Result<(), Option<LockItem>>, Failure>> {
        let _one_at_a_time = hold.lock_permit_changes().await;
        let is_due = hold.is_spare() && !self.is_passed_on(hold, batch) && hold.is_active();
        match is_due {
            true => Some(self.free(hold, hold.permits()).await),
            false => None,
        }
    }

    /// Waits until no member of a batch waits any more. Keeps the members' time, though their calls are not polled. Each pass of the loop
    /// ends the wait of a member.
    async fn wait_over(&self, batch: &Batch) {
        let clock = &self.store.config().clock;
        while !batch.is_over() {
            let until = batch.next_until();
            tokio::select! {
                biased;
                () = batch.stop.cancelled() => return,
                () = clock.sleep_until(until.unwrap_or_default()), if until.is_some() => {
                    batch.part(clock.now());
                }
            }
        }
    }
}
