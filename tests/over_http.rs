//! Locks over real HTTP, on an engine that is none of ours: AWS's DynamoDB Local, or whatever answers at
//! `FAIRLOCK_TEST_ENDPOINT`. Without that variable these tests say so and pass; `scripts/dynamodb-local` sets it.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod common;

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use common::real_time;
use fairlock::embedded::{Faults, Network};
use fairlock::{
    Error, FairLock, Finding, LockClient, LockClientBuilder, Problem, RecordWait, SweepOptions,
    TableOptions,
};
use futures::future::join_all;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A table of a test's own.
struct Place {
    url: String,
    table: String,
}

/// Runs a test in a fresh table, which goes with it, or says why not.
fn over_http(name: &str, test: impl AsyncFnOnce(&Place)) {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let Some(url) = endpoint() else {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            say("over HTTP: all tests skipped, for FAIRLOCK_TEST_ENDPOINT is not set");
        });
        return;
    };
    let table = format!("fairlock-{}-{name}", std::process::id());
    let place = Place { url, table };
    real_time(async {
        let options = TableOptions::default();
        place.locks().create_table(&options).await.unwrap();
        test(&place).await;
        let request = place.dynamodb().delete_table().table_name(&place.table);
        request.send().await.unwrap();
    });
    let ran = RAN.fetch_add(1, Ordering::SeqCst) + 1;
    say(&format!("over HTTP: {ran} tests ran"));
}

fn endpoint() -> Option<String> {
    let set = std::env::var("FAIRLOCK_TEST_ENDPOINT").ok();
    set.filter(|url| !url.is_empty())
}

/// Not `println!`, whose words the harness keeps to itself while tests pass.
fn say(words: &str) {
    let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
}

impl Place {
    fn network(&self) -> Network {
        let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        Network::over(https.build_https())
    }

    fn dynamodb(&self) -> Client {
        self.dynamodb_on(&self.network())
    }

    fn dynamodb_on(&self, network: &Network) -> Client {
        let config = network.client().config().to_builder();
        Client::from_conf(config.endpoint_url(&self.url).build())
    }

    fn builder(&self, network: &Network) -> LockClientBuilder {
        LockClient::builder(self.dynamodb_on(network)).table(&self.table)
    }

    fn locks(&self) -> LockClient {
        self.builder(&self.network()).build().unwrap()
    }

    /// Lock `a`, through a client of its own.
    fn lock(&self) -> FairLock {
        self.locks().fair_lock("a").unwrap()
    }

    async fn items(&self) -> Vec<HashMap<String, AttributeValue>> {
        let request = self.dynamodb().scan().table_name(&self.table);
        let request = request.consistent_read(true);
        request.send().await.unwrap().items.unwrap_or_default()
    }

    /// Whether the lock item is alone, and nobody has or awaits the lock.
    async fn is_at_rest(&self) -> bool {
        match &self.items().await[..] {
            [item] => !is_held(item) && heirs(item) == 0,
            _ => false,
        }
    }

    /// The bound is that of the test.
    async fn comes_to_rest(&self) {
        while !self.is_at_rest().await {
            sleep(20 * MS).await;
        }
    }
}

fn is_held(item: &HashMap<String, AttributeValue>) -> bool {
    let holder = item["holder"].as_m().unwrap();
    holder.contains_key("nonce")
}

fn heirs(item: &HashMap<String, AttributeValue>) -> usize {
    item["heirs"].as_l().unwrap().len()
}

#[test]
fn a_table_is_made_once_and_found_fit() {
    over_http("table", async |place| {
        let locks = place.locks();
        let options = TableOptions::default();
        locks.create_table(&options).await.unwrap();
        let report = locks.check_table().await.unwrap();
        assert!(report.is_fit(), "{report}");
        let elsewhere = place.builder(&place.network()).table("no-such-table");
        let report = elsewhere.build().unwrap().check_table().await.unwrap();
        assert_eq!(report.findings[0], Finding::NoTable, "{report}");
    });
}

#[test]
fn an_uncontended_turn_is_two_requests_and_leaves_one_item() {
    over_http("turn", async |place| {
        let network = place.network();
        let locks = place.builder(&network).build().unwrap();
        let lock = locks.fair_lock("a").unwrap();
        let guard = lock.acquire(RecordWait::default()).await.unwrap();
        assert!(guard.is_held());
        let first = guard.ticket();
        guard.release().await.unwrap();
        assert_eq!(network.counts().requests(), 2, "{:?}", network.counts());
        assert!(place.is_at_rest().await);
        let guard = lock.acquire(RecordWait::default()).await.unwrap();
        assert!(guard.ticket() > first);
        guard.release().await.unwrap();
    });
}

