//! An engine in memory on the test's clock, and lock clients on it, each behind a network of its own.
#![expect(
    clippy::expect_used,
    reason = "a test whose laboratory cannot be set up has failed"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::consistent_reads::Reads;
use crate::keyed_tables::{OF_LOCKS, create_table};
use aws_sdk_dynamodb::types::{AttributeValue, TimeToLiveSpecification};
use fairlock::embedded::{Engine, Faults, Network};
use fairlock::{Clock, LockClient, LockClientBuilder, LockGuard, RecordWait};
use tokio::task::JoinHandle;

/// The time at which every test starts, in seconds since 1970.
pub const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// An engine in memory, and the clock of the test. Fails the test if a client makes a read that is not consistent.
pub struct Lab {
    /// The clock of the engine and all clients.
    pub clock: Clock,
    /// The engine, with the table `locks`.
    pub engine: Engine,
    clients: AtomicU64,
    reads: Reads,
}

/// A lock client and the network that its requests take.
pub struct Host {
    /// The client.
    pub locks: LockClient,
    /// The network that its requests go over.
    pub network: Network,
}

impl Lab {
    /// A laboratory with an engine that begins at [`EPOCH`].
    pub async fn new() -> Self {
        let clock = Clock::of_tokio(EPOCH);
        let engine = Engine::memory()
            .expect("an engine in memory")
            .with_clock(clock.clone());
        Lab::on(engine, clock).await
    }

    /// A laboratory with the caller's engine and clock.
    pub async fn on(engine: Engine, clock: Clock) -> Self {
        create_table(&engine.client(), "locks", &OF_LOCKS).await;
        Lab {
            clock,
            engine,
            clients: AtomicU64::new(0),
            reads: Reads::default(),
        }
    }

    /// A client with the defaults.
    pub fn host(&self) -> Host {
        self.host_with(|builder| builder)
    }

    /// A client with other settings.
    pub fn host_with(&self, set: impl FnOnce(LockClientBuilder) -> LockClientBuilder) -> Host {
        let seed = self.clients.fetch_add(1, Ordering::Relaxed);
        let network = self.reads.watch(Network::to(&self.engine).seeded(seed));
        let builder = LockClient::builder(network.client())
            .table("locks")
            .owner(format!("host-{seed}"));
        let builder = builder.clock(self.clock.clone()).seeded(seed);
        Host {
            locks: set(builder).build().expect("settings that go together"),
            network,
        }
    }

    /// Makes `count` clients that give `slots` slots.
    pub fn hosts_with_slots(&self, count: usize, slots: usize) -> Vec<Host> {
        let host = |_| self.host_with(|builder| builder.successor_slots(slots));
        (0..count).map(host).collect()
    }

    /// The sort keys of everything that the table has for a lock.
    pub async fn items(&self, lock: &str) -> Vec<String> {
        let query = self
            .engine
            .client()
            .query()
            .table_name("locks")
            .key_condition_expression("pk = :pk");
        let query = query
            .expression_attribute_values(":pk", AttributeValue::S(lock.into()))
            .consistent_read(true);
        let items = query
            .send()
            .await
            .expect("a query")
            .items
            .unwrap_or_default();
        items
            .iter()
            .filter_map(|item| item["sk"].as_s().ok().cloned())
            .collect()
    }

    /// Whether no client holds a lock, or waits for it, once everything in the background has run to its end.
    pub async fn is_free(&self, lock: &str) -> bool {
        self.settle().await;
        let lock = self.host().locks.fair_lock(lock).expect("a lock's name");
        let guard = lock.try_acquire().await.expect("an answer");
        let free = guard.is_some();
        drop(guard);
        self.settle().await;
        free
    }

    /// Lets [`Engine::expire`] delete what no client has used for long, from now on.
    pub async fn switch_ttl_on(&self) {
        let ttl = TimeToLiveSpecification::builder().enabled(true);
        let ttl = ttl.attribute_name("expires_at").build();
        let switch = self.engine.client().update_time_to_live();
        let switch = switch.table_name("locks");
        let switch = switch.time_to_live_specification(ttl.expect("an attribute's name"));
        switch.send().await.expect("TTL");
    }

    /// Deletes the lock item, as an operator would by hand.
    pub async fn delete_lock_item(&self, lock: &str) {
        let delete = self.engine.client().delete_item().table_name("locks");
        let delete = delete.key("pk", AttributeValue::S(lock.into()));
        let delete = delete.key("sk", AttributeValue::S("fairlock/#lock".into()));
        delete.send().await.expect("a deletion");
    }

    /// Lets everything in the background run to its end: leaving, releasing, cleaning.
    pub async fn settle(&self) {
        self.wait(Duration::from_secs(1)).await;
    }

    /// Lets this much time pass.
    #[expect(clippy::disallowed_methods, reason = "the test's own clock is tokio's")]
    pub async fn wait(&self, span: Duration) {
        tokio::time::sleep_until(tokio::time::Instant::now() + span).await;
    }
}

/// Waits in the queue for lock `a`, and returns its guard.
pub async fn acquire(host: &Host) -> LockGuard {
    let lock = host.locks.fair_lock("a").expect("a lock's name");
    lock.acquire(RecordWait::Infinite).await.expect("a turn")
}

/// Starts waiting for lock `a` in a task of its own, and returns when that waiter rests in its place.
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, not the client's"
)]
pub async fn waits(lab: &Lab, host: &Host) -> JoinHandle<LockGuard> {
    let lock = host.locks.fair_lock("a").expect("a lock's name");
    let waiting =
        tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.expect("a turn") });
    lab.settle().await;
    waiting
}

/// Faults by which nothing that is sent arrives any more.
pub fn cut_off() -> Faults {
    Faults {
        lost_requests: 1.0,
        ..Faults::default()
    }
}
