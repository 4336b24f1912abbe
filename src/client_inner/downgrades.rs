//! Downgrades: a hold keeps one permit and frees the others, at once or when no caller of its own client is next.

use std::sync::Arc;

use super::{Batch, ClientInner};
use crate::hold::{self, Hold};
use crate::store::Failure;
use fairlock_protocol::item::LockItem;

impl ClientInner {
    /// Keeps one permit of a hold. Returns the item if it does not show the hold any more.
    ///
    /// Callers that came together with this caller, and wait for the next turn at the same place, want all permits. They are before all
    /// waiters to which permits could be given. So the table keeps all permits for them as long as such a caller waits. Even so, writes
    /// that only an exclusive holder may make are refused from now on.
    pub(crate) async fn downgrade(
        self: &Arc<Self>,
        hold: &Hold,
        batch: &Batch,
    ) -> Result<Result<(), Option<LockItem>>, Failure> {
        if hold.held().permits == 1 {
            return Ok(Ok(()));
        }
        if self.is_passed_on(hold, batch) {
            // Done first: the hold's own task frees the permits when those callers have gone, whatever becomes of this call.
            hold.mark_shared();
            let policy = self.policy_until(hold.believed_until());
            return self.end_acts(hold, &policy).await;
        }
        self.free(hold).await
    }

    async fn free(self: &Arc<Self>, hold: &Hold) -> Result<Result<(), Option<LockItem>>, Failure> {
        let policy = self.policy_until(hold.believed_until());
        let slots = self.slots(&hold.name, &policy);
        let downgraded = slots.downgrade(&hold.attempt, hold.held()).await?;
        Ok(downgraded.map(|item| {
            hold.saw(&item);
            self.admit(&hold.name, &item);
        }))
    }

    /// Frees the permits of a hold that was downgraded while callers of its client waited for the next turn. Does so as soon as no such
    /// caller waits any more.
    pub(crate) async fn free_permits_later(self: &Arc<Self>, hold: &Hold, batch: &Batch) {
        hold.wait_shared().await;
        // Boxed, so that the task of each hold reserves no memory for it.
        Box::pin(self.free_permits_behind_the_last(hold, batch)).await;
    }

    async fn free_permits_behind_the_last(self: &Arc<Self>, hold: &Hold, batch: &Batch) {
        if hold.turns_left() > 1 {
            self.wait_over(batch).await;
        }
        // Ends with the hold, or with an answer: each failure but a refusal takes until the local deadline of the hold.
        while hold.held().permits > 1 && !self.is_passed_on(hold, batch) && hold.is_active() {
            match self.free(hold).await {
                Ok(Ok(())) => {}
                Ok(Err(item)) => {
                    hold.lose(hold::evicted(item, hold.ticket));
                }
                Err(failure) => {
                    tracing::warn!(lock = %hold.name, ticket = %hold.ticket, %failure, "could not free the permits of a downgraded hold: tries again");
                    let config = self.store.config();
                    config.clock.sleep(config.heartbeat / 4).await;
                }
            }
        }
    }

    /// Waits until no member of a batch waits any more. Keeps the members' time, though their calls are not polled. Each turn of the loop
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
