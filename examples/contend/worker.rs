//! One of those who contend: asks for the lock, holds it, releases it, and asks again.

use std::time::Duration;

use fairlock::{FairLock, HeldLocks, LockClient, LockGuard};

use crate::backend::{self, Backend};
use crate::contest::causes::told;
use crate::contest::monotonic::now_ns;
use crate::contest::turn::Turn;
use crate::failure::Failure;
use crate::log::Log;
use crate::options::Options;

/// What a worker leaves to be done in the background takes a few requests.
const TO_FINISH: Duration = Duration::from_secs(30);

pub(crate) struct Worker {
    number: u32,
    options: Options,
    locks: LockClient,
    lock: FairLock,
    log: Log,
}

impl Worker {
    pub(crate) fn new(
        number: u32,
        options: &Options,
        backend: &Backend,
        log: &Log,
    ) -> Result<Worker, Failure> {
        let locks = backend.locks(options, number)?;
        Ok(Worker {
            number,
            options: options.clone(),
            lock: backend::lock(options, &locks)?,
            locks,
            log: log.clone(),
        })
    }

    /// All of the worker's turns. What went wrong with them.
    pub(crate) async fn run(self) -> Vec<String> {
        let mut troubles = Vec::new();
        for cycle in 1..=self.options.cycles {
            match self.turn(cycle).await {
                Ok(turn) => self.log.add(turn),
                Err(trouble) => {
                    troubles.push(format!("worker {}, cycle {cycle}: {trouble}", self.number))
                }
            }
        }
        troubles.extend(self.finish().await);
        troubles
    }

    async fn turn(&self, cycle: u32) -> Result<Turn, String> {
        let requested_ns = now_ns();
        let guard = self
            .lock
            .acquire(self.options.wait)
            .await
            .map_err(|error| told(&error))?;
        let acquired_ns = now_ns();
        let ticket = guard.ticket().get();
        tokio::time::sleep(self.options.hold_ms).await;
        let releasing_ns = now_ns();
        release(guard).await?;
        Ok(Turn {
            worker: self.number,
            cycle,
            ticket,
            requested_ns,
            acquired_ns,
            releasing_ns,
            released_ns: now_ns(),
        })
    }

    async fn finish(self) -> Vec<String> {
        let report = self.locks.shutdown(HeldLocks::Keep, TO_FINISH).await;
        let undone = report.unfinished.iter();
        undone
            .map(|job| {
                format!(
                    "worker {}: not done after {TO_FINISH:?}: {job}",
                    self.number
                )
            })
            .collect()
    }
}

async fn release(guard: LockGuard) -> Result<(), String> {
    let released = guard.release().await;
    released.map_err(|error| format!("ticket {}", told(&error)))
}
