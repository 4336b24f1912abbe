//! Workers that contend for one lock for as long as they are watched.
#![expect(
    clippy::expect_used,
    reason = "a bench whose workers cannot work measures nothing"
)]

use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Parser;
use futures::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::algorithm::Algorithm;
use crate::contend::backend::{self, Backend};
use crate::contend::contender::Contender;
use crate::contend::options::Options;

/// How long a baseline sleeps between two attempts, for each worker.
const POLL_MS: u32 = 5;

/// Workers at one lock, each with a client of its own, on tables in memory.
pub struct Crew {
    runtime: Runtime,
    backend: Backend,
    log: Log,
    /// Workers that come when they are called. Workers started by `at_work` run in tasks of their own.
    gathered: Vec<Contender>,
}

/// What the workers did so far.
#[derive(Clone, Default)]
struct Log {
    done: Arc<Mutex<Done>>,
    changed: Arc<Notify>,
}

#[derive(Clone, Copy, Default)]
struct Done {
    turns: u64,
    /// The time from each requested release to the next grant.
    handing_over: Duration,
    released: Option<Instant>,
}

impl Crew {
    /// Starts workers that ask again as soon as they have released. They are already in order when this returns.
    pub fn at_work(algorithm: Algorithm, workers: u32, hold_ms: u32) -> Crew {
        let mut crew = Crew::gathered(algorithm, workers);
        let hold = Duration::from_millis(hold_ms.into());
        for contender in take(&mut crew.gathered) {
            let log = crew.log.clone();
            crew.runtime.block_on(async {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a caller's task, not the client's"
                )]
                tokio::spawn(async move {
                    // The loop ends with the crew.
                    loop {
                        turn(&contender, hold, &log).await;
                    }
                });
            });
        }
        let opening = match algorithm {
            Algorithm::Fairlock => u64::from(workers) * 2,
            // A baseline learns nothing in its first turns.
            Algorithm::Article | Algorithm::Lease => 2,
        };
        crew.turns(opening);
        crew.forget();
        crew
    }

    /// Makes workers that come when [`Crew::queues`] calls them.
    pub fn gathered(algorithm: Algorithm, workers: u32) -> Crew {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let options = options(algorithm, workers);
        let inside = runtime.enter();
        let backend = backend::open(&options).expect("tables in memory");
        let upkeep = backend.upkeep(&options).expect("a client");
        let made = runtime.block_on(upkeep.create_table());
        made.expect("a table");
        let contender = |number| Contender::new(number, &options, &backend).expect("a worker");
        let gathered = (1..=workers).map(contender).collect();
        drop(inside);
        Crew {
            runtime,
            backend,
            log: Log::default(),
            gathered,
        }
    }

    /// How long `times` more turns take.
    pub fn turns(&mut self, times: u64) -> Duration {
        self.watch(times).0
    }

    /// How long the handoffs of `times` more turns take.
    pub fn handoffs(&mut self, times: u64) -> Duration {
        self.watch(times).1
    }

    fn watch(&mut self, times: u64) -> (Duration, Duration) {
        let Crew { runtime, log, .. } = self;
        runtime.block_on(async {
            // A turn begins when the one before ends.
            let so_far = log.done().turns;
            log.until(so_far + 1).await;
            let (began, before) = (Instant::now(), *log.done());
            log.until(before.turns + times).await;
            let handing_over = log.done().handing_over - before.handing_over;
            (began.elapsed(), handing_over)
        })
    }

    /// How long `times` queues take, in each of which every worker has one turn.
    pub fn queues(&mut self, times: u64) -> Duration {
        let Crew {
            runtime,
            log,
            gathered,
            ..
        } = self;
        runtime.block_on(async {
            let began = Instant::now();
            for _ in 0..times {
                let turns = gathered.iter().map(|one| turn(one, Duration::ZERO, log));
                join_all(turns).await;
            }
            began.elapsed()
        })
    }

    /// The requests per turn of everything that was watched.
    pub fn requests_a_turn(&self) -> f64 {
        let sent = self.backend.counter.counted();
        sent.of_turns().requests as f64 / self.log.done().turns.max(1) as f64
    }

    fn forget(&mut self) {
        take(&mut *self.backend.counter.counted());
        *self.log.done() = Done::default();
    }
}

/// The options as the driver parses them.
fn options(algorithm: Algorithm, workers: u32) -> Options {
    let poll = (workers * POLL_MS).to_string();
    let workers = workers.to_string();
    let mut flags = vec!["contend", "--rtt-ms", "2", "--workers", &workers];
    flags.extend(["--algorithm", algorithm.name()]);
    if algorithm.poll().is_some() {
        flags.extend(["--poll-ms", &poll]);
    }
    Options::try_parse_from(flags).expect("flags of the driver")
}

async fn turn(contender: &Contender, hold: Duration, log: &Log) {
    let held = contender.acquire().await.expect("a turn");
    log.granted();
    tokio::time::sleep(hold).await;
    log.releasing();
    // If two held a baseline's lock at once, its item may be gone already.
    let _released = held.release().await;
}

impl Log {
    fn granted(&self) {
        let mut done = self.done();
        let released = done.released.take();
        done.handing_over += released.map_or(Duration::ZERO, |at| at.elapsed());
    }

    fn releasing(&self) {
        let mut done = self.done();
        done.released = Some(Instant::now());
        done.turns += 1;
        self.changed.notify_one();
    }

    async fn until(&self, turns: u64) {
        // The loop ends when there were this many turns.
        while self.done().turns < turns {
            self.changed.notified().await;
        }
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
