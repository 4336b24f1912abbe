//! Removes expired entries and gaps. Each write is conditional on what was seen. Only the deletion of settled rows is not,
//! because no client decides by them any more.

use futures::future::join_all;

use crate::config::{ALL_SLOTS, SHARERS};
use crate::name::LockName;
use crate::queue;
use crate::snapshot::{self, Snapshot, WATCHED};
use crate::store::{RetryPolicy, Store, Timed, Write};
use crate::telemetry::{self, EvictedPlace};
use crate::undated;
use fairlock_protocol::doorway::Seen;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::place::{Act, Place};
use fairlock_protocol::step::{self, ClearingStep, Has, Known, Removal, Unsettled};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::witness::Judge;
use fairlock_protocol::write::RowWrite;

/// The most steps that a caller takes through the queue: as many as there can be slots, and a few pages behind them.
const STEPS: usize = ALL_SLOTS + 16;

/// The most evictions of a caller: as many as can share a fair lock, and all slots, whose participants hold it after them.
const EVICTIONS: usize = SHARERS as usize + ALL_SLOTS;

/// Clears the way of a claim: removes dead holders and successors, dead waiters and gaps, all of them judged by DynamoDB's clock.
/// Ends when the lock is available, or a live participant stands in the way. The number of steps is bounded, and what is left
/// then counts as in the way. The next caller finds less of it, because settled tickets are passed and their rows deleted as they
/// are met.
pub(crate) struct Reclaim<'a> {
    store: &'a Store,
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
        store: &'a Store,
        name: &'a LockName,
        policy: &'a RetryPolicy,
        permits: u64,
        item: LockItem,
    ) -> Self {
        Reclaim {
            store,
            name,
            policy,
            permits,
            snapshot: Snapshot::of(item),
            judge: Judge::hears(store.newest_date()),
            budget: Budget::default(),
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
                Act::Remove(Removal::Void(over)) => {
                    void(self.store, self.name, self.policy, &self.snapshot, over).await?;
                    self.read_after().await?
                }
                Act::Remove(Removal::Settle(upto)) => {
                    self.pass(upto).await?;
                    self.read_after().await?
                }
                Act::ReadOn if self.snapshot.known == Known::Nothing => self.read().await?,
                Act::ReadOn | Act::Remove(_) => {
                    let snapshot = &self.snapshot;
                    let next = carry_out(self.store, self.name, self.policy, snapshot, act).await?;
                    next.map(|answer| answer.value)
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
        while self.store.has_time_left(self.policy) {
            let (snapshot, time) = (&self.snapshot, self.judge.time());
            let judge = |entry: &Entry| snapshot::by_server_clock(self.store, entry, time);
            let digest = snapshot.digest(|_, entry| judge(entry));
            let is_over = snapshot::gaps_are_over(self.store, &snapshot.item, time);
            let is_left = snapshot.item.has_left(self.permits);
            let expired = |_| is_over.then_some(snapshot.item.last);
            let refusal = step::next_refusal(&digest, is_left, expired);
            let lacks = || {
                self.store.lacks_a_witness()
                    && undated::lacks_a_date(&snapshot.item, &snapshot.rows)
            };
            if self.judge.polls_again(&refusal, lacks) {
                let read = snapshot::read(self.store, self.name, WATCHED, self.policy);
                let Some(answer) = read.await? else {
                    return Ok(ClearingStep::Free);
                };
                self.judge.hear(answer.date);
                self.snapshot = answer.value;
                continue;
            }
            if !self.budget.allows(&refusal) {
                // Dead participants that are left do not matter if there is room for the claim.
                let is_free = snapshot.item.has_room_for(self.permits);
                return Ok(if is_free {
                    ClearingStep::Free
                } else {
                    ClearingStep::Taken
                });
            }
            if refusal == ClearingStep::Taken && self.store.has_time_left(self.policy) {
                date(self.store, self.name, &self.snapshot).await;
            }
            return Ok(refusal);
        }
        Ok(ClearingStep::Taken)
    }

    /// Reads what a step has changed, if there is time to act on it.
    async fn read_after(&self) -> Result<Option<Snapshot>, Failure> {
        match self.store.has_time_left(self.policy) {
            true => self.read().await,
            false => Ok(Some(self.snapshot.clone())),
        }
    }

    async fn read(&self) -> Result<Option<Snapshot>, Failure> {
        let snapshot = snapshot::read(self.store, self.name, WATCHED, self.policy).await?;
        Ok(snapshot.map(|answer| answer.value))
    }

    /// Raises `watermark` over settled tickets and deletes their rows, which would otherwise have to be read again. Refused if a
    /// waiter got a slot, or left, since the snapshot.
    async fn pass(&self, upto: Ticket) -> Result<(), Failure> {
        let (store, name, policy) = (self.store, self.name, self.policy);
        let settle = || store.settle(name, &self.snapshot.item, upto);
        let settled = store.retry(policy, settle).await?.value;
        if settled.is_applied() && store.has_time_left(policy) {
            let settled_rows: Vec<_> = self
                .snapshot
                .settled_rows(upto)
                .map(|row| row.ticket)
                .collect();
            clean(store, name, policy, &settled_rows).await;
        }
        Ok(())
    }
}

/// Does to the lock item what a place asks for, or reads on. Returns the snapshot that came of it. Returns `None` if there is no
/// lock item any more.
pub(crate) async fn carry_out(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
    snapshot: &Snapshot,
    act: Act,
) -> Result<Option<Timed<Snapshot>>, Failure> {
    let item = &snapshot.item;
    let answer = match act {
        Act::Remove(Removal::Evict(has)) => evict(store, name, policy, item, has).await?,
        Act::Remove(Removal::EvictSuccessor(index)) => {
            evict_successor(store, name, policy, item, index).await?
        }
        Act::Admit(successors) => {
            let (first, admitted) = (item.first_successor(), &item.successors()[..successors]);
            let admit = || store.admit(name, first, admitted);
            Some(store.retry(policy, admit).await?)
        }
        _ => None,
    };
    match answer {
        // The answer to a write on the lock item is a snapshot of it, whether or not the write applied.
        Some(answer) => Ok(answer
            .map(Write::shown)
            .transpose()
            .map(|answer| answer.map(Snapshot::of))),
        None => snapshot::read_on(snapshot.clone(), store, name, policy).await,
    }
}

/// How many steps of each kind may still be taken.
struct Budget {
    steps: usize,
    evictions: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            steps: STEPS,
            evictions: EVICTIONS,
        }
    }
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

