//! A sweep removes what is settled or dead, and nothing else, whatever happens at the same time.

mod refused;
mod shared;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Request};
use fairlock::{Error, HeldLocks, RecordWait};
use futures::StreamExt;
use tokio::time::sleep;

use fairlock_testkit::lab::SECOND;
use fairlock_testkit::sweep_fixture::*;
use fairlock_testkit::sweeps::{Sweeping, sweep_table};
use fairlock_testkit::virtual_time;

#[test]
fn a_crashed_holder_is_evicted_and_the_lock_is_free() {
    in_world(async |world| {
        let crashed = world.crashable().await;
        let _guard = crashed.take("a").await;
        crashed.crash();
        assert_eq!(world.sweep("a").await, nothing());
        sleep(DEATH).await;
        let swept = world.sweep("a").await;
        assert_eq!(swept.to_string(), "removed 1 dead holders");
        let lock = world.client().await.fair_lock("a").unwrap();
        assert!(lock.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn all_who_died_go_in_one_sweep_and_one_item_is_left() {
    in_world(async |world| {
        let (mut crashables, mut taking) = (Vec::new(), Vec::new());
        // A holder, two successors, two in the queue.
        for _ in 0..5 {
            let client = world.crashable().await;
            taking.push(client.take("a").await);
            crashables.push(client);
        }
        let lost = world.dies_before_it_joins().await.fair_lock("a").unwrap();
        taking.push(spawn(
            async move { lost.acquire(RecordWait::Infinite).await },
        ));
        sleep(SECOND).await;
        crashables.iter().for_each(Crashable::crash);
        sleep(DEATH).await;
        let swept = world.sweep("a").await;
        assert_eq!((swept.holders + swept.successors, swept.waiters), (3, 2));
        assert_eq!((swept.gaps, swept.rows, swept.locks), (1, 3, 0));
        assert_eq!(world.left_of("a").await, ["fairlock/#lock"]);
        assert_eq!(world.sweep("a").await, nothing());
    });
}

#[test]
fn those_who_waited_together_and_died_go_as_one_from_a_slot_and_from_a_row() {
    in_world(async |world| {
        let holder = world.client().await.fair_lock("a").unwrap();
        let guard = holder.try_acquire().await.unwrap().unwrap();
        let crashables = [world.crashable().await, world.crashable().await];
        let mut taking = Vec::new();
        for client in &crashables {
            for _ in 0..5 {
                let lock = client.locks.fair_lock("a").unwrap();
                taking.push(spawn(
                    async move { lock.acquire(RecordWait::Infinite).await },
                ));
            }
            sleep(SECOND).await;
            // The first of five stands alone.
            client.crash();
        }
        sleep(DEATH).await;
        let swept = world.sweep("a").await;
        assert_eq!((swept.successors, swept.waiters, swept.gaps), (2, 2, 0));
        assert_eq!(world.left_of("a").await, ["fairlock/#lock"]);
        assert_eq!(world.sweep("a").await, nothing());
        assert!(guard.is_held());
        guard.release().await.unwrap();
        assert!(holder.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn one_who_never_knew_the_time_is_found_dead_by_being_watched() {
    virtual_time(async {
        let world = World::on(Engine::without_date).await;
        let crashed = world.crashable().await;
        let _guard = crashed.take("a").await;
        let lost = world.dies_before_it_joins().await.fair_lock("a").unwrap();
        world.draw("a", 1).await;
        crashed.crash();
        sleep(10 * DEATH).await;
        assert_eq!(world.sweep("a").await, nothing());
        let client = world.client().await;
        let _sweeping = Sweeping::of(&client, OFTEN);
        sleep(30 * SECOND).await;
        assert!(
            lost.try_acquire().await.unwrap().is_none(),
            "not yet a lease"
        );
        sleep(10 * SECOND).await;
        assert!(lost.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn a_stream_of_sweeps_remembers_what_it_saw_and_reports_each() {
    virtual_time(async {
        let world = World::on(Engine::without_date).await;
        let crashed = world.crashable().await;
        let _guard = crashed.take("a").await;
        crashed.crash();
        let client = world.client().await;
        let mut sweeps = client.sweeps(OFTEN).unwrap();
        let began = world.time();
        let first = sweeps.next().await.unwrap().unwrap();
        assert_eq!((first.locks, first.removed), (1, nothing()));
        assert!(world.time() - began < OFTEN / 2, "it does not wait first");
        // The loop ends when the holder has been seen to stand still for a lease.
        while sweeps.next().await.unwrap().unwrap().removed.holders == 0 {}
        let took = world.time() - began;
        assert!((30 * SECOND..60 * SECOND).contains(&took), "{took:?}");
        // The stream goes on after an error, and ends with the client.
        let short = client.sweeps(SECOND / 2);
        assert!(matches!(short.map(drop), Err(Error::Invalid(_))));
        client.shutdown(HeldLocks::Release, SECOND).await;
        assert!(sweeps.next().await.is_none());
    });
}

#[test]
fn settled_rows_beyond_many_pages_is_removed_under_a_living_holder() {
    in_world(async |world| {
        let holder = world.client().await.fair_lock("a").unwrap();
        let guard = holder.try_acquire().await.unwrap().unwrap();
        for behind in 0..150 {
            world.put_void("a", guard.ticket().get() - behind).await;
        }
        let swept = world.sweep("a").await;
        assert_eq!((swept.rows, swept.has_more), (150, false));
        assert_eq!(world.left_of("a").await, ["fairlock/#lock"]);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_damaged_counter_is_swept_by_one_row_whatever_it_says() {
    in_world(async |world| {
        let holder = world.client().await.fair_lock("a").unwrap();
        let guard = holder.try_acquire().await.unwrap().unwrap();
        guard.release().await.unwrap();
        world.date_draws("a").await;
        world.draw("a", 1 << 40).await;
        sleep(DEATH).await;
        let swept = world.sweep("a").await;
        assert_eq!((swept.gaps, swept.rows), (1 << 40, 1), "{swept}");
        assert_eq!(world.left_of("a").await, ["fairlock/#lock"]);
        assert!(holder.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn a_queue_whose_lock_item_is_gone_is_swept_a_bounded_piece_at_a_time() {
    in_world(async |world| {
        for ticket in 1..=150 {
            world.put_void("a", ticket).await;
        }
        let swept = world.sweep("a").await;
        assert_eq!((swept.rows, swept.has_more), (100, true), "{swept}");
        assert!(swept.to_string().ends_with("there is more"));
        assert_eq!(world.sweep("a").await.rows, 50);
    });
}

#[test]
fn rows_without_a_lock_item_go_unless_somebody_alive_waits_there() {
    in_world(async |world| {
        world.put_void("a", 1).await;
        world.put_void("a", 2).await;
        let client = world.engine.client();
        let entry = HashMap::from([
            ("nonce".to_owned(), text(&"0".repeat(32))),
            ("owner".to_owned(), text("somebody")),
            ("beat".to_owned(), number(3)),
            ("lease_ms".to_owned(), number(30_000)),
            ("permits".to_owned(), number(64)),
        ]);
        let request = client.put_item().table_name("fairlock");
        let request = request.item("pk", text("a")).item("sk", text(&row(3)));
        let request = request.item("state", text("waiting"));
        let request = request.item("entry", AttributeValue::M(entry));
        request.send().await.unwrap();
        let swept = sweep_table(&world.client().await).await;
        assert_eq!(swept.unwrap().removed.rows, 2);
        assert_eq!(world.left_of("a").await, [row(3)]);
    });
}

/// A waiter behind more void rows than a page shows, and a gap after those.
#[test]
fn a_gap_behind_a_page_of_void_rows_closes_for_waiters_too() {
    in_world(async |world| {
        let holder = world.client().await.fair_lock("a").unwrap();
        let guard = holder.try_acquire().await.unwrap().unwrap();
        world.draw("a", 41).await;
        for void in 1..=40 {
            world.put_void("a", guard.ticket().get() + void).await;
        }
        let waiter = world.client().await.fair_lock("a").unwrap();
        let wait = RecordWait::Timeout(60 * SECOND);
        let waiting = spawn(async move { waiter.acquire(wait).await });
        sleep(SECOND).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    });
}

fn updates(request: &Request) -> bool {
    request.operation() == "UpdateItem"
}

/// A renewal of the entry at a place, as its owner would make it.
async fn renew(world: &World, place: &str, entry: &str) {
    let update = format!("SET {entry}.beat = {entry}.beat + :by, {entry}.renewed_at = :now");
    let now = u64::try_from(world.time().as_millis()).unwrap();
    let request = world.engine.client().update_item().table_name("fairlock");
    let request = request.key("pk", text("a")).key("sk", text(place));
    let request = request.update_expression(update);
    let request = request.expression_attribute_values(":by", number(1));
    let request = request.expression_attribute_values(":now", number(now));
    request.send().await.unwrap();
}

#[test]
fn a_renewal_between_poll_and_removal_saves_a_holder_a_successor_and_a_waiter() {
    for (crashed, entry) in [(0, "slots[0]"), (1, "slots[1]"), (3, "entry")] {
        in_world(async |world| {
            let mut clients = Vec::new();
            for _ in 0..=crashed {
                let client = world.crashable().await;
                let taking = client.take("a").await;
                clients.push((client, taking));
            }
            clients[crashed].0.crash();
            sleep(DEATH).await;
            let place = world.left_of("a").await.pop().unwrap();
            let touch = || renew(world, &place, entry);
            let swept = swept_despite(world, updates, touch).await;
            assert_eq!(swept, nothing(), "{entry}");
            assert_eq!(world.sweep("a").await, nothing(), "{entry}");
            assert!(world.left_of("a").await.contains(&place), "{entry}");
            sleep(DEATH).await;
            let swept = world.sweep("a").await;
            let swept = swept.holders + swept.successors + swept.waiters;
            assert_eq!(swept, 1, "{entry}");
        });
    }
}

#[test]
fn a_row_that_came_between_poll_and_removal_is_no_gap() {
    in_world(async |world| {
        let holder = world.client().await.fair_lock("a").unwrap();
        let guard = holder.try_acquire().await.unwrap().unwrap();
        world.date_draws("a").await;
        world.draw("a", 1).await;
        sleep(DEATH).await;
        let gap = guard.ticket().get() + 1;
        let puts = |request: &Request| request.operation() == "PutItem";
        let swept = swept_despite(world, puts, || world.put_void("a", gap)).await;
        assert_eq!(swept.gaps, 0);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_settled_row_that_changed_between_poll_and_removal_is_looked_at_again() {
    in_world(async |world| {
        let holder = world.client().await.fair_lock("a").unwrap();
        let guard = holder.try_acquire().await.unwrap().unwrap();
        world.put_void("a", guard.ticket().get()).await;
        let place = row(guard.ticket().get());
        let touch = || async {
            let request = world.engine.client().update_item().table_name("fairlock");
            let request = request.key("pk", text("a")).key("sk", text(&place));
            let request = request.update_expression("SET #state = :other");
            let request = request.expression_attribute_names("#state", "state");
            let request = request.expression_attribute_values(":other", text("other"));
            request.send().await.unwrap();
        };
        let swept = swept_despite(world, deletes, touch).await;
        assert_eq!(swept.rows, 0);
        assert!(world.left_of("a").await.contains(&place));
        guard.release().await.unwrap();
    });
}
