//! How much memory tasks take that wait for a lock, in a process of its own.

use std::process::Command;
use std::time::Duration;

use fairlock::embedded::{Engine, Faults, Latency, Network};
use fairlock::{FairLock, LockClient, RecordWait, TableOptions};
use procfs::process::Process;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::Done;
use crate::scene::ROUND_TRIP_MS;

/// All have come, and wait.
const SETTLES: Duration = Duration::from_secs(60);

/// What so many waiting tasks add to an idle client, in bytes.
pub(crate) fn of_waiting(tasks: usize) -> Done<f64> {
    eprintln!("{tasks} tasks of one client that wait");
    let mut shown = Command::new(std::env::current_exe()?);
    let shown = shown.arg("--waiting").arg(tasks.to_string()).output()?;
    Ok(String::from_utf8(shown.stdout)?.trim().parse()?)
}

pub(crate) fn show(tasks: usize) -> Done<()> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build()?;
    println!("{}", runtime.block_on(added_by(tasks))?);
    Ok(())
}

async fn added_by(tasks: usize) -> Done<u64> {
    let lock = lock().await?;
    let guard = lock.acquire(RecordWait::Infinite).await?;
    let idle = resident()?;
    let mut waiting = JoinSet::new();
    for _ in 0..tasks {
        let lock = lock.clone();
        waiting.spawn(async move { lock.acquire(RecordWait::Infinite).await });
    }
    tokio::time::sleep(SETTLES).await;
    let added = resident()?.saturating_sub(idle);
    drop(guard);
    Ok(added)
}

async fn lock() -> Done<FairLock> {
    let round_trip = Latency::Constant(Duration::from_millis(ROUND_TRIP_MS.into()));
    let network = Network::to(&Engine::memory()?).faults(Faults {
        round_trip,
        ..Faults::default()
    });
    let locks = LockClient::builder(network.client())
        .table("locks")
        .build()?;
    locks.create_table(&TableOptions::default()).await?;
    Ok(locks.fair_lock("contended")?)
}

fn resident() -> Done<u64> {
    let status = Process::myself()?.status()?;
    Ok(status.vmrss.unwrap_or_default() * 1024)
}
