//! Callers that never wait are neither shut out by those who are over, nor go before those who are not.
#![cfg(feature = "embedded")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tasks and helpers of a test that cannot go on has failed the test"
)]

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/verbs.rs"]
mod verbs;

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use common::virtual_time;
use fairlock::embedded::{Fault, Gate, When};
use fairlock::{Error, LockGuard, RecordWait};
use futures::future::join_all;
use lab::{EPOCH, Host, Lab, acquire, cut_off};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use verbs::meets;

const SECOND: Duration = Duration::from_secs(1);

fn acquires(host: &Host, wait: RecordWait) -> JoinHandle<Result<LockGuard, Error>> {
    let lock = host.locks.fair_lock("a").unwrap();
    tokio::spawn(async move { lock.acquire(wait).await })
}

async fn try_acquire(host: &Host) -> Option<LockGuard> {
    let lock = host.locks.fair_lock("a").unwrap();
    lock.try_acquire().await.unwrap()
}

/// How many calls it takes, a minute apart.
async fn calls_until_granted(lab: &Lab, host: &Host) -> usize {
    for call in 1..=20 {
        lab.wait(60 * SECOND).await;
        if try_acquire(host).await.is_some() {
            return call;
        }
    }
    usize::MAX
}

/// Adds to the tickets drawn, whose drawers never came with a row.
async fn draw_and_die(lab: &Lab, tickets: u64) {
    let number = |value: u64| AttributeValue::N(value.to_string());
    let text = |value: &str| AttributeValue::S(value.into());
    let update = lab.engine.client().update_item().table_name("locks");
    let update = update
        .key("pk", text("a"))
        .key("sk", text("fairlock/#lock"))
        .update_expression("SET #last = #last + :tickets, drawn_at = :at")
        .expression_attribute_names("#last", "last")
        .expression_attribute_values(":tickets", number(tickets))
        .expression_attribute_values(":at", number(EPOCH.as_millis() as u64));
    update.send().await.unwrap();
}

#[test]
fn hundreds_who_left_the_line_are_passed_in_one_call() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, leaving) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        let wait = RecordWait::Timeout(10 * SECOND);
        let left = join_all((0..320).map(|_| acquires(&leaving, wait))).await;
        assert!(left.iter().all(|ended| ended.as_ref().unwrap().is_err()));
        lab.wait(20 * SECOND).await;
        guard.release().await.unwrap();
        lab.wait(20 * SECOND).await;
        assert_eq!(calls_until_granted(&lab, &host).await, 1);
    });
}

#[test]
fn a_thousand_who_drew_and_died_are_passed_in_a_few_calls() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        acquire(&host).await.release().await.unwrap();
        draw_and_die(&lab, 1000).await;
        lab.wait(100 * SECOND).await;
        let calls = calls_until_granted(&lab, &host).await;
        assert!(calls <= 3, "{calls}");
        let lock = host.locks.fair_lock("a").unwrap();
        lock.sweep().await.unwrap();
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    });
}

#[test]
fn a_lock_item_full_of_the_dead_is_cleared_in_one_call_with_as_many_seats_as_there_can_be() {
    for seats in [15, 16] {
        virtual_time(async {
            let lab = Lab::new().await;
            let dead = lab.host_with(|builder| builder.seats(seats));
            for _ in 0..=seats {
                // Whoever is granted holds on: the guard goes with the test.
                let acquiring = acquires(&dead, RecordWait::Infinite);
                tokio::spawn(async move { std::mem::forget(acquiring.await) });
                lab.wait(SECOND).await;
            }
            dead.network.set_faults(cut_off());
            lab.wait(60 * SECOND).await;
            let host = lab.host_with(|builder| builder.seats(seats));
            assert!(try_acquire(&host).await.is_some(), "{seats} seats");
        });
    }
}

#[test]
fn one_who_has_just_drawn_and_not_joined_yet_keeps_the_turn() {
    for sweeps in [false, true] {
        virtual_time(async {
            let lab = Lab::new().await;
            let hosts: Vec<_> = (0..3)
                .map(|_| lab.host_with(|builder| builder.seats(1)))
                .collect();
            // Both have seen a `Date`.
            let _ = try_acquire(&hosts[2]).await;
            let guard = acquire(&hosts[0]).await;
            let heir = acquires(&hosts[1], RecordWait::Infinite);
            lab.wait(SECOND).await;
            let gate = Gate::closed();
            let held = Fault::Hold(When::Before, gate.clone());
            meets(&hosts[2].network, "join", usize::MAX, held);
            let drawer = acquires(&hosts[2], RecordWait::Infinite);
            gate.reached(1).await;
            heir.abort();
            guard.release().await.unwrap();
            lab.wait(4 * SECOND).await;
            let other = lab.host_with(|builder| builder.seats(1));
            let lock = other.locks.fair_lock("a").unwrap();
            let drawn = lock.inspect().await.unwrap().newest_ticket;
            if sweeps {
                let swept = lock.sweep().await.unwrap();
                assert_eq!(swept.gaps, 0);
            }
            assert!(try_acquire(&other).await.is_none());
            gate.open();
            let guard = drawer.await.unwrap().unwrap();
            assert_eq!(Some(guard.ticket()), drawn);
            guard.release().await.unwrap();
            assert!(try_acquire(&other).await.is_some());
        });
    }
}

#[test]
fn a_silent_table_ends_the_call_within_five_request_timeouts() {
    for verb in ["enter", "evict", "read line"] {
        virtual_time(async {
            let lab = Lab::new().await;
            let (dead, host) = (lab.host(), lab.host());
            let guard = acquire(&dead).await;
            lab.wait(5 * SECOND).await;
            draw_and_die(&lab, 3).await;
            dead.network.set_faults(cut_off());
            lab.wait(60 * SECOND).await;
            meets(&host.network, verb, usize::MAX, Fault::Hang(When::Before));
            let started = Instant::now();
            let lock = host.locks.fair_lock("a").unwrap();
            let refused = lock.acquire(RecordWait::NoWait).await.unwrap_err();
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
            assert!(started.elapsed() <= 10 * SECOND, "{:?}", started.elapsed());
            drop(guard);
        });
    }
}
