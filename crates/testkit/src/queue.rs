//! A queue of constant length: a number of processes wait for one lock, and each that releases goes to the end. Timed and metered in
//! virtual time.
#![expect(
    clippy::expect_used,
    reason = "a queue that cannot be set up cannot be measured"
)]

use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Faults, Latency, Network};
use fairlock::{Clock, FairLock, LockClient, RecordWait};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::datagram_network::Post;
use crate::request_counts::{Counter, Sent, Traffic};

/// When the queue starts, in seconds since 1970.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);
/// All processes come within this time, evenly, so that their heartbeats are not all due at the same time.
const ARRIVALS: Duration = Duration::from_secs(10);
/// After how many handoffs the items are looked at, behind those that are counted.
const SEEN: usize = 32;

/// A queue, and how long it is watched.
#[derive(Clone, Copy, Debug)]
pub struct QueueSetup {
    /// How many processes wait, beside the one that holds the lock.
    pub waiters: usize,
    /// How long each turn holds the lock.
    pub hold: Duration,
    /// How long a request and its answer take together.
    pub round_trip: Duration,
    /// How long the queue runs before anything is counted: by then the pace is learnt, and leases are as long as they will be.
    pub settles: Duration,
    /// How many handoffs are counted.
    pub handoffs: usize,
}

/// How the clients of a queue are built, where that matters for what a queue costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Build {
    /// The lease of each.
    pub lease: Duration,
    /// The slots behind the holder.
    pub slots: usize,
    /// Whether they notify each other.
    pub are_notified: bool,
}

impl Default for Build {
    /// As the library's own defaults are.
    fn default() -> Self {
        Build {
            lease: Duration::from_secs(30),
            slots: 8,
            are_notified: false,
        }
    }
}

/// The items of one lock.
pub type Items = Vec<HashMap<String, AttributeValue>>;

/// What the handoffs took, and what was sent while they did.
#[derive(Clone, Debug)]
pub struct Toll {
    /// The times from a release to the next grant, in order of length.
    pub took: Vec<Duration>,
    /// What all processes of the queue sent.
    pub traffic: Traffic,
    /// The items of the lock after each of the last handoffs, while the next holder holds the lock.
    pub items: Vec<Items>,
}

/// When each turn was granted and given back.
#[derive(Clone, Default)]
struct Log {
    turns: Arc<Mutex<Vec<(Instant, Instant)>>>,
    grown: Arc<Notify>,
}

impl QueueSetup {
    /// Runs the queue on a paused clock of tokio.
    pub async fn run(self) -> Toll {
        self.run_built(Build::default()).await
    }

    /// The same with clients that are built in this way.
    pub async fn run_built(self, build: Build) -> Toll {
        let counter = Counter::default();
        let (log, mut work) = (Log::default(), JoinSet::new());
        let site = Site::built(self.round_trip, build).await;
        for number in 0..=self.waiters {
            let lock = site.process(number, &counter);
            let arrives = ARRIVALS * number as u32 / self.waiters as u32;
            work.spawn(take_turns(lock, arrives, self.hold, log.clone()));
        }
        tokio::time::sleep(self.settles).await;
        let first = log.turns().len();
        take(&mut *counter.counted());
        log.until(first + self.handoffs).await;
        let traffic = take(&mut *counter.counted());
        let items = site.seen_after(&log, SEEN).await;
        let turns = log.turns();
        let pairs = turns[first - 1..first + self.handoffs].windows(2);
        let mut took: Vec<_> = pairs.map(|pair| pair[1].0 - pair[0].1).collect();
        took.sort_unstable();
        Toll {
            took,
            traffic,
            items,
        }
    }
}

impl Toll {
    /// What all processes of the queue send per handoff, by `count`, heartbeats included.
    pub fn a_handoff(&self, count: impl Fn(&Sent) -> f64) -> f64 {
        let sent = count(&self.traffic.of_turns()) + count(&self.traffic.heartbeats());
        sent / self.took.len() as f64
    }

    /// The requests that all processes of the queue send per handoff.
    pub fn requests(&self) -> f64 {
        self.a_handoff(|sent| sent.requests as f64)
    }

    /// The capacity of reads and of writes together, per handoff.
    pub fn capacity(&self) -> f64 {
        self.a_handoff(|sent| sent.read_units + sent.write_units)
    }
}

/// A table, and the way to it from any process.
pub struct Site {
    clock: Clock,
    engine: Engine,
    faults: Faults,
    build: Build,
    post: Post,
}

impl Site {
    /// A site in memory, with clients as they are by default.
    pub async fn new(round_trip: Duration) -> Site {
        Site::built(round_trip, Build::default()).await
    }

    /// A site in memory, with clients that are built in this way. A notification takes no time.
    pub async fn built(round_trip: Duration, build: Build) -> Site {
        let clock = Clock::of_tokio(EPOCH);
        let engine = Engine::memory().expect("an engine in memory");
        let engine = engine.with_clock(clock.clone());
        let upkeep = LockClient::builder(engine.client()).table("locks").build();
        let upkeep = upkeep.expect("the defaults");
        let made = upkeep.create_table().await;
        made.expect("a table");
        let faults = Faults {
            round_trip: Latency::Constant(round_trip),
            ..Faults::default()
        };
        Site {
            clock,
            engine,
            faults,
            build,
            post: Post::seeded(1),
        }
    }

    /// The items of the lock after each of this many handoffs, which come now. Nothing of it is counted.
    async fn seen_after(&self, log: &Log, handoffs: usize) -> Vec<Items> {
        let client = self.engine.client();
        let mut seen = Vec::new();
        for _ in 0..handoffs {
            let turns = log.turns().len();
            log.until(turns + 1).await;
            let scan = client.scan().table_name("locks").consistent_read(true);
            let items = scan.send().await.expect("the items of the lock").items;
            seen.push(items.unwrap_or_default());
        }
        seen
    }

    /// The lock, as a process with a client of its own names it.
    pub fn process(&self, number: usize, counter: &Counter) -> FairLock {
        let client = self.client(number, counter);
        client.fair_lock("contended").expect("a lock's name")
    }

    /// A process's client.
    pub fn client(&self, number: usize, counter: &Counter) -> LockClient {
        let network = Network::to(&self.engine).seeded(number as u64);
        let network = counter.metering(network.faults(self.faults));
        let process = LockClient::builder(network.client())
            .table("locks")
            .owner(format!("process {number}"))
            .clock(self.clock.clone())
            .seeded(number as u64)
            .lease_duration(self.build.lease)
            .testing(|it| it.filled_slots = Some(self.build.slots));
        let process = match self.build.are_notified {
            true => process.notifier(self.post.notifier()),
            false => process,
        };
        process.build().expect("the defaults")
    }
}

/// Takes turns until it is dropped.
async fn take_turns(lock: FairLock, arrives: Duration, hold: Duration, log: Log) {
    tokio::time::sleep(arrives).await;
    loop {
        let guard = lock.acquire(RecordWait::Infinite).await.expect("a turn");
        let granted = Instant::now();
        tokio::time::sleep(hold).await;
        log.add((granted, Instant::now()));
        guard.release().await.expect("still held");
    }
}

impl Log {
    fn add(&self, turn: (Instant, Instant)) {
        self.turns().push(turn);
        self.grown.notify_one();
    }

    async fn until(&self, turns: usize) {
        // Ends when there have been as many turns.
        while self.turns().len() < turns {
            self.grown.notified().await;
        }
    }

    fn turns(&self) -> MutexGuard<'_, Vec<(Instant, Instant)>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
