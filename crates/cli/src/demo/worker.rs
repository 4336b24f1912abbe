//! A process of the demo: reports that it is ready, waits for the word to start, takes its turns, and reports each of them.

use std::process::ExitCode;
use std::time::Duration;

use fairlock::embedded::Network;
use fairlock::{FairLock, HeldLocks, LockClient, LockGuard, RecordWait};
use fairlock_cli::contention::error_chain::told;
use fairlock_cli::contention::json_lines::say;
use fairlock_cli::contention::monotonic::now_ns;
use fairlock_cli::contention::parent_pipe;
use fairlock_cli::contention::turn::Turn;

use super::ledger::{Ledger, LedgerError};
use super::line::{Grant, Line};
use super::workspace;
use crate::args::DemoWorker;
use crate::failure::Failure;

const LOCK: &str = "demo";

/// How long a worker's background work may take at its end. It needs a few requests only.
const TO_FINISH: Duration = Duration::from_secs(30);

struct Worker {
    options: DemoWorker,
    ledger: Ledger,
    locks: LockClient,
    lock: FairLock,
    /// The same lock, for the worker to see the queue. Its requests are neither slowed down nor counted.
    seen: FairLock,
    /// Counts the requests for turns, where they are counted.
    network: Option<Network>,
}

pub(crate) async fn work(options: DemoWorker) -> Result<ExitCode, Failure> {
    let word = parent_pipe::word();
    let worker = Worker::new(options)?;
    send(&Line::Ready);
    let no_word = |_| Failure::internal("the demo went away");
    word.await.map_err(no_word)?;
    worker.run().await;
    send(&Line::Done);
    Ok(ExitCode::SUCCESS)
}

impl Worker {
    fn new(options: DemoWorker) -> Result<Worker, Failure> {
        let owner = format!("worker {}", options.number);
        let onlooker = workspace::locks(&options.file, owner.clone())?;
        let (locks, network) = match options.round_trip {
            None => (onlooker.clone(), None),
            Some(round_trip) => {
                let network = workspace::network(&options.file, round_trip)?;
                let locks = workspace::locks_over(&network, owner, options.notify)?;
                (locks, Some(network))
            }
        };
        Ok(Worker {
            ledger: Ledger::at(options.ledger.clone()),
            options,
            lock: lock(&locks)?,
            seen: lock(&onlooker)?,
            locks,
            network,
        })
    }

    async fn run(self) {
        let first = self.options.first;
        for cycle in first..first.saturating_add(self.options.turns) {
            match self.turn(cycle).await {
                Ok(turn) => send(&Line::Turn(turn)),
                Err(trouble) => send(&Line::Failed(self.named(cycle, &trouble))),
            }
        }
        let report = self.locks.shutdown(HeldLocks::Keep, TO_FINISH).await;
        for job in report.unfinished {
            let number = self.options.number;
            let undone = format!("worker {number}: not done after {TO_FINISH:?}: {job}");
            send(&Line::Failed(undone));
        }
        if let Some(network) = &self.network {
            send(&Line::Sent(network.counts().requests()));
        }
    }

    async fn turn(&self, cycle: u32) -> Result<Turn, String> {
        let requested_ns = now_ns();
        let granted = self.lock.acquire(RecordWait::Infinite).await;
        let acquired_ns = now_ns();
        let guard = granted.map_err(|error| told(&error))?;
        let ticket = guard.ticket().get();
        let held = self.hold(&guard, cycle, acquired_ns).await;
        let releasing_ns = now_ns();
        let released = guard.release().await;
        held?;
        released.map_err(|error| told(&error))?;
        Ok(Turn {
            worker: self.options.number,
            cycle,
            ticket,
            requested_ns,
            acquired_ns,
            releasing_ns,
            released_ns: now_ns(),
        })
    }

    /// Does the work that the lock protects.
    async fn hold(&self, guard: &LockGuard, cycle: u32, acquired_ns: u64) -> Result<(), String> {
        let ticket = guard.ticket().get();
        send(&Line::Granted(self.grant(ticket, acquired_ns).await?));
        self.enter(ticket, cycle)?;
        tokio::select! {
            biased;
            lost = guard.lost() => Err(format!("lost the lock: {}", lost.reason)),
            () = tokio::time::sleep(self.options.hold) => Ok(()),
        }
    }

    async fn grant(&self, ticket: u64, acquired_ns: u64) -> Result<Grant, String> {
        let seen = self.seen.inspect().await;
        let seen = seen.map_err(|error| format!("cannot see the queue: {}", told(&error)))?;
        Ok(Grant {
            worker: self.options.number,
            ticket,
            acquired_ns,
            queue: seen.queue.into_iter().map(|other| other.owner).collect(),
        })
    }

    /// Appends the turn to the ledger. If the ledger refuses, the turn goes on, so that its times can be judged too.
    fn enter(&self, ticket: u64, cycle: u32) -> Result<(), String> {
        let who = format!("worker {}, cycle {cycle}", self.options.number);
        match self.ledger.append(ticket, &who) {
            Ok(()) => Ok(()),
            Err(stale @ LedgerError::Stale { .. }) => {
                send(&Line::Refused(self.named(cycle, &stale.to_string())));
                Ok(())
            }
            Err(unusable) => Err(unusable.to_string()),
        }
    }

    fn named(&self, cycle: u32, trouble: &str) -> String {
        format!("worker {}, cycle {cycle}: {trouble}", self.options.number)
    }
}

fn lock(locks: &LockClient) -> Result<FairLock, Failure> {
    let lock = locks.fair_lock(LOCK);
    lock.map_err(|error| Failure::internal(told(&error)))
}

/// Sends a line to the demo. If the parent is gone, it has closed this process's input as well, and that ends this process.
fn send(line: &Line) {
    let _ = say(line);
}