#[test]
fn no_wait_on_a_held_lock_is_refused_at_once_and_names_the_holder() {
    over_http("no-wait", async |place| {
        let guard = place.lock().acquire(RecordWait::NoWait).await.unwrap();
        let before = place.items().await;
        let network = place.network();
        let other = place.builder(&network).build().unwrap();
        let other = other.fair_lock("a").unwrap();
        let refused = other.acquire(RecordWait::NoWait).await.unwrap_err();
        let Error::NotGranted {
            holder: Some(holder),
            place: None,
            ..
        } = &refused
        else {
            panic!("{refused}")
        };
        assert_eq!(holder.ticket, guard.ticket());
        // An engine that shows no item with a failed condition is asked for it.
        let requests = network.counts().requests();
        assert!((1..=2).contains(&requests), "{:?}", network.counts());
        assert_eq!(place.items().await, before);
        guard.release().await.unwrap();
        let guard = other.try_acquire().await.unwrap().unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn eight_workers_take_ten_turns_each_in_the_order_of_their_tickets_and_never_two_at_once() {
    over_http("order", async |place| {
        let (inside, granted) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let workers = (0..8).map(|_| {
            let (lock, inside, granted) = (place.lock(), &inside, &granted);
            async move {
                for _ in 0..10 {
                    let guard = lock.acquire(RecordWait::default()).await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    granted.lock().unwrap().push(guard.ticket());
                    sleep(5 * MS).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            }
        });
        join_all(workers).await;
        let granted = granted.lock().unwrap().clone();
        assert_eq!(granted.len(), 80);
        assert!(granted.is_sorted_by(|a, b| a < b), "{granted:?}");
        place.comes_to_rest().await;
    });
}

#[test]
fn a_wait_that_times_out_says_so_in_time_and_leaves_nothing() {
    over_http("timeout", async |place| {
        let guard = place.lock().acquire(RecordWait::NoWait).await.unwrap();
        // More than there are seats, so that some wait in the line behind them.
        let waits = (0..6).map(|_| {
            let lock = place.lock();
            async move {
                let started = Instant::now();
                let refused = lock.acquire(RecordWait::Timeout(SECOND)).await.unwrap_err();
                (refused, started.elapsed())
            }
        });
        for (refused, took) in join_all(waits).await {
            assert!(matches!(refused, Error::NotGranted { .. }), "{refused}");
            assert!((SECOND..4 * SECOND).contains(&took), "{took:?}");
        }
        while heirs(&place.items().await[0]) > 0 {
            sleep(20 * MS).await;
        }
        assert!(guard.is_held());
        guard.release().await.unwrap();
        let guard = place.lock().acquire(RecordWait::default()).await.unwrap();
        guard.release().await.unwrap();
        place.comes_to_rest().await;
    });
}

#[test]
fn a_release_hands_the_lock_to_the_next_in_line() {
    over_http("release", async |place| {
        let guard = place.lock().acquire(RecordWait::NoWait).await.unwrap();
        let (lock, ticket) = (place.lock(), guard.ticket());
        let waiting = lock.acquire(RecordWait::Infinite);
        let release = async {
            while heirs(&place.items().await[0]) == 0 {
                sleep(20 * MS).await;
            }
            guard.release().await.unwrap();
            // In the very write of the release, before the heir has looked.
            let item = &place.items().await[0];
            assert!(is_held(item) && heirs(item) == 0, "{item:?}");
        };
        let (next, ()) = tokio::join!(waiting, release);
        let next = next.unwrap();
        assert!(next.ticket() > ticket);
        next.release().await.unwrap();
        place.comes_to_rest().await;
    });
}

#[test]
fn a_sweep_removes_a_holder_that_died_and_no_other() {
    over_http("sweep", async |place| {
        let network = place.network();
        let dead = place.builder(&network).lease(SECOND).build();
        let dead = dead.unwrap().fair_lock("a").unwrap();
        let dead = dead.acquire(RecordWait::NoWait).await.unwrap();
        let other = place.locks().fair_lock("b").unwrap();
        let alive = other.acquire(RecordWait::NoWait).await.unwrap();
        network.set_faults(Faults {
            lost_requests: 1.0,
            ..Faults::default()
        });
        // An engine whose answers have no date leaves it to a sweeper that goes on to time the dead.
        let sweeping = place.locks();
        let sweeper = sweeping.start_sweeper(SweepOptions::every(SECOND)).unwrap();
        let died = Instant::now();
        while place
            .items()
            .await
            .iter()
            .filter(|item| is_held(item))
            .count()
            > 1
        {
            sleep(100 * MS).await;
        }
        assert!(died.elapsed() < 30 * SECOND, "{:?}", died.elapsed());
        sweeper.stop().await;
        assert_eq!(other.sweep().await.unwrap().holders, 0);
        assert!(alive.is_held());
        alive.release().await.unwrap();
        dead.lost().await;
        let lock = sweeping.fair_lock("a").unwrap();
        let guard = lock.try_acquire().await.unwrap().unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn an_item_of_a_newer_format_is_not_written_to() {
    over_http("format", async |place| {
        let guard = place.lock().acquire(RecordWait::NoWait).await.unwrap();
        guard.release().await.unwrap();
        let mut item = place.items().await.remove(0);
        item.insert("format".into(), AttributeValue::N("2".into()));
        let put = place.dynamodb().put_item().table_name(&place.table);
        put.set_item(Some(item.clone())).send().await.unwrap();
        for wait in [
            RecordWait::NoWait,
            RecordWait::Timeout(SECOND),
            RecordWait::Infinite,
        ] {
            let refused = place.lock().acquire(wait).await.unwrap_err();
            let Error::Unreadable { problem, .. } = &refused else {
                panic!("{refused}")
            };
            assert_eq!(*problem, Problem::NewerFormat { found: 2, known: 1 });
        }
        assert_eq!(place.items().await, [item]);
    });
}
