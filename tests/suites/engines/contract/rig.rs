//! Where a scenario is played: an engine, a table on it, and clients, each behind a network of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Network};
use fairlock::{Clock, Error, LockClient, LockClientBuilder, LockGuard, RecordWait};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use fairlock_testkit::consistent_reads::Reads;
use fairlock_testkit::effort::{Effort, effort, sampled};
use fairlock_testkit::http;
use fairlock_testkit::lab::{EPOCH, Host};
use fairlock_testkit::tamper::{Item, Table, held_in_slot, successors};
use fairlock_testkit::{real_time, virtual_time};

pub(crate) use fairlock_testkit::lab::{MS, SECOND};

/// The lease of clients that will die. Other clients have the default.
pub(crate) const SHORT: Duration = Duration::from_secs(3);

pub(crate) struct Rig {
    server: Server,
    table: String,
    clock: Clock,
    /// Whether time passes as fast as the test likes.
    is_virtual: bool,
    made: AtomicUsize,
    reads: Reads,
}

/// A caller that waits in a task of its own.
pub(crate) type Waiting = JoinHandle<Result<LockGuard, Error>>;

enum Server {
    /// A single engine, or several on one file.
    Engines(Vec<Engine>),
    /// Clients do not ask this engine to return the item with a refusal.
    Unasked(Engine),
    Endpoint(String),
}

pub(crate) fn memory(scenario: impl AsyncFnOnce(&Rig)) {
    in_memory(|engine| Server::Engines(vec![engine]), scenario);
}

pub(crate) fn without_old_items(scenario: impl AsyncFnOnce(&Rig)) {
    in_memory(Server::Unasked, scenario);
}

fn in_memory(server: impl FnOnce(Engine) -> Server, scenario: impl AsyncFnOnce(&Rig)) {
    virtual_time(async {
        let clock = Clock::of_tokio(EPOCH);
        let engine = Engine::memory().unwrap().with_clock(clock.clone());
        let rig = Rig::new(server(engine), clock);
        let is_virtual = true;
        Rig { is_virtual, ..rig }.play(scenario).await;
    });
}

/// Only for a release: a file that two engines share is a file too.
pub(crate) fn file(scenario: impl AsyncFnOnce(&Rig)) {
    if effort() == Effort::Complete {
        in_a_file(1, scenario);
    }
}

pub(crate) fn shared_file(scenario: impl AsyncFnOnce(&Rig)) {
    in_a_file(2, scenario);
}

fn in_a_file(engines: usize, scenario: impl AsyncFnOnce(&Rig)) {
    let home = TempDir::new().unwrap();
    let open = |_| Engine::file(home.path().join("locks.db")).unwrap();
    real_time(async {
        let server = Server::Engines((0..engines).map(open).collect());
        Rig::new(server, Clock::system()).play(scenario).await;
    });
}

pub(crate) fn dynamodb_local(scenario: impl AsyncFnOnce(&Rig)) {
    http::over_http(|url: &str| {
        real_time(async {
            let rig = Rig::new(Server::Endpoint(url.to_owned()), Clock::system());
            rig.play(scenario).await;
            rig.keeps_its_items().await;
            rig.delete_table().await;
        });
    });
}

impl Rig {
    fn new(server: Server, clock: Clock) -> Rig {
        static PLACES: AtomicUsize = AtomicUsize::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        Rig {
            server,
            table: format!("fairlock-{}-{number}", std::process::id()),
            clock,
            is_virtual: false,
            made: AtomicUsize::new(0),
            reads: Reads::default(),
        }
    }

    async fn play(&self, scenario: impl AsyncFnOnce(&Rig)) {
        self.host().locks.create_table().await.unwrap();
        scenario(self).await;
    }

    async fn delete_table(&self) {
        let Table { client, name } = self.table();
        client.delete_table().table_name(name).send().await.unwrap();
    }

    /// This server tells no time, so clients go by their own clocks, and it deletes by its own: at any moment, what has expired.
    /// A client whose clock is years behind may lose its item then, in one run of many. This finds it in each.
    async fn keeps_its_items(&self) {
        let now = wall_time().as_secs();
        for item in self.items().await {
            let expiry = item.get("expires_at").and_then(|expiry| expiry.as_n().ok());
            let expiry = expiry.and_then(|expiry| expiry.parse::<u64>().ok());
            assert!(expiry.is_none_or(|expiry| expiry > now), "{item:?}");
        }
    }

    /// A clock that is right now, and counts `rate` seconds a second from here on.
    pub(crate) fn clock_at_rate(&self, rate: f64) -> Clock {
        let now = match self.is_virtual {
            true => self.clock.clone(),
            false => Clock::of_tokio(wall_time()),
        };
        now.at_rate(rate)
    }

