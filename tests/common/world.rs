//! One table with its clients, and what a test of sweeping does to its items behind their backs.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::HashMap;
use std::future::Ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Fault, Gate, Network, Request, When};
use fairlock::{
    Chance, Clock, Error, IdleLocks, LockClient, LockGuard, RecordWait, Swept, TableOptions,
};
use tokio::time::sleep;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
/// A lease, the allowance of the common clock and the grain of its `Date`.
pub(crate) const DEATH: Duration = Duration::from_secs(30 + 10 + 2);
/// As much time as sweeps of the periodic sweeper need in these tests.
pub(crate) const OFTEN: Duration = Duration::from_secs(5);

// Both suites are offered all of it, and need not use all.
const _: () = {
    let _ = |world: &World| world.started;
    let _ = (
        Crashable::crash,
        Crashable::take,
        World::new,
        World::client_on,
        World::client,
        World::crashable,
        World::dies_before_it_joins,
        World::sweep,
        World::left_of,
        World::lock_item,
        World::last,
        World::set,
        World::draw,
        World::date_draws,
        World::put_void,
    );
    let _ = (
        row,
        deletes,
        swept_despite::<Ready<()>, fn() -> Ready<()>>,
        text,
        number,
        nothing,
        SECOND,
        DAY,
        DEATH,
        OFTEN,
    );
};

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) clock: Clock,
    pub(crate) started: tokio::time::Instant,
    pub(crate) made: AtomicU64,
}

/// A client that can be cut off from the table, which to all others is a crash.
pub(crate) struct Crashable {
    pub(crate) locks: LockClient,
    pub(crate) cut: Arc<AtomicBool>,
}

impl Crashable {
    pub(crate) fn crash(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Holds the lock, or waits for it in the background until the line has taken it in.
    pub(crate) async fn take(
        &self,
        lock: &str,
    ) -> tokio::task::JoinHandle<Result<LockGuard, Error>> {
        let lock = self.locks.fair_lock(lock).unwrap();
        let taking = spawn(async move { lock.acquire(RecordWait::Infinite).await });
        sleep(SECOND / 10).await;
        taking
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::on(|engine| engine).await
    }

    pub(crate) async fn on(make: impl FnOnce(Engine) -> Engine) -> World {
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
        let options = TableOptions::default();
        creator.create_table(&options).await.unwrap();
        world
    }

    /// A client with few seats that knows DynamoDB's time.
    pub(crate) async fn client_on(&self, network: &Network) -> LockClient {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let builder = LockClient::builder(network.client()).seats(2);
        let builder = builder.clock(self.clock.clone()).owner(number.to_string());
        let locks = builder.chance(Chance::seeded(number)).build().unwrap();
        // Any answer will do, also that there is no table yet.
        let _ = locks.fair_lock("what time is it?").unwrap().sweep().await;
        locks
    }

    pub(crate) async fn client(&self) -> LockClient {
        self.client_on(&Network::to(&self.engine)).await
    }

    pub(crate) async fn crashable(&self) -> Crashable {
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = Arc::clone(&cut);
        let network = Network::to(&self.engine).script(move |_| {
            let is_cut = is_cut.load(Ordering::Relaxed);
            is_cut.then_some(Fault::Lose(When::Before))
        });
        let locks = self.client_on(&network).await;
        Crashable { locks, cut }
    }

    /// A client that dies when it has drawn a ticket.
    pub(crate) async fn dies_before_it_joins(&self) -> LockClient {
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

    pub(crate) async fn sweep(&self, lock: &str) -> Swept {
        let lock = self.client().await.fair_lock(lock).unwrap();
        lock.sweep().await.unwrap()
    }

    /// The sort keys of everything there is of a lock.
    pub(crate) async fn left_of(&self, lock: &str) -> Vec<String> {
        let request = self.engine.client().query().table_name("fairlock");
        let request = request.key_condition_expression("pk = :pk");
        let request = request.expression_attribute_values(":pk", text(lock));
        let items = request.send().await.unwrap().items.unwrap();
        let key = |item: &HashMap<_, AttributeValue>| item["sk"].as_s().unwrap().clone();
        items.iter().map(key).collect()
    }

    pub(crate) async fn lock_item(&self, lock: &str) -> HashMap<String, AttributeValue> {
        let request = self.engine.client().get_item().table_name("fairlock");
        let request = request
            .key("pk", text(lock))
            .key("sk", text("fairlock/#lock"));
        request.send().await.unwrap().item.expect("a lock item")
    }

    pub(crate) async fn last(&self, lock: &str) -> u64 {
        let item = self.lock_item(lock).await;
        item["last"].as_n().unwrap().parse().unwrap()
    }

    /// Writes a number to the lock item, whatever it is.
    pub(crate) async fn set(&self, lock: &str, attribute: &str, value: u64) {
        self.set_in(lock, [attribute], value).await;
    }

    /// Or to a map in it.
    pub(crate) async fn set_in<const N: usize>(&self, lock: &str, path: [&str; N], value: u64) {
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

    /// Draws tickets that nobody has.
    pub(crate) async fn draw(&self, lock: &str, tickets: u64) {
        let last = self.last(lock).await;
        self.set(lock, "last", last + tickets).await;
    }

    /// When the newest ticket was drawn: at the start of the test.
    pub(crate) async fn date_draws(&self, lock: &str) {
        self.set(lock, "drawn_at", 1_700_000_000_000).await;
    }

    pub(crate) async fn put_void(&self, lock: &str, ticket: u64) {
        let request = self.engine.client().put_item().table_name("fairlock");
        let request = request
            .item("pk", text(lock))
            .item("sk", text(&row(ticket)));
        let request = request.item("state", text("void"));
        request.send().await.unwrap();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "not work of a client: what several clients of a test do at the same time"
)]
pub(crate) fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

pub(crate) fn row(ticket: u64) -> String {
    format!("fairlock/{ticket:038}")
}

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn nothing() -> Swept {
    Swept::default()
}

pub(crate) fn deletes(request: &Request) -> bool {
    request.operation() == "DeleteItem"
}

/// What a sweep removes when `touch` happens between its look and its first removal of this kind.
pub(crate) async fn swept_despite<F: Future<Output = ()>, T: FnOnce() -> F>(
    world: &World,
    is_removal: fn(&Request) -> bool,
    touch: T,
) -> Swept {
    let gate = Gate::closed();
    let at_gate = gate.clone();
    let network = Network::to(&world.engine).script(move |request| {
        let holds = is_removal(request);
        holds.then(|| Fault::Hold(When::Before, at_gate.clone()))
    });
    let client = world.client_on(&network).await;
    let sweeping = spawn(async move { client.sweep_table(IdleLocks::Remove).await });
    gate.reached(1).await;
    touch().await;
    gate.open();
    sweeping.await.unwrap().unwrap().swept
}
