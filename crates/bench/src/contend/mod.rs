//! Workers contend for one lock: each waits for its turn, holds the lock, releases it, and asks again.
//!
//! Standard output has one JSON line for each turn, in nanoseconds of CLOCK_MONOTONIC. Standard error shows how long turns waited, what was
//! sent for them, and whether any two overlapped or came out of order. The run fails if any did. The same work can be done by fairlock or
//! by one of two baselines.
//!
//! ```text
//! cargo run --release -p fairlock-bench -- contend --workers 8 --cycles 5 --hold-ms 50
//! ```

pub(crate) mod backend;
mod child;
pub(crate) mod contender;
mod events;
mod figures;
mod harvest;
mod log;
pub(crate) mod options;
mod outputs;
mod plot;
mod processes;
mod report;
mod tasks;
mod worker;

use fairlock_cli::contention::tally;
use fairlock_cli::contention::verdict::Verdict;
use std::process::ExitCode;

use crate::contend::backend::Backend;
use crate::contend::figures::Figures;
use crate::contend::harvest::Harvest;
use crate::contend::options::Options;
use crate::contend::outputs::Outputs;
use crate::contend::report::Report;
use crate::failure::Failure;
use crate::tell::tell;

/// Runs the driver by its command line.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(options: Options) -> Result<ExitCode, Failure> {
    match options.checked() {
        Some(worker) => child::run(&options, worker).await,
        None => contend(&options).await,
    }
}

async fn contend(options: &Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(options)?;
    let backend = backend::open(options)?;
    prepare(options, &backend).await?;
    let harvest = if options.processes {
        processes::run(options).await?
    } else {
        tasks::run(&backend, options).await?
    };
    Ok(judge(options, outputs, harvest))
}

/// Checks the names and the lease before anything is written and before any process is started. Creates the table if it does not exist.
async fn prepare(options: &Options, backend: &Backend) -> Result<(), Failure> {
    let _named = backend::lock(options, &*backend.locks(options, 1)?)?;
    let made = backend.upkeep(options)?.create_table().await;
    made.map_err(|error| Failure::run("no table to lock in", error))
}

fn judge(options: &Options, outputs: Outputs, mut harvest: Harvest) -> ExitCode {
    if options.plant_fault {
        tally::plant_fault(&mut harvest.turns);
    }
    let unwritten = outputs.write(options, &harvest);
    harvest.troubles.extend(unwritten);
    let report = Report {
        figures: Figures::of(&harvest.turns, options.rtt_ms),
        verdict: Verdict::new(
            harvest.turns,
            options.workers,
            options.cycles,
            harvest.troubles,
        ),
        traffic: harvest.traffic,
    };
    tell(&report);
    if report.verdict.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
