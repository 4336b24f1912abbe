//! One engine in memory on the test's clock, and lock clients on it, each behind a network of its own.
#![expect(
    clippy::expect_used,
    reason = "a test whose laboratory cannot be set up has failed"
)]

#[path = "keys.rs"]
pub(crate) mod keys;
#[path = "reads.rs"]
pub(crate) mod reads;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TimeToLiveSpecification};
use fairlock::embedded::{Engine, Faults, Network};
use fairlock::{Chance, Clock, LockClient, LockClientBuilder, LockGuard, RecordWait};
use keys::{OF_LOCKS, create_table};
use reads::Reads;
use tokio::task::JoinHandle;

/// The time at which every test starts, in seconds since 1970.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_700_000_000);

pub(crate) struct Lab {
    pub(crate) clock: Clock,
    pub(crate) engine: Engine,
    clients: AtomicU64,
    reads: Reads,
}

/// A lock client and the network that its requests take.
pub(crate) struct Host {
    pub(crate) locks: LockClient,
    pub(crate) network: Network,
}

// Every suite is offered all of it, and need not use all.
const _: () = {
    let _ = (Lab::new, Lab::host, Lab::hosts_with_seats, Lab::items);
    let _ = (Lab::is_free, Lab::delete_lock_item, Lab::settle);
    let _ = Lab::switch_ttl_on;
    let _ = (acquire, waits, cut_off);
};

impl Lab {
    pub(crate) async fn new() -> Self {
        let clock = Clock::of_tokio(EPOCH);
        let engine = Engine::memory()
            .expect("an engine in memory")
            .with_clock(clock.clone());
        Lab::on(engine, clock).await
    }

    pub(crate) async fn on(engine: Engine, clock: Clock) -> Self {
        create_table(&engine.client(), "locks", &OF_LOCKS).await;
        Lab {
            clock,
            engine,
            clients: AtomicU64::new(0),
            reads: Reads::default(),
        }
    }

    /// A client with the defaults.
    pub(crate) fn host(&self) -> Host {
        self.host_with(|builder| builder)
    }

    pub(crate) fn host_with(
        &self,
        set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
    ) -> Host {
        let seed = self.clients.fetch_add(1, Ordering::Relaxed);
        let network = self.reads.watch(Network::to(&self.engine).seeded(seed));
        let builder = LockClient::builder(network.client())
            .table("locks")
            .owner(format!("host-{seed}"));
        let builder = builder
            .clock(self.clock.clone())
            .chance(Chance::seeded(seed));
        Host {
            locks: set(builder).build().expect("settings that go together"),
            network,
        }
    }

    /// So many clients that give so many seats.
    pub(crate) fn hosts_with_seats(&self, count: usize, seats: usize) -> Vec<Host> {
        let host = |_| self.host_with(|builder| builder.seats(seats));
        (0..count).map(host).collect()
    }

    /// The sort keys of everything that the table has for a lock.
    pub(crate) async fn items(&self, lock: &str) -> Vec<String> {
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

    /// Whether nobody has a lock, or waits for it, when everything in the background has run to its end.
    pub(crate) async fn is_free(&self, lock: &str) -> bool {
        self.settle().await;
        let lock = self.host().locks.fair_lock(lock).expect("a lock's name");
        let guard = lock.try_acquire().await.expect("an answer");
        let free = guard.is_some();
        drop(guard);
        self.settle().await;
        free
    }

    /// From now on [`Engine::expire`] deletes what nobody has used for long.
    pub(crate) async fn switch_ttl_on(&self) {
        let ttl = TimeToLiveSpecification::builder().enabled(true);
        let ttl = ttl.attribute_name("expires_at").build();
        let switch = self.engine.client().update_time_to_live();
        let switch = switch.table_name("locks");
        let switch = switch.time_to_live_specification(ttl.expect("an attribute's name"));
        switch.send().await.expect("TTL");
    }

    pub(crate) async fn delete_lock_item(&self, lock: &str) {
        let delete = self.engine.client().delete_item().table_name("locks");
        let delete = delete.key("pk", AttributeValue::S(lock.into()));
        let delete = delete.key("sk", AttributeValue::S("fairlock/#lock".into()));
        delete.send().await.expect("a deletion");
    }

    /// Lets everything in the background run to its end: leaving, releasing, cleaning.
    pub(crate) async fn settle(&self) {
        self.wait(Duration::from_secs(1)).await;
    }

    #[expect(clippy::disallowed_methods, reason = "the test's own clock is tokio's")]
    pub(crate) async fn wait(&self, span: Duration) {
        tokio::time::sleep_until(tokio::time::Instant::now() + span).await;
    }
}

/// Waits in line for lock `a`, and has it.
pub(crate) async fn acquire(host: &Host) -> LockGuard {
    let lock = host.locks.fair_lock("a").expect("a lock's name");
    lock.acquire(RecordWait::Infinite).await.expect("a turn")
}

/// Starts waiting for lock `a` in a task of its own, and lets it come to rest in its place.
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, not the client's"
)]
pub(crate) async fn waits(lab: &Lab, host: &Host) -> JoinHandle<LockGuard> {
    let lock = host.locks.fair_lock("a").expect("a lock's name");
    let waiting =
        tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.expect("a turn") });
    lab.settle().await;
    waiting
}

/// Nothing that is sent arrives any more.
pub(crate) fn cut_off() -> Faults {
    Faults {
        lost_requests: 1.0,
        ..Faults::default()
    }
}
