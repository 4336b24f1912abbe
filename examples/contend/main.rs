//! Workers contending for one lock: each waits for its turn, holds the lock, releases it, and asks again.
//!
//! Standard output has one JSON line a turn, in nanoseconds of CLOCK_MONOTONIC; standard error has how long turns
//! waited, what was sent for them, and whether any two overlapped or came out of order. Fails if any did. The same work
//! is done by fairlock or by one of two baselines.
//!
//! ```text
//! cargo run --release --features embedded --example contend -- --workers 8 --cycles 5 --hold-ms 50
//! ```

mod algorithm;
mod backend;
mod child;
mod contender;
#[path = "../../src/bin/fairlock/contest/mod.rs"]
mod contest;
mod endpoint;
mod events;
mod failure;
mod figures;
#[path = "../../src/bin/fairlock/flags.rs"]
mod flags;
mod harvest;
mod log;
mod options;
mod outputs;
mod palette;
mod plot;
mod processes;
mod report;
mod tasks;
mod tell;
mod traffic;
mod verb;
mod worker;

use std::process::ExitCode;

use fairlock::TableOptions;

use crate::backend::Backend;
use crate::contest::tally;
use crate::contest::verdict::Verdict;
use crate::failure::Failure;
use crate::figures::Figures;
use crate::harvest::Harvest;
use crate::options::Options;
use crate::outputs::Outputs;
use crate::report::Report;
use crate::tell::tell;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = match Options::read() {
        (options, Some(worker)) => child::run(&options, worker).await,
        (options, None) => contend(&options).await,
    };
    ended.unwrap_or_else(|failure| {
        tell(format_args!("contend: {failure}"));
        failure.exit_code()
    })
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

/// Checks names and lease before anything is written and any process started, and makes the table if it is not there.
async fn prepare(options: &Options, backend: &Backend) -> Result<(), Failure> {
    let _named = backend::lock(options, &*backend.locks(options, 1)?)?;
    let made = backend
        .upkeep(options)?
        .create_table(&TableOptions::default())
        .await;
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
