//! How much memory tasks take that wait for a lock, measured in a process of its own.

use std::process::Command;
use std::time::Duration;

use fairlock::RecordWait;
use fairlock_testkit::queue::{Build, Site};
use fairlock_testkit::request_counts::Counter;
use tokio::task::JoinSet;

use crate::performance::Done;
use crate::performance::queues::in_virtual_time;
use crate::performance::scene::ROUND_TRIP_MS;

/// Long enough for all tasks to have come and wait.
const SETTLES: Duration = Duration::from_secs(60);

/// What this many waiting tasks add to an idle client, in bytes.
pub(crate) fn of_waiting(tasks: usize) -> Done<f64> {
    eprintln!("{tasks} tasks of one client that wait");
    let mut shown = Command::new(std::env::current_exe()?);
    let shown = shown
        .args(["performance", "--waiting"])
        .arg(tasks.to_string())
        .output()?;
    Ok(String::from_utf8(shown.stdout)?.trim().parse()?)
}

pub(crate) fn show(tasks: usize) -> Done<()> {
    let added = in_virtual_time(added_by(tasks));
    println!("{}", added?);
    Ok(())
}

async fn added_by(tasks: usize) -> Done<u64> {
    let round_trip = Duration::from_millis(ROUND_TRIP_MS.into());
    let site = Site::built(round_trip, Build::default()).await;
    let lock = site.process(0, &Counter::default());
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

#[cfg(target_os = "linux")]
fn resident() -> Done<u64> {
    let status = procfs::process::Process::myself()?.status()?;
    Ok(status.vmrss.unwrap_or_default() * 1024)
}

#[cfg(not(target_os = "linux"))]
fn resident() -> Done<u64> {
    Err("how much memory a process has is read from /proc, which only Linux has".into())
}
