//! Clears the way of a claim at the door. Settled rows are deleted without a condition, because no client decides by them any more.

use crate::cleaning;
use crate::config::{ALL_SLOTS, SHARERS};
use crate::name::LockName;
use crate::removal;
use crate::requests::{Requests, RetryPolicy};
use crate::snapshot::{self, Snapshot, WATCHED};
use crate::undated;
use fairlock_protocol::doorway::Seen;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::place::{Act, Place};
use fairlock_protocol::step::{self, ClearingStep, Known, Removal};
use fairlock_protocol::witness::Judge;

/// The most steps that a caller takes through the queue: as many as there can be slots, and a few pages behind them.
const STEPS: usize = ALL_SLOTS + 16;

/// The most evictions of a caller: as many as can share a fair lock, and all slots, whose participants hold it after them.
const EVICTIONS: usize = SHARERS as usize + ALL_SLOTS;

/// Clears the way of a claim: removes dead holders and successors, dead waiters and gaps, all of them judged by DynamoDB's clock.
/// Ends when the lock is available, or a live participant stands in the way. The number of steps is bounded, and what is left
/// then counts as in the way. The next caller finds less of it, because settled tickets are passed and their rows deleted as they
/// are met.
pub(crate) struct Reclaim<'a> {
    requests: &'a Requests,
    name: &'a LockName,
    policy: &'a RetryPolicy,
    /// How many permits the claim asks for.
    permits: u64,
    pub(crate) snapshot: Snapshot,
    judge: Judge,
    budget: Budget,
}

impl<'a> Reclaim<'a> {
    /// Starts from an item that has just been seen.
    pub(crate) fn of(
        requests: &'a Requests,
        name: &'a LockName,
        policy: &'a RetryPolicy,
        permits: u64,
        item: LockItem,
    ) -> Self {
        Reclaim {
            requests,
            name,
            policy,
            permits,
            snapshot: Snapshot::of(item),
            judge: Judge::hears(requests.store.newest_date()),
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
                    let refusal = self.refusal().await?;
                    let seen = judged(&refusal, &self.snapshot.item);
                    act = place.clears(refusal, seen);
                    continue;
                }
                Act::Remove(removal) => self.remove(&removal).await?,
                Act::ReadOn if self.snapshot.known == Known::Nothing => self.read().await?,
                Act::ReadOn => {
                    let seen = self.snapshot.clone();
                    let read = snapshot::read_on(seen, self.requests, self.name, self.policy);
                    read.await?.map(|answer| answer.value)
                }
                act => return Ok(act),
            };
            act = match next {
                Some(snapshot) => {
                    self.snapshot = snapshot;
                    place.polled()
                }
                None => place.lock_gone(false),
            };
        }
    }

    /// The verdict on what the claim sees. No participant counts as dead by the time of a single answer.
    async fn refusal(&mut self) -> Result<ClearingStep, Failure> {
        while self.requests.has_time_left(self.policy) {
            let (snapshot, time) = (&self.snapshot, self.judge.time());
            let judge =
                |entry: &Entry| snapshot::by_server_clock(&self.requests.store, entry, time);
            let digest = snapshot.digest(|_, entry| judge(entry));
            let is_over = snapshot::gaps_are_over(&self.requests.store, &snapshot.item, time);
            let is_left = snapshot.item.has_left(self.permits);
            let expired = |_| is_over.then_some(snapshot.item.last);
            let refusal = step::next_refusal(&digest, is_left, expired);
            let lacks = || self.requests.store.lacks_a_witness() && undated::lacks_a_date(snapshot);
            if self.judge.polls_again(&refusal, lacks) {
                let read = snapshot::read(self.requests, self.name, WATCHED, self.policy);
                let Some(answer) = read.await? else {
                    return Ok(ClearingStep::Free);
                };
                self.judge.hear(answer.date);
                self.snapshot = answer.value;
                continue;
            }
            if !self.budget.allows(&refusal) {
                // Dead participants that are left do not matter if there is room for the claim.
                return Ok(match snapshot.item.has_room_for(self.permits) {
                    true => ClearingStep::Free,
                    false => ClearingStep::Taken,
                });
            }
            if refusal == ClearingStep::Taken && self.requests.has_time_left(self.policy) {
                undated::stamp(self.requests, self.name, &self.snapshot).await;
            }
            return Ok(refusal);
        }
        Ok(ClearingStep::Taken)
    }

    async fn read(&self) -> Result<Option<Snapshot>, Failure> {
        let snapshot = snapshot::read(self.requests, self.name, WATCHED, self.policy).await?;
        Ok(snapshot.map(|answer| answer.value))
    }

    /// Carries out a removal, and returns what is seen after it. Settled rows are deleted at once, because they would have to be read again.
    /// What a removal of rows has changed is read if there is time to act on it.
    async fn remove(&self, removal: &Removal) -> Result<Option<Snapshot>, Failure> {
        let (requests, name, policy, seen) =
            (self.requests, self.name, self.policy, &self.snapshot);
        let removed = removal::carry_out(requests, name, policy, seen, removal).await?;
        if let Some(answer) = removed.shown {
            return Ok(answer.value.map(Snapshot::of));
        }
        if let Removal::Settle(upto) = removal
            && removed.is_applied
            && requests.has_time_left(policy)
        {
            let settled: Vec<_> = seen.settled_rows(*upto).map(|row| row.ticket).collect();
            cleaning::clean(requests, name, policy, &settled).await;
        }
        match requests.has_time_left(policy) {
            true => self.read().await,
            false => Ok(Some(seen.clone())),
        }
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