    /// Every cell where time is virtual. Where it is real, each takes a second or more, and a brief run plays one in `brief` of them.
    pub(crate) fn sampled<T>(&self, all: impl IntoIterator<Item = T>, brief: usize) -> Vec<T> {
        let all = all.into_iter();
        match self.is_virtual {
            true => all.collect(),
            false => sampled(all, brief).collect(),
        }
    }

    /// A client with the defaults.
    pub(crate) fn host(&self) -> Host {
        self.host_with(|builder| builder)
    }

    /// A client with one slot, so that a second waiter has none.
    pub(crate) fn single(&self) -> Host {
        self.host_with(|builder| builder.successor_slots(1))
    }

    pub(crate) fn host_with(
        &self,
        set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
    ) -> Host {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let network = self.reads.watch(self.network(number));
        let builder = LockClient::builder(self.client_on(&network)).table(&self.table);
        let builder = builder.owner(format!("host-{number}"));
        let builder = builder.clock(self.clock.clone());
        let builder = builder.seeded(number as u64);
        Host {
            locks: set(builder).build().unwrap(),
            network,
        }
    }

    fn network(&self, number: usize) -> Network {
        let network = match &self.server {
            Server::Engines(engines) => Network::to(&engines[number % engines.len()]),
            Server::Unasked(engine) => Network::to(engine).rewrite(|body| {
                let fields = body.as_object_mut();
                fields.map(|fields| fields.remove("ReturnValuesOnConditionCheckFailure"));
            }),
            Server::Endpoint(_) => http::network(),
        };
        network.seeded(number as u64)
    }

    fn client_on(&self, network: &Network) -> Client {
        match &self.server {
            Server::Endpoint(url) => http::client(network, url),
            Server::Engines(_) | Server::Unasked(_) => network.client(),
        }
    }

    /// Whether refusals must show the item that refused them. Returns `None` for an endpoint, which may do either.
    pub(crate) fn shows_items(&self) -> Option<bool> {
        match &self.server {
            Server::Engines(_) => Some(true),
            Server::Unasked(_) => Some(false),
            Server::Endpoint(_) => None,
        }
    }

    /// The table, as any client with write access sees it.
    pub(crate) fn table(&self) -> Table {
        Table {
            client: self.client().0,
            name: self.table.clone(),
        }
    }

    /// A client of the SDK, on a network of its own.
    pub(crate) fn client(&self) -> (Client, Network) {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let network = self.network(number);
        (self.client_on(&network), network)
    }

    /// All items of the table.
    pub(crate) async fn items(&self) -> Vec<Item> {
        let Table { client, name } = self.table();
        let request = client.scan().table_name(name).consistent_read(true);
        request.send().await.unwrap().items.unwrap_or_default()
    }

    pub(crate) async fn put(&self, item: &Item) {
        let Table { client, name } = self.table();
        let put = client.put_item().table_name(name);
        put.set_item(Some(item.clone())).send().await.unwrap();
    }

    pub(crate) async fn delete_lock_item(&self) {
        let Table { client, name } = self.table();
        let text = |text: &str| AttributeValue::S(text.into());
        let delete = client.delete_item().table_name(name).key("pk", text("a"));
        let delete = delete.key("sk", text("fairlock/#lock"));
        delete.send().await.unwrap();
    }

    /// Waits until one item is left of all, and its lock has no holder and no waiter.
    pub(crate) async fn comes_to_rest(&self) {
        until(async || match &self.items().await[..] {
            [item] => !is_held(item) && successors(item) == 0,
            _ => false,
        })
        .await;
    }

    /// Waits for lock `a` in a task of its own. Returns when that call is in the queue, behind `before` others.
    pub(crate) async fn waits_behind(&self, before: usize, host: &Host) -> Waiting {
        let lock = host.lock();
        let waiting = async move { lock.acquire(RecordWait::Infinite).await };
        let waiting = tokio::spawn(waiting);
        let onlooker = self.host().lock();
        until(async || onlooker.inspect().await.unwrap().queue.len() > before).await;
        waiting
    }
}

/// The guard of a call that must be granted in the end.
pub(crate) async fn granted(waiting: Waiting) -> LockGuard {
    waiting.await.unwrap().unwrap()
}

/// Waits without a bound of its own: the test's bound ends it.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        sleep(20 * MS).await;
    }
}

fn wall_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

pub(crate) fn is_held(item: &Item) -> bool {
    held_in_slot(item).is_some()
}
