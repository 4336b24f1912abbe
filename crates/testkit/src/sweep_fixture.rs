//! A table with its clients, and what a test of sweeping does to its items behind their backs.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Fault, Gate, Network, Request, When};
use fairlock::{Clock, Error, LockClient, LockGuard, RecordWait, SweepReport};
use tokio::time::sleep;

use crate::bounded_tests::virtual_time;
use crate::lab::SECOND;
use crate::sweeps::sweep_table;

/// A day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// A lease and what newcomers add to it, and more than the grain of a `Date`, together.
pub const DEATH: Duration = Duration::from_secs(30 + 5 + 2);
/// The interval of the periodic sweeper in these tests.
pub const OFTEN: Duration = Duration::from_secs(5);

/// An engine in memory with a table, and how many clients were made.
pub struct World {
    /// The engine, with the table `fairlock`.
    pub engine: Engine,
    /// The clock of the engine and all clients.
    pub clock: Clock,
    started: tokio::time::Instant,
    made: AtomicU64,
}

/// Runs a test in virtual time, in a world of its own.
pub fn in_world(test: impl AsyncFnOnce(&World)) {
    virtual_time(async { test(&World::new().await).await });
}

/// A client that can be cut off from the table, which to all other clients is a crash.
pub struct Crashable {
    /// The client.
    pub locks: LockClient,
    cut: Arc<AtomicBool>,
}

impl Crashable {
    /// Cuts the client off: nothing that it sends arrives any more.
    pub fn crash(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Connects the client again: what it sends arrives.
    pub fn comes_back(&self) {
        self.cut.store(false, Ordering::Relaxed);
    }

    /// Takes the lock in the background: returns when the client holds it, or has its place in the queue.
    pub async fn take(&self, lock: &str) -> tokio::task::JoinHandle<Result<LockGuard, Error>> {
        let lock = self.locks.fair_lock(lock).unwrap();
        let taking = spawn(async move { lock.acquire(RecordWait::Infinite).await });
        sleep(SECOND / 10).await;
        taking
    }
}

impl World {
    /// A world with an engine like DynamoDB.
    pub async fn new() -> World {
        World::on(|engine| engine).await
    }

    /// A world with an engine that was changed.
    pub async fn on(make: impl FnOnce(Engine) -> Engine) -> World {
        let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
        let engine = make(Engine::memory().unwrap().with_clock(clock.clone()));
        let made = AtomicU64::new(0);
        let world = World {
            engine,
            clock,
            started: tokio::time::Instant::now(),
            made,
        };
        let creator = world.client().await;
        creator.create_table().await.unwrap();
        world
    }

    /// A client with few slots that knows DynamoDB's time.
    pub async fn client_on(&self, network: &Network) -> LockClient {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let builder = LockClient::builder(network.client()).successor_slots(2);
        let builder = builder.clock(self.clock.clone()).owner(number.to_string());
        let locks = builder.seeded(number).build().unwrap();
        // Any answer will do, even that there is no table yet.
        let _ = locks.fair_lock("what time is it?").unwrap().sweep().await;
        locks
    }

    /// A client on a perfect network.
    pub async fn client(&self) -> LockClient {
        self.client_on(&Network::to(&self.engine)).await
    }

    /// A client that can be cut off.
    pub async fn crashable(&self) -> Crashable {
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = Arc::clone(&cut);
        let network = Network::to(&self.engine).script(move |_| {
            let is_cut = is_cut.load(Ordering::Relaxed);
            is_cut.then_some(Fault::Lose(When::Before))
        });
        let locks = self.client_on(&network).await;
        Crashable { locks, cut }
    }

    /// A client that dies once it has drawn a ticket.
    pub async fn dies_before_it_joins(&self) -> LockClient {
        let dead = AtomicBool::new(false);
        let network = Network::to(&self.engine).script(move |request| {
            if request.operation() == "PutItem" {
                dead.store(true, Ordering::Relaxed);
            }
            let is_dead = dead.load(Ordering::Relaxed);
            is_dead.then_some(Fault::Lose(When::Before))
        });
        self.client_on(&network).await
    }

    /// Sweeps with another client. Returns what the sweep removed.
    pub async fn sweep(&self, lock: &str) -> SweepReport {
        let lock = self.client().await.fair_lock(lock).unwrap();
        lock.sweep().await.unwrap()
    }

