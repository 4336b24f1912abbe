//! A run whose workers are tasks of this process, each with a client of its own.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::contend::backend::Backend;
use crate::contend::harvest::Harvest;
use crate::contend::log::Log;
use crate::contend::options::Options;
use crate::contend::worker::Worker;
use crate::failure::Failure;

pub(crate) async fn run(backend: &Backend, options: &Options) -> Result<Harvest, Failure> {
    let log = Log::default();
    let workers: Result<Vec<_>, _> = (1..=options.workers)
        .map(|number| Worker::new(number, options, backend, &log))
        .collect();
    let mut troubles = start(workers?).join_all().await.concat();
    let (turns, trouble) = log.take();
    troubles.extend(trouble);
    Ok(Harvest {
        turns,
        traffic: backend.counter.counted().clone(),
        troubles,
    })
}

fn start(workers: Vec<Worker>) -> JoinSet<Vec<String>> {
    let all_here = Arc::new(Barrier::new(workers.len()));
    let start = |worker: Worker| {
        let all_here = Arc::clone(&all_here);
        async move {
            all_here.wait().await;
            worker.run().await
        }
    };
    workers.into_iter().map(start).collect()
}
