//! The end: all tasks stop, all clients are shut down, and what is left is counted.

use std::future::Future;
use std::time::Duration;

use fairlock::{HeldLocks, LockClient};
use fairlock_cli::contention::error_chain::told;
use futures::StreamExt;
use futures::future::{pending, ready};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::soak::findings::Findings;
use crate::soak::host::LEASES;
use crate::soak::report::Left;
use crate::soak::stage::Soak;
use crate::soak::table::Table;
use crate::soak::vitals::Vitals;
use crate::soak::vitals::vitals;

const SECOND: Duration = Duration::from_secs(1);
/// The only item that a lock may leave.
const LOCK_ITEM: &str = "fairlock/#lock";
/// How long unused connections and tasks may take to end.
const TO_CLOSE: Duration = Duration::from_secs(10);

/// Ends all faults and all work, shuts the clients down, and sweeps the table.
pub(crate) async fn end(soak: &Soak, crew: JoinSet<()>) -> Result<Left, Failure> {
    soak.ground.climate.calm();
    soak.stop.cancel();
    let findings = &soak.findings;
    // The hook has already reported a panic.
    let bound = soak.ground.options.ends_within;
    if within(bound, crew.join_all()).await.is_none() {
        findings.add(format!("stuck: somebody did not stop within {bound:?}"));
    }
    for place in 0..LEASES.len() {
        let unfinished = soak.host(place).leave(HeldLocks::Release, bound).await;
        for job in unfinished {
            findings.add(format!("unfinished: {job}"));
        }
    }
    Ok(settle(soak, &soak.steady()?).await)
}

/// Waits until there are only lock items, and no lock is held. It sweeps by a stream and not by single sweeps: an entry without a date is dead
/// only to a client that has observed it for a lease.
async fn settle(soak: &Soak, locks: &LockClient) -> Left {
    let sweeping = async {
        match locks.sweeps(SECOND) {
            Ok(sweeps) => sweeps.for_each(|_| ready(())).await,
            Err(error) => soak.findings.add(format!("surprise: no sweeps: {error}")),
        }
        pending().await
    };
    tokio::select! {
        left = settled(soak, locks) => left,
        left = sweeping => left,
    }
}

async fn settled(soak: &Soak, locks: &LockClient) -> Left {
    let table = soak.table();
    let mut left = Left::default();
    let mut over = vec!["the table was not read".to_owned()];
    for _ in 0..soak.ground.options.ends_within.as_secs() {
        match what_is_left(locks, &table).await {
            Ok(now) => (left, over) = now,
            Err(trouble) => over = vec![trouble],
        }
        if over.is_empty() {
            return left;
        }
        tokio::time::sleep(SECOND).await;
    }
    for what in over {
        soak.findings.add(format!("left: {what}"));
    }
    left
}

/// What is left, and what should not be.
async fn what_is_left(locks: &LockClient, table: &Table) -> Result<(Left, Vec<String>), String> {
    let items = table.items().await?;
    let states: Vec<_> = locks.locks().collect().await;
    let states: Result<Vec<_>, _> = states.into_iter().collect();
    let states = states.map_err(|error| told(&error))?;
    let held = states.iter().filter(|state| state.holder.is_some());
    let held = held.map(|state| format!("`{}` is held", state.lock));
    let crowded = items.iter().filter(|(_, items)| **items != [LOCK_ITEM]);
    let crowded = crowded.map(|(lock, items)| format!("`{lock}` has {}", items.join(", ")));
    let left = Left {
        locks: items.len(),
        items: items.values().map(Vec::len).sum(),
    };
    Ok((left, held.chain(crowded).collect()))
}

/// Waits until the process has no more connections, descriptors and tasks than before the soak.
pub(crate) async fn baseline(before: Vitals, findings: &Findings) -> Result<Vitals, Failure> {
    for _ in 0..TO_CLOSE.as_secs() {
        let now = vitals()?;
        if more(before, now).next().is_none() {
            return Ok(now);
        }
        tokio::time::sleep(SECOND).await;
    }
    let now = vitals()?;
    for (what, before, after) in more(before, now) {
        findings.add(format!(
            "leak: {after} {what} after the end, {before} before"
        ));
    }
    Ok(now)
}

/// What there is more of now.
fn more(before: Vitals, now: Vitals) -> impl Iterator<Item = (&'static str, usize, usize)> {
    let all = [
        ("connections", before.connections, now.connections),
        ("descriptors", before.descriptors, now.descriptors),
        ("tasks", before.tasks, now.tasks),
    ];
    all.into_iter().filter(|(_, before, now)| now > before)
}

async fn within<T>(bound: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = tokio::time::sleep(bound) => None,
    }
}
