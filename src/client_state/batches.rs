//! Callers that came to a lock together: at its doorway, and behind a hold at the same place.

use std::sync::Arc;

use super::directory::Arrival;
use super::{Batch, Caller, Claim, ClientInner, PendingCall};
use crate::hold::Hold;
use crate::hold_bounds::HoldBounds;
use crate::name::LockName;
use crate::place_writes;
use crate::requests::RetryPolicy;
use crate::store::{Write, all_of};
use fairlock_protocol::entry::Attributes;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::lease;
use fairlock_protocol::write::LockWrite;

/// Starts the task that acquires a lock for a batch.
pub(crate) type StartPlaceTask =
    fn(&Arc<ClientInner>, &LockName, Arc<Batch>, Claim, Option<DoorwayTurn>);

/// The right to the doorway of a lock, which the batches of one client take one after the other. Dropping it lets the next batch in.
pub(crate) struct DoorwayTurn {
    inner: Arc<ClientInner>,
    name: LockName,
}

impl Drop for DoorwayTurn {
    fn drop(&mut self) {
        self.inner.next_at_the_door(&self.name);
    }
}

impl ClientInner {
    /// Adds a call to a batch: alone at the doorway, or with the calls that gather behind a batch that is there. Takes the doorway in the
    /// same step, so that no call joins a batch that has set out.
    pub(crate) fn join_batch(
        self: &Arc<Self>,
        name: &LockName,
        caller: Caller,
    ) -> (Arc<Batch>, PendingCall, Option<DoorwayTurn>) {
        let Arrival {
            batch,
            pending,
            is_first,
        } = self
            .directory
            .arrives(name, caller, |caller| self.alone(caller));
        let doorway_turn = is_first.then(|| self.doorway_turn(name));
        (batch, pending, doorway_turn)
    }

    fn doorway_turn(self: &Arc<Self>, name: &LockName) -> DoorwayTurn {
        DoorwayTurn {
            inner: Arc::clone(self),
            name: name.clone(),
        }
    }

    /// Makes a batch of one call.
    pub(crate) fn alone(&self, caller: Caller) -> (Arc<Batch>, PendingCall) {
        let (batch, pending) = Batch::founded(self.closed.child_token(), caller);
        (Arc::new(batch), pending)
    }

    /// The callers that wait at the doorway until this batch is in the queue.
    pub(crate) fn behind_at_the_door(&self, name: &LockName, first: &Batch) -> Option<Arc<Batch>> {
        self.directory.behind(name, first)
    }

    /// Whether a task acquires the lock for this batch, or for the batch before it at the doorway. If not, the runtime of this client does
    /// not run.
    pub(crate) fn is_under_way(&self, name: &LockName, batch: &Batch) -> bool {
        let first = || self.directory.on_the_way(name);
        batch.is_under_way() || first().is_some_and(|first| first.is_under_way())
    }

    fn next_at_the_door(self: &Arc<Self>, name: &LockName) {
        if let Some(batch) = self.directory.next(name) {
            let doorway_turn = self.doorway_turn(name);
            self.acquire(name, batch, alone(name), Some(doorway_turn));
        }
    }

    /// Acquires the lock, in the background.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        name: &LockName,
        batch: Arc<Batch>,
        claim: Claim,
        doorway_turn: Option<DoorwayTurn>,
    ) {
        (self.go)(self, name, batch, claim, doorway_turn);
    }

    /// Whether a caller still waits to hold the lock after a hold, at the same place.
    pub(crate) fn is_passed_on(&self, hold: &Hold, batch: &Batch) -> bool {
        hold.turns_left() > 1 && !self.closed.is_cancelled() && batch.waits(self.store.now())
    }

    /// Whether a hold has half a lease left. Renews the hold if need be.
    pub(crate) async fn has_lease_left(&self, hold: &Hold) -> bool {
        let (store, lease) = (&self.store, self.store.config().lease);
        if !lease::is_short(lease, hold.believed_until().since(store.now())) {
            return true;
        }
        let renew =
            || place_writes::renew(store, &hold.name, &hold.attempt, (hold.footing(), lease));
        let Ok(answer) = self
            .requests
            .retry_renewal(&self.policy_to_hold(hold), renew)
            .await
        else {
            return false;
        };
        match &answer.value {
            Write::Applied(item) => hold.renewed(item, answer.answered()),
            Write::ConditionFailed(_) => false,
        }
    }

    /// Whether no transaction that checks a hold, and no write of its data, can apply any more. Sends a write if some of them might.
    pub(crate) async fn acts_no_more(&self, hold: &Hold) -> bool {
        let ended = self.end_acts(hold, &self.policy_to_hold(hold)).await;
        matches!(ended, Ok(Ok(())))
    }

    /// Invalidates pending checks of a hold, and pending writes of its data, because another hold follows at its place. Returns the item if
    /// it does not show that.
    pub(super) async fn end_acts(
        &self,
        hold: &Hold,
        policy: &RetryPolicy,
    ) -> Result<Result<(), Option<LockItem>>, Failure> {
        if !hold.may_act_late() {
            return Ok(Ok(()));
        }
        let left = hold.turns_left() - 1;
        let (name, nonce) = (&hold.name, hold.attempt.nonce);
        let pass_on = LockWrite::pass_on(all_of(name), nonce, hold.footing().ticket, left);
        let pass_on = || self.store.write(name, &pass_on);
        let answer = self.requests.retry_renewal(policy, pass_on).await?;
        let shown = answer.value.shown();
        let is_ended = shown.as_ref().is_some_and(|item| {
            let holder = item.holder().filter(|_| hold.saw(item));
            holder.is_some_and(|holder| holder.tickets <= left)
        });
        Ok(match is_ended {
            true => Ok(()),
            false => Err(shown),
        })
    }
}

/// The claim of a batch: its callers want the lock exclusively.
pub(crate) fn alone(name: &LockName) -> Claim {
    Claim {
        permits: name.permits().unwrap_or_default(),
        attributes: Attributes::default(),
        waits: true,
        bounds: HoldBounds::default(),
    }
}