    /// The sort keys of all items of a lock.
    pub async fn left_of(&self, lock: &str) -> Vec<String> {
        let request = self.engine.client().query().table_name("fairlock");
        let request = request.key_condition_expression("pk = :pk");
        let request = request.expression_attribute_values(":pk", text(lock));
        let items = request.send().await.unwrap().items.unwrap();
        let key = |item: &HashMap<_, AttributeValue>| item["sk"].as_s().unwrap().clone();
        items.iter().map(key).collect()
    }

    /// The lock item, as it is stored.
    pub async fn lock_item(&self, lock: &str) -> HashMap<String, AttributeValue> {
        let request = self.engine.client().get_item().table_name("fairlock");
        let request = request
            .key("pk", text(lock))
            .key("sk", text("fairlock/#lock"));
        request.send().await.unwrap().item.expect("a lock item")
    }

    /// The newest ticket of a lock.
    pub async fn last(&self, lock: &str) -> u64 {
        let item = self.lock_item(lock).await;
        item["last"].as_n().unwrap().parse().unwrap()
    }

    /// The time now; every test starts at the same time.
    pub fn time(&self) -> Duration {
        Duration::from_secs(1_700_000_000) + self.started.elapsed()
    }

    /// Writes a number to an attribute of the lock item, whatever was there.
    pub async fn set(&self, lock: &str, attribute: &str, value: u64) {
        self.set_in(lock, [attribute], value).await;
    }

    /// Writes a number to an attribute of a map in the lock item.
    pub async fn set_in<const N: usize>(&self, lock: &str, path: [&str; N], value: u64) {
        let mut request = self.engine.client().update_item().table_name("fairlock");
        for (index, attribute) in path.into_iter().enumerate() {
            request = request.expression_attribute_names(format!("#{index}"), attribute);
        }
        let path: Vec<_> = (0..N).map(|index| format!("#{index}")).collect();
        let request = request
            .key("pk", text(lock))
            .key("sk", text("fairlock/#lock"))
            .update_expression(format!("SET {} = :value", path.join(".")))
            .expression_attribute_values(":value", number(value));
        request.send().await.unwrap();
    }

    /// Draws tickets that no client has.
    pub async fn draw(&self, lock: &str, tickets: u64) {
        let last = self.last(lock).await;
        self.set(lock, "last", last + tickets).await;
    }

    /// Dates the newest draw to the start of the test.
    pub async fn date_draws(&self, lock: &str) {
        for clock in ["drawn_at", "drawn_on_host"] {
            self.set(lock, clock, 1_700_000_000_000).await;
        }
    }

    /// Puts a row that is void.
    pub async fn put_void(&self, lock: &str, ticket: u64) {
        let request = self.engine.client().put_item().table_name("fairlock");
        let request = request
            .item("pk", text(lock))
            .item("sk", text(&row(ticket)));
        let request = request.item("state", text("void"));
        request.send().await.unwrap();
    }
}

/// Runs what the user of a client does at the same time.
#[expect(
    clippy::disallowed_methods,
    reason = "not work of a client: what several clients of a test do at the same time"
)]
pub fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

/// The sort key of a ticket's row.
pub fn row(ticket: u64) -> String {
    format!("fairlock/{ticket:038}")
}

/// A string, as the SDK has it.
pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// A number, as the SDK has it.
pub fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// The report of a sweep that finds nothing.
pub fn nothing() -> SweepReport {
    SweepReport::default()
}

/// Whether a request deletes one item.
pub fn deletes(request: &Request) -> bool {
    request.operation() == "DeleteItem"
}

/// Returns what a sweep removes when `touch` happens between its poll and its first removal of this kind.
pub async fn swept_despite<F: Future<Output = ()>, T: FnOnce() -> F>(
    world: &World,
    is_removal: fn(&Request) -> bool,
    touch: T,
) -> SweepReport {
    let gate = Gate::closed();
    let at_gate = gate.clone();
    let network = Network::to(&world.engine).script(move |request| {
        let holds = is_removal(request);
        holds.then(|| Fault::Hold(When::Before, at_gate.clone()))
    });
    let client = world.client_on(&network).await;
    let sweeping = spawn(async move { sweep_table(&client).await });
    gate.reached(1).await;
    touch().await;
    gate.open();
    sweeping.await.unwrap().unwrap().removed
}
