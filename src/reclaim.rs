//! Clears the way of a claim at the door. Settled rows are deleted without a condition, because no client decides by them any more.

use crate::cleaning;
use crate::name::LockName;
use crate::removal;
use crate::requests::{Requests, RetryPolicy};
use crate::snapshot::{self, Snapshot, WATCHED};
use crate::store::Timed;
use crate::undated;
use fairlock_protocol::clearing::Clearing;
use fairlock_protocol::doorway::Seen;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::place::{Act, Place};
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::step::{ClearingStep, Known, Removal};

/// Clears the way of a claim: removes dead holders and successors, dead waiters and gaps, all of them judged by two clocks. Ends when the
/// lock is available, or a live participant stands in the way. The number of steps is bounded, and what is left then counts as in the way.
/// The next caller finds less of it, because settled tickets are passed and their rows deleted as they are met.
pub(crate) struct Reclaim<'a> {
    requests: &'a Requests,
    name: &'a LockName,
    policy: &'a RetryPolicy,
    /// How many permits the claim asks for.
    permits: u64,
    pub(crate) snapshot: Snapshot,
    /// What the answer to the snapshot told of the time.
    pub(crate) reading: Reading,
    clearing: Clearing,
}

impl<'a> Reclaim<'a> {
    /// Starts from an item that has just been seen.
    pub(crate) fn of(
        requests: &'a Requests,
        name: &'a LockName,
        policy: &'a RetryPolicy,
        permits: u64,
        (item, reading): (LockItem, Reading),
    ) -> Self {
        Reclaim {
            requests,
            name,
            policy,
            permits,
            snapshot: Snapshot::of(item),
            reading,
            clearing: Clearing::default(),
        }
    }

    /// Carries out what a place asks for here, until it asks for something else, or gives in. `judged` gets the verdict on the
    /// way and the item, and returns what its place sees there. Each round of the loop is a step of a bounded number, or leads to
    /// one.
    pub(crate) async fn run(
        &mut self,
        place: &mut Place,
        mut judged: impl FnMut(&ClearingStep, &LockItem) -> Seen + Send,
    ) -> Result<Act, Failure> {
        let mut act = Act::Clear;
        loop {
            let next = match act {
                Act::Clear => {
                    let refusal = self.refusal().await;
                    let seen = judged(&refusal, &self.snapshot.item);
                    act = place.clears(refusal, seen);
                    continue;
                }
                Act::Remove(removal) => self.remove(&removal).await?,
                Act::ReadOn if self.snapshot.known == Known::Nothing => self.read().await?,
                Act::ReadOn => {
                    let seen = (self.snapshot.clone(), self.reading);
                    snapshot::read_on(seen, self.requests, self.name, self.policy).await?
                }
                act => return Ok(act),
            };
            act = match next {
                Some(snapshot) => {
                    (self.snapshot, self.reading) = (snapshot.value, snapshot.reading);
                    place.polled()
                }
                None => place.lock_gone(false),
            };
        }
    }

    /// The verdict on what the claim sees.
    async fn refusal(&mut self) -> ClearingStep {
        if !self.requests.has_time_left(self.policy) {
            return ClearingStep::Taken;
        }
        let now = self.requests.store.judges(self.reading);
        let refusal = self.clearing.next(&self.snapshot, &now, self.permits);
        if refusal == ClearingStep::Taken && !self.clearing.has_given_up() {
            undated::stamp(self.requests, self.name, (&self.snapshot, self.reading)).await;
        }
        refusal
    }

    async fn read(&self) -> Result<Option<Timed<Snapshot>>, Failure> {
        snapshot::read(self.requests, self.name, WATCHED, self.policy).await
    }

    /// Carries out a removal, and returns what is seen after it. Settled rows are deleted at once, because they would have to be read again.
    /// What a removal of rows has changed is read if there is time to act on it.
    async fn remove(&self, removal: &Removal) -> Result<Option<Timed<Snapshot>>, Failure> {
        let (requests, name, policy, seen) =
            (self.requests, self.name, self.policy, &self.snapshot);
        let removed = removal::carry_out(requests, name, policy, seen, removal).await?;
        if let Some(answer) = removed.shown {
            let item = answer.transpose();
            return Ok(item.map(|item| item.map(Snapshot::of)));
        }
        if let Removal::Settle(upto) = removal
            && removed.is_applied
            && requests.has_time_left(policy)
        {
            let settled: Vec<_> = seen.settled_rows(*upto).map(|row| row.ticket).collect();
            cleaning::clean(requests, name, policy, &settled).await;
        }
        self.read().await
    }
}
