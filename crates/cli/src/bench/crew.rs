//! The workers: each has a client of its own, as a process has, and asks for the lock again as soon as it has released it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairlock::{FairLock, HeldLocks, LockClient, RecordWait};
use fairlock_cli::contention::monotonic::now_ns;
use fairlock_cli::contention::turn::Turn;
use futures::future::join_all;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::args::bench::{Bench, Length};

/// How long the clients may take to leave when the contest is over.
const PARTING: Duration = Duration::from_secs(5);

/// What a contest brought.
#[derive(Debug, Default)]
pub(super) struct Contest {
    pub(super) turns: Vec<Turn>,
    pub(super) troubles: Vec<String>,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
}

struct Worker<'a> {
    number: u32,
    lock: FairLock,
    options: &'a Bench,
    stop: watch::Receiver<bool>,
    turns: &'a Mutex<Vec<Turn>>,
}

/// Lets the workers contend until each has had its turns, the time is over or a signal comes. A turn that has begun is brought to its
/// end, and a wait is given up.
pub(super) async fn contend(
    options: &Bench,
    locks: Vec<FairLock>,
    signals: &mut UnboundedReceiver<i32>,
) -> Contest {
    let turns = Mutex::new(Vec::new());
    let (stop, stopped) = watch::channel(false);
    let works = (1..).zip(locks).map(|(number, lock)| {
        let worker = Worker {
            number,
            lock,
            options,
            stop: stopped.clone(),
            turns: &turns,
        };
        worker.work()
    });
    let mut work = std::pin::pin!(join_all(works));
    let mut signal = None;
    let mut over = std::pin::pin!(over(options.length()));
    // The loop ends with the last worker. It goes round once more for a signal, and once more for the time.
    let troubles = loop {
        tokio::select! {
            biased;
            Some(number) = signals.recv(), if signal.is_none() => {
                signal = Some(number);
                stop.send_replace(true);
            }
            troubles = &mut work => break troubles,
            () = &mut over, if !*stopped.borrow() => drop(stop.send_replace(true)),
        }
    };
    let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
    Contest {
        troubles: troubles.into_iter().flatten().collect(),
        turns: std::mem::take(&mut turns),
        signal,
    }
}

/// Shuts the clients down together. Returns what could not be brought to its end.
pub(super) async fn leave(clients: &[LockClient]) -> Vec<String> {
    let shutdowns = clients
        .iter()
        .map(|client| client.shutdown(HeldLocks::Release, PARTING));
    let reports = join_all(shutdowns).await;
    let unfinished = reports.into_iter().flat_map(|report| report.unfinished);
    unfinished
        .map(|job| format!("not done in time: {job}"))
        .collect()
}

/// Returns when the time is over, or never if turns are counted.
async fn over(length: Length) {
    match length {
        Length::Time(span) => sleep(span).await,
        Length::Turns(_) => std::future::pending().await,
    }
}

impl Worker<'_> {
    /// Takes turns to the end. Returns what went wrong.
    async fn work(mut self) -> Option<String> {
        let most = match self.options.length() {
            Length::Turns(turns) => turns,
            Length::Time(_) => u32::MAX,
        };
        for cycle in 1..=most {
            if *self.stop.borrow() {
                break;
            }
            match self.turn(cycle).await {
                Ok(Some(turn)) => self.log(turn),
                Ok(None) => break,
                Err(error) => {
                    return Some(format!("worker {}, turn {cycle}: {error}", self.number));
                }
            }
        }
        None
    }

    fn log(&self, turn: Turn) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.push(turn);
    }

    /// Returns `None` if the contest ended before the worker had its turn.
    async fn turn(&mut self, cycle: u32) -> Result<Option<Turn>, fairlock::Error> {
        let requested_ns = now_ns();
        let guard = tokio::select! {
            biased;
            guard = self.lock.acquire(RecordWait::Infinite) => guard?,
            _ = self.stop.wait_for(|is_over| *is_over) => return Ok(None),
        };
        let acquired_ns = now_ns();
        let ticket = guard.ticket().get();
        // A sleep of zero takes a millisecond.
        if !self.options.hold.is_zero() {
            sleep(self.options.hold).await;
        }
        let releasing_ns = now_ns();
        guard.release().await?;
        Ok(Some(Turn {
            worker: self.number,
            cycle,
            ticket,
            requested_ns,
            acquired_ns,
            releasing_ns,
            released_ns: now_ns(),
        }))
    }
}
