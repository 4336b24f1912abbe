//! A worker of a run with --processes. It warms up, reports that it is ready, waits for the word to start, takes its turns, and reports how
//! they went.

use std::process::ExitCode;

use fairlock_cli::contention::json_lines::say;
use fairlock_cli::contention::parent_pipe;
use fairlock_cli::contention::turn::Turn;
use fairlock_testkit::request_counts::Traffic;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

use crate::contend::backend::{self, Backend};
use crate::contend::contender::Contender;
use crate::contend::log::Log;
use crate::contend::options::Options;
use crate::contend::worker::Worker;
use crate::failure::Failure;

/// What a child writes, a line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    Ready { ready: u32 },
    Turn(Turn),
    Parting(Parting),
}

/// The last line of a child that came to its end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Parting {
    pub(crate) traffic: Traffic,
    pub(crate) troubles: Vec<String>,
}

pub(crate) async fn run(options: &Options, number: u32) -> Result<ExitCode, Failure> {
    let word = parent_pipe::word();
    let backend = backend::open(options)?;
    let log = Log::default();
    let worker = Worker::new(number, options, &backend, &log)?;
    warm_up(options, number, &backend).await?;
    say(&Line::Ready { ready: number }).map_err(Failure::Run)?;
    let no_word = |error| Failure::run("the parent went away", error);
    word.await.map_err(no_word)?;
    let mut troubles = worker.run().await;
    troubles.extend(log.take().1);
    let traffic = backend.counter.counted().clone();
    say(&Line::Parting(Parting { traffic, troubles })).map_err(Failure::Run)?;
    Ok(ExitCode::SUCCESS)
}

/// Takes a turn at a lock in tables of its own, and polls the contended lock. A process needs more time to compute its first requests than
/// the network takes to carry them. If many processes start at once on few processors, that time would decide which one asks first.
async fn warm_up(options: &Options, number: u32, backend: &Backend) -> Result<(), Failure> {
    let apart = options.in_memory();
    let tables = backend::open(&apart)?;
    super::prepare(&apart, &tables).await?;
    let ours = [
        Contender::new(number, &apart, &tables)?,
        Contender::new(number, &apart, &tables)?,
    ];
    try_join_all(ours.map(one_turn))
        .await
        .map_err(Failure::Run)?;
    let locks = backend.upkeep(options)?;
    let seen = backend::lock(options, &locks)?.inspect().await;
    seen.map(drop)
        .map_err(|error| Failure::run("cannot inspect the lock", error))
}

async fn one_turn(contender: Contender) -> Result<(), String> {
    contender.acquire().await?.release().await?;
    let undone = contender.finish().await;
    match undone.is_empty() {
        true => Ok(()),
        false => Err(undone.join(", ")),
    }
}
