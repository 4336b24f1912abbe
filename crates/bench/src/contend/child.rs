//! One worker of a run with --processes: says that it is ready, waits for the word, takes its turns, says how it went.

use std::process::ExitCode;

use fairlock_cli::contest::parent;
use fairlock_cli::contest::say::say;
use fairlock_cli::contest::turn::Turn;
use fairlock_testkit::traffic::Traffic;
use serde::{Deserialize, Serialize};

use crate::contend::backend;
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
    let word = parent::word();
    let backend = backend::open(options)?;
    let log = Log::default();
    let worker = Worker::new(number, options, &backend, &log)?;
    say(&Line::Ready { ready: number }).map_err(Failure::Run)?;
    let no_word = |error| Failure::run("the parent went away", error);
    word.await.map_err(no_word)?;
    let mut troubles = worker.run().await;
    troubles.extend(log.take().1);
    let traffic = backend.counter.counted().clone();
    say(&Line::Parting(Parting { traffic, troubles })).map_err(Failure::Run)?;
    Ok(ExitCode::SUCCESS)
}
