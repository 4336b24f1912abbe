//! Clears the way of a claim at the door. Settled rows are deleted without a condition, because no client decides by them any more.

use crate::cleaning;
use crate::config::{ALL_SLOTS, SHARERS};
use crate::name::LockName;
use crate::removal;
use crate::requests::{Requests, RetryPolicy};
use crate::snapshot::{self, Snapshot, WATCHED};
use crate::store::Timed;
use crate::undated;
use fairlock_protocol::doorway::Seen;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::judge::Judge;
use fairlock_protocol::place::{Act, Place};
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::step::{self, ClearingStep, Known, Removal};

/// The most steps that a caller takes through the queue: as many as there can be slots, and a few pages behind them.
const STEPS: usize = ALL_SLOTS + 16;

/// The most evictions of a caller: as many as can share a fair lock, and all slots, whose participants hold it after them.
const EVICTIONS: usize = SHARERS as usize + ALL_SLOTS;

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
    budget: Budget,
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
            budget: Budget {
                steps: STEPS,
                evictions: EVICTIONS,
            },
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
        // It has watched nothing.
        let (judge, now) = (Judge::default(), self.requests.store.judges(self.reading));
        let item = &self.snapshot.item;
        let view = judge.view(&self.snapshot, &now);
        let expired = |gap| judge.expired(item, &now, gap);
        let refusal = step::next_refusal(&view, item.has_left(self.permits), expired);
        if !self.budget.allows(&refusal) {
            // Dead participants that are left do not matter if there is room for the claim.
            return match self.snapshot.item.has_room_for(self.permits) {
                true => ClearingStep::Free,
                false => ClearingStep::Taken,
            };
        }
        if refusal == ClearingStep::Taken {
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

/// How many steps of each kind may still be taken.
struct Budget {
    steps: usize,
    evictions: usize,
}

impl Budget {
    /// Whether another step of this kind may be taken. If so, counts it.
    fn allows(&mut self, refusal: &ClearingStep) -> bool {
        let left = match refusal {
            ClearingStep::Free | ClearingStep::Settled | ClearingStep::Taken => return true,
            ClearingStep::Remove(Removal::Evict(_)) => &mut self.evictions,
            _ => &mut self.steps,
        };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }
}
