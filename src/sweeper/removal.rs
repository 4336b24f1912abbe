//! Carries out removals, the same way for each client that finds what has ended. Each write is conditional on what was seen.

use futures::future::join_all;

use crate::queue;
use crate::queue::snapshot::Snapshot;
use crate::store::requests::{Requests, RetryPolicy};
use crate::store::{Store, Timed, Write, all_of};
use crate::telemetry::{self, EvictedPlace};
use crate::vocabulary::name::LockName;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::step::{Removal, Unsettled};
use fairlock_protocol::write::{LockWrite, RowWrite};

/// What a removal did.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// Whether a write of it applied.
    pub(crate) is_applied: bool,
    /// How many dead entries it took away.
    pub(crate) entries: u64,
    /// How many tickets without a row it made void.
    pub(crate) gaps: u64,
    /// The lock item, or that there is none, in the answer to an eviction, applied or not. After any other removal, the queue is to be read.
    pub(crate) shown: Option<Timed<Option<LockItem>>>,
}

/// Removes what a snapshot shows to have ended. Nothing happens if the snapshot does not show it.
pub(crate) async fn carry_out(
    requests: &Requests,
    name: &LockName,
    policy: &RetryPolicy,
    seen: &Snapshot,
    removal: &Removal,
) -> Result<Removed, Failure> {
    let (store, item) = (&requests.store, &seen.item);
    let (place, dead, answer) = match removal {
        Removal::Evict(has) => {
            let Some((dead, held)) = item.who(*has) else {
                return Ok(Removed::default());
            };
            let evict = || async {
                let write = LockWrite::evict(all_of(name), dead, held, store.stamps().server);
                store.write(name, &write).await
            };
            let answer = requests.retry(policy, evict).await?;
            (EvictedPlace::Holder, dead, answer)
        }
        Removal::EvictSuccessor(index) => {
            let Some(dead) = item.successors().get(*index) else {
                return Ok(Removed::default());
            };
            let at = item.at_successor(*index);
            let evict = LockWrite::evict_successor(all_of(name), at, dead);
            let evict = || store.write(name, &evict);
            let answer = requests.retry(policy, evict).await?;
            (EvictedPlace::Successor, dead, answer)
        }
        Removal::Void(over) => return void(requests, name, policy, seen, over).await,
        Removal::Settle(upto) => {
            let settle = LockWrite::settle(all_of(name), item, *upto);
            let settle = || store.write(name, &settle);
            let is_applied = requests.retry(policy, settle).await?.value.is_applied();
            return Ok(Removed {
                is_applied,
                ..Removed::default()
            });
        }
    };
    let entries = took(store, name, place, dead, &answer.value);
    Ok(Removed {
        is_applied: entries > 0,
        entries,
        gaps: 0,
        shown: Some(answer.map(Write::shown)),
    })
}

/// Makes tickets void, by writes that are all sent at once.
async fn void(
    requests: &Requests,
    name: &LockName,
    policy: &RetryPolicy,
    seen: &Snapshot,
    over: &[Unsettled],
) -> Result<Removed, Failure> {
    let store = &requests.store;
    let each = over.iter().map(|one| async move {
        match *one {
            Unsettled::Gap(first, last) => {
                let tickets = last.get() - first.get() + 1;
                let void = || async {
                    let gap = queue::void_gap(store, last, tickets);
                    queue::write(store, name, last, &gap).await
                };
                if !requests.retry(policy, void).await?.value.is_applied() {
                    return Ok((0, 0));
                }
                telemetry::closed_gap(store.config(), name, last, tickets);
                Ok((0, tickets))
            }
            Unsettled::Dead(ticket) => {
                let Some(dead) = seen.waiting(ticket) else {
                    return Ok((0, 0));
                };
                let void = RowWrite::void_dead(dead);
                let void = || queue::write(store, name, ticket, &void);
                let answer = requests.retry(policy, void).await?;
                let entries = took(store, name, EvictedPlace::Waiter, dead, &answer.value);
                Ok((entries, 0))
            }
        }
    });
    let mut removed = Removed::default();
    for one in join_all(each).await {
        let (entries, gaps) = one?;
        removed.entries += entries;
        removed.gaps += gaps;
    }
    removed.is_applied = removed.entries + removed.gaps > 0;
    Ok(removed)
}

/// Counts and tells that a dead entry was taken away, if it was. What was given back is no takeover: its time was over.
fn took<T>(
    store: &Store,
    name: &LockName,
    place: EvictedPlace,
    dead: &Entry,
    write: &Write<T>,
) -> u64 {
    if write.is_applied() && !dead.given_back {
        telemetry::evicted(store.config(), name, place, dead);
    }
    u64::from(write.is_applied())
}
