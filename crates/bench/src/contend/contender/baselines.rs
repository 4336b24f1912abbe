//! The baselines of the contention driver behave as described. The article's queue lets two in at once, also with one ticket for two locks.
//! The lock client's lease is taken over only from a silent holder.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use fairlock::embedded::{Engine, Fault, Gate, Network, Request, When};
use fairlock::{LockClient, MultiLock, RecordWait};
use fairlock_testkit::virtual_time;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::article::{Article, Row};
use super::baseline::{Baseline, number, text, unless_refused};
use super::lease::Lease;

const LEASE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(500);
/// Longer than any wait that ends.
const FOR_EVER: Duration = Duration::from_secs(600);

fn on(client: Client) -> Baseline {
    of("door", client)
}

fn of(lock: &str, client: Client) -> Baseline {
    Baseline {
        client,
        table: "locks".into(),
        lock: lock.into(),
        lease: LEASE,
        poll: POLL,
    }
}

async fn engine() -> Engine {
    let engine = Engine::memory().unwrap();
    let locks = LockClient::builder(engine.client()).table("locks");
    let locks = locks.build().unwrap();
    locks.create_table().await.unwrap();
    engine
}

/// Creates the counter as if four tickets had been drawn.
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

/// A contender whose row is held at the gate.
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
        // Ten polls.
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

/// A client that wants both locks `a` and `b`, with one ticket for both.
struct OneTicket {
    a: Article,
    b: Article,
    ticket: u64,
}

impl OneTicket {
    async fn drawn(engine: &Engine) -> OneTicket {
        let article = |lock| Article(of(lock, engine.client()));
        let (a, b) = (article("a"), article("b"));
        let ticket = a.draw().await.unwrap();
        OneTicket { a, b, ticket }
    }
}

#[test]
fn one_ticket_of_the_article_for_two_locks_lets_two_into_one_of_them() {
    virtual_time(async {
        let engine = engine().await;
        four_drawn(&engine).await;
        let five = OneTicket::drawn(&engine).await;
        let six = OneTicket::drawn(&engine).await;
        // The later ticket heads `b`. The earlier one comes to both locks after that.
        let six_b = six.b.enter(six.ticket).await.unwrap();
        let five_a = five.a.enter(five.ticket).await.unwrap();
        let five_b = five.b.enter(five.ticket).await.unwrap();
        // No client waits in a circle, because both are in `b`.
        assert_eq!((five_b.ticket, six_b.ticket), (5, 6));
        five_a.release().await.unwrap();
        let six_a = six.a.enter(six.ticket).await.unwrap();
        for row in [five_b, six_a, six_b] {
            row.release().await.unwrap();
        }
    });
}

/// The article's queue without its gap: the first ticket marks itself as the holder, if there is none. If there is one, it waits.
async fn enter_alone(article: &Article, ticket: u64) -> Row {
    let row = article.enter(ticket).await.unwrap();
    let Baseline {
        client,
        table,
        lock,
        poll,
        ..
    } = &article.0;
    loop {
        let mark = client.put_item().table_name(table);
        let mark = mark.item("pk", text(lock)).item("sk", text("holder"));
        let mark = mark.condition_expression("attribute_not_exists(pk)");
        if unless_refused(mark.send().await).unwrap().is_some() {
            return row;
        }
        tokio::time::sleep(*poll).await;
    }
}

#[test]
fn one_ticket_for_two_locks_that_let_one_in_ends_in_a_deadlock() {
    virtual_time(async {
        let engine = engine().await;
        four_drawn(&engine).await;
        let five = OneTicket::drawn(&engine).await;
        let six = OneTicket::drawn(&engine).await;
        let _six_b = enter_alone(&six.b, six.ticket).await;
        let _five_a = enter_alone(&five.a, five.ticket).await;
        tokio::select! {
            biased;
            // It stands before the mark of six, and behind it in its own right.
            _ = enter_alone(&five.b, five.ticket) => panic!("it had b"),
            // It stands behind the row of five.
            _ = enter_alone(&six.a, six.ticket) => panic!("it had a"),
            () = tokio::time::sleep(FOR_EVER) => {}
        }
    });
}

/// A client of fairlock that wants `a` and `b`.
fn both(network: &Network, named: [&str; 2]) -> MultiLock {
    let locks = LockClient::builder(network.client()).table("locks");
    locks.build().unwrap().multi_lock(named).unwrap()
}

#[test]
fn several_locks_of_fairlock_that_two_name_the_other_way_round_are_had_by_both() {
    virtual_time(async {
        let (engine, gate) = (engine().await, Gate::closed());
        let at_gate = gate.clone();
        let held_up_at_b = Network::to(&engine).script(move |request| {
            let is_b = request.key("pk") == Some("b");
            is_b.then(|| Fault::Hold(When::Before, at_gate.clone()))
        });
        let free = Network::to(&engine);
        let (five, six) = (both(&held_up_at_b, ["a", "b"]), both(&free, ["b", "a"]));
        let (mut has_a, mut waits) = (JoinSet::new(), JoinSet::new());
        has_a.spawn(async move { five.acquire(RecordWait::Infinite).await });
        gate.reached(1).await;
        waits.spawn(async move { six.acquire(RecordWait::Infinite).await });
        tokio::time::sleep(POLL * 2).await;
        gate.open();
        let five = has_a.join_next().await.unwrap().unwrap().unwrap();
        tokio::time::sleep(POLL * 2).await;
        assert!(waits.try_join_next().is_none());
        five.release().await.unwrap();
        let six = waits.join_next().await.unwrap().unwrap().unwrap();
        six.release().await.unwrap();
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
        // Its last version was seen a heartbeat ago at most.
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
        let successor = Lease(on(engine.client())).acquire().await.unwrap();
        assert!(silent.release().await.is_err());
        successor.release().await.unwrap();
    });
}
