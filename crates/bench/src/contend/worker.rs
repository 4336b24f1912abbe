//! A contending worker: asks for the lock, holds it, releases it, and asks again.

use fairlock_cli::contention::monotonic::now_ns;
use fairlock_cli::contention::turn::Turn;

use crate::contend::backend::Backend;
use crate::contend::contender::Contender;
use crate::contend::log::Log;
use crate::contend::options::Options;
use crate::failure::Failure;

pub(crate) struct Worker {
    number: u32,
    options: Options,
    contender: Contender,
    log: Log,
}

impl Worker {
    pub(crate) fn new(
        number: u32,
        options: &Options,
        backend: &Backend,
        log: &Log,
    ) -> Result<Worker, Failure> {
        Ok(Worker {
            number,
            options: options.clone(),
            contender: Contender::new(number, options, backend)?,
            log: log.clone(),
        })
    }

    /// Takes all of the worker's turns. Returns what went wrong with them.
    pub(crate) async fn run(self) -> Vec<String> {
        let (number, mut troubles) = (self.number, Vec::new());
        for cycle in 1..=self.options.cycles {
            match self.turn(cycle).await {
                Ok(turn) => self.log.add(turn),
                Err(trouble) => troubles.push(format!("worker {number}, cycle {cycle}: {trouble}")),
            }
        }
        let undone = self.contender.finish().await.into_iter();
        troubles.extend(undone.map(|job| format!("worker {number}: {job}")));
        troubles
    }

    async fn turn(&self, cycle: u32) -> Result<Turn, String> {
        let requested_ns = now_ns();
        let hold = self.contender.acquire().await?;
        let acquired_ns = now_ns();
        // Without tickets, the wanted order is that of the requests.
        let ticket = hold.ticket().unwrap_or(requested_ns);
        // A sleep of zero takes a millisecond.
        if !self.options.hold_ms.is_zero() {
            tokio::time::sleep(self.options.hold_ms).await;
        }
        let releasing_ns = now_ns();
        hold.release().await?;
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
}
