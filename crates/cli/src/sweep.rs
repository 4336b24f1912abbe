//! `fairlock sweep`: removes what crashed clients left in a table, once or again and again.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use fairlock::{HeldLocks, LockClient, SweepReport, TableSweepReport};
use futures::StreamExt;
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::commands::Sweep;
use crate::failure::{Failure, UNAVAILABLE, killed_by, say};
use crate::output;
use crate::signals;

/// How long the requests under way may take when a signal has come.
const PARTING: Duration = Duration::from_secs(2);

/// A sweep in JSON, by the schema in `json.md`.
#[derive(Serialize)]
struct Swept {
    locks: u64,
    failed: u64,
    holders: u64,
    successors: u64,
    waiters: u64,
    gaps: u64,
    rows: u64,
    idle_locks: u64,
    has_more: bool,
}

impl From<TableSweepReport> for Swept {
    fn from(of: TableSweepReport) -> Self {
        Swept {
            locks: of.locks,
            failed: of.failed,
            holders: of.removed.holders,
            successors: of.removed.successors,
            waiters: of.removed.waiters,
            gaps: of.removed.gaps,
            rows: of.removed.rows,
            idle_locks: of.removed.locks,
            has_more: of.removed.has_more,
        }
    }
}

pub(crate) fn sweep(options: Sweep) -> Result<ExitCode, Failure> {
    let signals = signals::endings()?;
    crate::on_runtime(until_the_end(options, signals))
}

async fn until_the_end(
    options: Sweep,
    mut signals: UnboundedReceiver<i32>,
) -> Result<ExitCode, Failure> {
    let locks = tokio::select! {
        biased;
        Some(number) = signals.recv() => return Ok(ended(&options, number)),
        locks = options.location.locks() => locks?,
    };
    let done = tokio::select! {
        biased;
        Some(number) = signals.recv() => Ok(ended(&options, number)),
        done = work(&options, &locks) => done,
    };
    // Each removal is one write, so what was under way is either done or not.
    locks.shutdown(HeldLocks::Release, PARTING).await;
    done
}

/// The exit code after a signal. A sweep that goes on until a signal has ended well by it.
fn ended(options: &Sweep, number: i32) -> ExitCode {
    match options.every {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(killed_by(number)),
    }
}

async fn work(options: &Sweep, locks: &LockClient) -> Result<ExitCode, Failure> {
    let told = |error| Failure::of(&error, &options.location);
    if let Some(name) = &options.lock {
        let lock = locks.fair_lock(name).map_err(told)?;
        let swept = lock.sweep().await.map_err(told)?;
        return told_once(options, one(swept));
    }
    let every = options.every.unwrap_or(Duration::MAX);
    let mut sweeps = locks.sweeps(every).map_err(told)?;
    // The loop ends with the first sweep, with this process, or with the reader of its output.
    while let Some(swept) = sweeps.next().await {
        match swept.map_err(told) {
            swept if options.every.is_none() => return told_once(options, swept?),
            Ok(swept) if print(options, swept)?.is_break() => break,
            Ok(_) => {}
            Err(failure) => say(&format!("{}; goes on trying", failure.text())),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn one(removed: SweepReport) -> TableSweepReport {
    let mut one = TableSweepReport::default();
    (one.locks, one.removed) = (1, removed);
    one
}

fn told_once(options: &Sweep, swept: TableSweepReport) -> Result<ExitCode, Failure> {
    // A reader that has gone changes nothing of what was swept.
    let _ = print(options, swept)?;
    Ok(match swept.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(UNAVAILABLE),
    })
}

fn print(options: &Sweep, swept: TableSweepReport) -> Result<ControlFlow<()>, Failure> {
    let text = match options.json {
        true => output::json_line(&Swept::from(swept))?,
        false => format!("{swept}\n"),
    };
    let printed = output::print(&text)?;
    if swept.failed > 0 {
        say(&format!(
            "{} locks could not be swept: RUST_LOG=fairlock=warn says why, and `Repairing a lock` in docs/repair.md what to do",
            swept.failed
        ));
    }
    Ok(printed)
}
