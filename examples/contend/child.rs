//! One worker of a run with --processes: says that it is ready, waits for the word, takes its turns, says how it went.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::backend;
use crate::contest::parent;
use crate::contest::say::say;
use crate::contest::turn::Turn;
use crate::failure::Failure;
use crate::log::Log;
use crate::options::Options;
use crate::traffic::Traffic;
use crate::worker::Worker;

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
