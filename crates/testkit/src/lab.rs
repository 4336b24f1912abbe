//! An engine in memory on the test's clock, and lock clients on it, each behind a network of its own.
#![expect(
    clippy::expect_used,
    reason = "a test whose laboratory cannot be set up has failed"
)]

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::bounded_tests::virtual_time;
use crate::consistent_reads::Reads;
use crate::keyed_tables::{OF_LOCKS, create_table};
use crate::verbs;
use aws_sdk_dynamodb::types::{AttributeValue, TimeToLiveSpecification};
use fairlock::embedded::{Engine, Fault, Faults, Gate, Latency, Network, Request, When};
use fairlock::{
    Clock, Error, FairLock, Holder, LockClient, LockClientBuilder, LockGuard, LockState,
    LossReason, RecordWait,
};
use tokio::task::JoinHandle;

/// The time at which every test starts, in seconds since 1970.
pub const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// A second.
pub const SECOND: Duration = Duration::from_secs(1);
/// A millisecond.
pub const MS: Duration = Duration::from_millis(1);

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

    /// Polls a call for this long, and drops it. The call must not end before.
    pub async fn drops(&self, after: Duration, call: impl Future) {
        tokio::select! {
            biased;
            _ = call => unreachable!("the call has ended"),
            () = self.wait(after) => {}
        }
    }

    /// Lets this much time pass.
    #[expect(clippy::disallowed_methods, reason = "the test's own clock is tokio's")]
    pub async fn wait(&self, span: Duration) {
        tokio::time::sleep_until(tokio::time::Instant::now() + span).await;
    }
}

impl Host {
    /// Lock `a`.
    pub fn lock(&self) -> FairLock {
        self.locks.fair_lock("a").expect("a lock's name")
    }

    /// Tries to take lock `a` without waiting.
    pub async fn try_acquire(&self) -> Option<LockGuard> {
        self.lock().try_acquire().await.expect("an answer")
    }

    /// Lets requests of this client meet faults from now on, as a script says.
    pub fn script(&self, script: impl Fn(&Request) -> Option<Fault> + Send + Sync + 'static) {
        let _ = self.network.clone().script(script);
    }

    /// Lets the next request of an operation meet a fault.
    pub fn next_meets(&self, operation: &'static str, fault: Fault) {
        let is_over = AtomicBool::new(false);
        self.script(move |request| {
            let is_next = request.operation() == operation;
            (is_next && !is_over.swap(true, Ordering::SeqCst)).then(|| fault.clone())
        });
    }

    /// As [`verbs::meets`], for this client.
    pub fn meets(&self, what: &'static str, times: usize, fault: Fault) -> Arc<AtomicUsize> {
        verbs::meets(&self.network, what, times, fault)
    }

    /// As [`verbs::held`], for this client.
    pub fn held(&self, what: &'static str, times: usize, when: When) -> Gate {
        verbs::held(&self.network, what, times, when)
    }

    /// What lock `a` looks like to this client.
    pub async fn inspect(&self) -> LockState {
        self.lock().inspect().await.expect("an answer")
    }
}

/// Runs a test in virtual time, in a laboratory of its own, with as many clients with the defaults as it names.
pub fn in_lab<const N: usize, T>(test: impl AsyncFnOnce(&Lab, [Host; N]) -> T) -> T {
    virtual_time(among(|builder| builder, test))
}

/// The same with clients that give this number of slots.
pub fn in_slots<const N: usize, T>(
    slots: usize,
    test: impl AsyncFnOnce(&Lab, [Host; N]) -> T,
) -> T {
    virtual_time(among(|builder| builder.successor_slots(slots), test))
}

/// Runs a test in a laboratory of its own, with as many clients of these settings as it names.
pub(crate) async fn among<const N: usize, T>(
    set: impl Fn(LockClientBuilder) -> LockClientBuilder,
    test: impl AsyncFnOnce(&Lab, [Host; N]) -> T,
) -> T {
    let lab = Lab::new().await;
    let hosts = [(); N].map(|()| lab.host_with(&set));
    test(&lab, hosts).await
}

