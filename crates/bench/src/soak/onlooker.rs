//! Observers, which hold no locks: they inspect, list and sweep.

use std::time::Duration;

use fairlock::{Error, HeldLocks, LockClient, LockState};
use fairlock_cli::contention::error_chain::told;
use fastrand::Rng;
use futures::StreamExt;
use futures::future::ready;

use crate::soak::names::{HOT, Heat};
use crate::soak::stage::Soak;

const BETWEEN_READS: Duration = Duration::from_secs(1);
const TO_FINISH: Duration = Duration::from_secs(30);
const BETWEEN_SWEEPS: Duration = Duration::from_secs(5);

pub(crate) async fn work(soak: &Soak, locks: LockClient, mut rng: Rng) {
    tokio::select! {
        () = look(soak, &locks, &mut rng) => {}
        () = sweep_often(soak, &locks) => {}
    }
    locks.shutdown(HeldLocks::Release, TO_FINISH).await;
}

async fn sweep_often(soak: &Soak, locks: &LockClient) {
    match locks.sweeps(BETWEEN_SWEEPS) {
        Ok(sweeps) => sweeps.for_each(|_| ready(())).await,
        Err(error) => soak.findings.add(format!("surprise: no sweeps: {error}")),
    }
}

async fn look(soak: &Soak, locks: &LockClient, rng: &mut Rng) {
    while soak.goes_on(BETWEEN_READS).await {
        let name = soak.names.next(Heat::Warm, rng);
        let read = match rng.u8(0..8) {
            0 => list(soak, locks).await,
            1 => sweep(soak, locks, &name).await,
            2..5 => inspect(soak, locks, &name).await,
            _ => inspect(soak, locks, HOT).await,
        };
        match read {
            Ok(()) => {}
            Err(Error::Unavailable { .. }) => soak.tally.outcome("onlooker not answered"),
            Err(error) => {
                let words = told(&error);
                soak.findings
                    .add(format!("surprise: an onlooker was told: {words}"));
            }
        }
    }
}

async fn inspect(soak: &Soak, locks: &LockClient, name: &str) -> Result<(), Error> {
    let state = locks.fair_lock(name)?.inspect().await?;
    check(soak, &state);
    soak.tally.outcome("lock inspected");
    Ok(())
}

async fn list(soak: &Soak, locks: &LockClient) -> Result<(), Error> {
    let mut all = std::pin::pin!(locks.locks());
    // The loop ends with the table.
    while let Some(state) = all.next().await {
        check(soak, &state?);
    }
    soak.tally.outcome("table listed");
    Ok(())
}

async fn sweep(soak: &Soak, locks: &LockClient, name: &str) -> Result<(), Error> {
    locks.fair_lock(name)?.sweep().await?;
    soak.tally.outcome("lock swept");
    Ok(())
}

fn check(soak: &Soak, state: &LockState) {
    let holder = state.holder.iter();
    let all = holder.chain(&state.queue).map(|place| place.ticket);
    if !all.is_sorted_by(|before, after| before < after) {
        let lock = &state.lock;
        soak.findings
            .add(format!("out of order: the line of `{lock}` as shown"));
    }
}
