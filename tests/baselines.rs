//! The baselines of the contention driver are what they are said to be: the article's queue lets two in at once, and the
//! lock client's lease is taken over only from who is silent.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

#[path = "../examples/contend/contender/article.rs"]
mod article;
#[path = "../examples/contend/contender/baseline.rs"]
mod baseline;
mod common;
#[path = "../examples/contend/contender/heartbeat.rs"]
mod heartbeat;
#[path = "../examples/contend/contender/lease.rs"]
mod lease;

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use fairlock::embedded::{Engine, Fault, Gate, Network, Request, When};
use fairlock::{LockClient, TableOptions};
use tokio::task::JoinSet;
use tokio::time::Instant;

use article::Article;
use baseline::{Baseline, number, text};
use common::virtual_time;
use lease::Lease;

const LEASE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(500);

fn on(client: Client) -> Baseline {
    Baseline {
        client,
        table: "locks".into(),
        lock: "door".into(),
        lease: LEASE,
        poll: POLL,
    }
}

async fn engine() -> Engine {
    let engine = Engine::memory().unwrap();
    let locks = LockClient::builder(engine.client()).table("locks");
    let locks = locks.build().unwrap();
    locks.create_table(&TableOptions::default()).await.unwrap();
    engine
}

/// As if four tickets had been drawn.
async fn four_drawn(engine: &Engine) {
    let counter = engine.client().put_item().table_name("locks");
    let counter = counter
        .item("pk", text("ticket-master"))
        .item("sk", text("current"))
        .item("ticketNumber", number(4));
    counter.send().await.unwrap();
}

fn joins(request: &Request) -> bool {
    let row = request.key("sk");
    request.operation() == "PutItem" && row.is_some_and(|row| row.starts_with("article-queue/"))
}

/// One whose row waits at the gate.
fn held_up(engine: &Engine, gate: &Gate) -> Article {
    let at_gate = gate.clone();
    let network = Network::to(engine)
        .script(move |request| joins(request).then(|| Fault::Hold(When::Before, at_gate.clone())));
    Article(on(network.client()))
}

#[test]
fn a_later_ticket_of_the_article_enters_in_the_gap_and_the_earlier_one_enters_beside_it() {
    virtual_time(async {
        let (engine, gate) = (engine().await, Gate::closed());
        four_drawn(&engine).await;
        let slow = held_up(&engine, &gate);
        let mut entering = JoinSet::new();
        entering.spawn(async move { slow.acquire().await });
        gate.reached(1).await;
        let six = Article(on(engine.client())).acquire().await.unwrap();
        gate.open();
        let five = entering.join_next().await.unwrap().unwrap().unwrap();
        // Both hold the lock: neither has released it.
        assert_eq!((five.ticket, six.ticket), (5, 6));
        six.release().await.unwrap();
        five.release().await.unwrap();
    });
}

#[test]
fn a_later_ticket_of_the_article_waits_for_a_row_that_is_there() {
    virtual_time(async {
        let engine = engine().await;
        let first = Article(on(engine.client())).acquire().await.unwrap();
        let second = Article(on(engine.client()));
        let mut entering = JoinSet::new();
        entering.spawn(async move { second.acquire().await });
        // Ten looks.
        tokio::time::sleep(POLL * 10).await;
        assert!(entering.try_join_next().is_none());
        first.release().await.unwrap();
        let second = entering.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(second.ticket, 2);
    });
}

#[test]
fn the_article_passes_a_row_that_has_expired() {
    virtual_time(async {
        let engine = engine().await;
        let dead = engine.client().put_item().table_name("locks");
        let dead = dead
            .item("pk", text("door"))
            .item("sk", text(format!("article-queue/{:038}", 0)))
            .item("expiresAt", number(1));
        dead.send().await.unwrap();
        let row = Article(on(engine.client())).acquire().await.unwrap();
        assert_eq!(row.ticket, 1);
    });
}

#[test]
fn a_lease_that_is_renewed_is_not_taken_over_and_one_that_is_not_is_after_its_length() {
    virtual_time(async {
        let engine = engine().await;
        let first = Lease(on(engine.client())).acquire().await.unwrap();
        let second = Lease(on(engine.client()));
        let mut entering = JoinSet::new();
        entering.spawn(async move { second.acquire().await });
        tokio::time::sleep(LEASE * 3).await;
        assert!(entering.try_join_next().is_none());
        let died = Instant::now();
        drop(first);
        let second = entering.join_next().await.unwrap().unwrap().unwrap();
        // It was seen with its last version a heartbeat ago at the most.
        let took = died.elapsed();
        assert!(
            (LEASE * 3 / 4..LEASE + 3 * POLL).contains(&took),
            "{took:?}"
        );
        second.release().await.unwrap();
    });
}

#[test]
fn a_lease_that_was_taken_over_is_lost_and_its_release_takes_nothing_away() {
    virtual_time(async {
        let engine = engine().await;
        let mute = Network::to(&engine).script(|request| {
            let renews = request.operation() == "UpdateItem";
            renews.then_some(Fault::Lose(When::Before))
        });
        let silent = Lease(on(mute.client())).acquire().await.unwrap();
        let heir = Lease(on(engine.client())).acquire().await.unwrap();
        assert!(silent.release().await.is_err());
        heir.release().await.unwrap();
    });
}