/// Stamps what has no date. A process that enters before any answer told it the time leaves no date before its first renewal. If
/// it dies before that, callers that do not wait could never tell. So a caller that meets the entry stamps it, by one write at
/// most. The same goes for anything else without a date. A failure is left to the next caller.
pub(crate) async fn date(store: &Store, name: &LockName, snapshot: &Snapshot) {
    if let Err(failure) = undated::stamp(store, name, &snapshot.item, &snapshot.rows).await {
        store.note_throttling(&failure);
        tracing::debug!(lock = %name, %failure, "left what has no date to the next who comes");
    }
}

/// Deletes settled rows. A failure is left to the next client that cleans.
pub(crate) async fn clean(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
    settled: &[Ticket],
) {
    let delete = || store.delete_rows(name, settled);
    if let Err(failure) = store.retry(policy, delete).await {
        tracing::debug!(lock = %name, %failure, "left settled rows to the next who cleans");
    }
}

/// Ends the hold of a dead holder. Returns `None` if the item shows no such holder.
pub(crate) async fn evict(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
    item: &LockItem,
    has: Has,
) -> Result<Option<Timed<Write<LockItem>>>, Failure> {
    let Some((dead, held)) = item.who(has) else {
        return Ok(None);
    };
    let evict = || store.evict(name, dead, held);
    let answer = store.retry(policy, evict).await?;
    // What was given back is no takeover: its time was over.
    if answer.value.is_applied() && dead.kept_until.is_none() {
        telemetry::evicted(store.config(), name, EvictedPlace::Holder, dead);
    }
    Ok(Some(answer))
}

/// Takes the slot of a dead successor away. Returns `None` if no successor has it.
pub(crate) async fn evict_successor(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
    item: &LockItem,
    index: usize,
) -> Result<Option<Timed<Write<LockItem>>>, Failure> {
    let Some(dead) = item.successors().get(index) else {
        return Ok(None);
    };
    let evict_successor = || store.evict_successor(name, item.at_successor(index), dead);
    let answer = store.retry(policy, evict_successor).await?;
    if answer.value.is_applied() {
        telemetry::evicted(store.config(), name, EvictedPlace::Successor, dead);
    }
    Ok(Some(answer))
}

/// How many tickets were made void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Voided {
    pub(crate) gaps: u64,
    pub(crate) waiters: u64,
}

/// Makes gaps and dead waiters in the queue void. Each write is conditional on what the snapshot showed, and all are sent at
/// once.
pub(crate) async fn void(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
    snapshot: &Snapshot,
    over: Vec<Unsettled>,
) -> Result<Voided, Failure> {
    let each = over
        .into_iter()
        .map(|one| void_one(store, name, policy, snapshot, one));
    let mut voided = Voided::default();
    for one in join_all(each).await {
        let Voided { gaps, waiters } = one?;
        voided.gaps += gaps;
        voided.waiters += waiters;
    }
    Ok(voided)
}

async fn void_one(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
    snapshot: &Snapshot,
    over: Unsettled,
) -> Result<Voided, Failure> {
    match over {
        Unsettled::Gap(first, last) => {
            let tickets = last.get() - first.get() + 1;
            let void = || async {
                let gap = queue::void_gap(store, last, tickets);
                queue::write(store, name, last, &gap).await
            };
            let answer = store.retry(policy, void).await?;
            if answer.value.is_applied() {
                telemetry::closed_gap(store.config(), name, last, tickets);
            }
            Ok(Voided {
                gaps: tickets * u64::from(answer.value.is_applied()),
                waiters: 0,
            })
        }
        Unsettled::Dead(ticket) => {
            let Some(dead) = snapshot.waiting(ticket) else {
                return Ok(Voided::default());
            };
            let void = RowWrite::void_dead(dead);
            let void = || queue::write(store, name, dead.ticket, &void);
            let answer = store.retry(policy, void).await?;
            if answer.value.is_applied() {
                telemetry::evicted(store.config(), name, EvictedPlace::Waiter, dead);
            }
            Ok(Voided {
                gaps: 0,
                waiters: u64::from(answer.value.is_applied()),
            })
        }
    }
}