/// Calls for lock `a` in a task of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, not the client's"
)]
pub fn acquires(host: &Host, wait: RecordWait) -> JoinHandle<Result<LockGuard, Error>> {
    let lock = host.lock();
    tokio::spawn(async move { lock.acquire(wait).await })
}

/// Waits in the queue for a share of lock `a`, and returns its guard.
pub async fn shares(host: &Host) -> LockGuard {
    let shared = host.lock();
    let shared = shared.acquire_shared(RecordWait::Infinite).await;
    shared.expect("a turn")
}

/// Starts waiting for a share of lock `a` in a task of its own, and returns when that waiter rests in its place.
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, not the client's"
)]
pub async fn waits_to_share(lab: &Lab, host: &Host) -> JoinHandle<LockGuard> {
    let lock = host.lock();
    let shared = async move { lock.acquire_shared(RecordWait::Infinite).await };
    let waiting = tokio::spawn(async move { shared.await.expect("a turn") });
    lab.settle().await;
    waiting
}

/// Waits in the queue for lock `a`, and returns its guard.
pub async fn acquire(host: &Host) -> LockGuard {
    let lock = host.lock();
    lock.acquire(RecordWait::Infinite).await.expect("a turn")
}

/// Starts waiting for lock `a` in a task of its own, and returns when that waiter rests in its place.
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, not the client's"
)]
pub async fn waits(lab: &Lab, host: &Host) -> JoinHandle<LockGuard> {
    let lock = host.lock();
    let waiting =
        tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.expect("a turn") });
    lab.settle().await;
    waiting
}

/// Starts waiting for lock `a` in a task for each client, one after the other.
pub async fn all_wait<'a>(
    lab: &Lab,
    hosts: impl IntoIterator<Item = &'a Host>,
) -> Vec<JoinHandle<LockGuard>> {
    let mut waiting = Vec::new();
    for host in hosts {
        waiting.push(waits(lab, host).await);
    }
    waiting
}

/// A call is granted the lock, and its caller releases it at once.
pub async fn has_turn<E: Debug>(call: impl Future<Output = Result<LockGuard, E>>) {
    let guard = call.await.expect("a turn");
    guard.release().await.expect("still held");
}

/// Each of those who wait is granted the lock, and releases it at once.
pub async fn have_turns(waiting: impl IntoIterator<Item = JoinHandle<LockGuard>>) {
    for next in waiting {
        has_turn(next).await;
    }
}

/// Why a lock was lost, as the end of a call says.
pub fn loss<T: Debug>(ended: Result<T, Error>) -> LossReason {
    match ended.expect_err("a loss") {
        Error::Lost { reason, .. } => reason,
        other => unreachable!("{other}"),
    }
}

/// The holder because of which a call was not granted the lock.
pub fn holder_told<T: Debug>(refused: Result<T, Error>) -> Holder {
    match refused.expect_err("a refusal") {
        Error::NotGranted { holder, .. } => *holder.expect("a holder"),
        other => unreachable!("{other}"),
    }
}

/// Cuts clients off: nothing that they send arrives any more.
pub fn cut_all<'a>(hosts: impl IntoIterator<Item = &'a Host>) {
    for host in hosts {
        host.network.set_faults(cut_off());
    }
}

/// Faults by which a request and its answer take this long.
pub fn away(round_trip: Duration) -> Faults {
    Faults {
        round_trip: Latency::Constant(round_trip),
        ..Faults::default()
    }
}

/// Faults by which no request is answered, nor applied.
pub fn silent() -> Faults {
    Faults {
        hangs_before: 1.0,
        ..Faults::default()
    }
}

/// Faults by which nothing that is sent arrives any more.
pub fn cut_off() -> Faults {
    Faults {
        lost_requests: 1.0,
        ..Faults::default()
    }
}
