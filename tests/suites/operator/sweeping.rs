//! Whole tables are swept, once or again and again, and unused locks are removed.

use std::time::Duration;

use fairlock::embedded::Network;
use fairlock::{FairLock, HeldLocks, LockClient, RecordWait};
use futures::StreamExt;
use tokio::time::sleep;

use fairlock_testkit::lab::SECOND;
use fairlock_testkit::sweep_fixture::*;
use fairlock_testkit::sweeps::{Sweeping, sweep_table};

async fn turn(lock: &FairLock) {
    let guard = lock.try_acquire().await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[test]
fn a_lock_that_is_held_or_was_used_meanwhile_is_not_idle() {
    in_world(async |world| {
        let lock = world.client().await.fair_lock("a").unwrap();
        turn(&lock).await;
        sleep(8 * DAY).await;
        let touch = || turn(&lock);
        assert_eq!(swept_despite(world, deletes, touch).await, nothing());
        let guard = lock.try_acquire().await.unwrap().unwrap();
        sleep(8 * DAY / 100).await;
        let locks = world.client().await;
        let swept = sweep_table(&locks).await.unwrap();
        assert_eq!(swept.removed, nothing());
        guard.release().await.unwrap();
    });
}

#[test]
fn a_host_whose_clock_is_ahead_does_not_remove_idle_locks_early() {
    in_world(async |world| {
        let lock = world.client().await.fair_lock("a").unwrap();
        turn(&lock).await;
        let ahead = LockClient::builder(world.engine.client());
        let ahead = ahead.clock(world.clock.clone().ahead(30 * DAY));
        let ahead = ahead.build().unwrap();
        let swept = sweep_table(&ahead).await.unwrap();
        assert_eq!(swept.removed, nothing());
    });
}

#[test]
fn an_idle_semaphore_goes_after_its_retention_and_may_have_another_number_then() {
    in_world(async |world| {
        let locks = world.client().await;
        let five = locks.semaphore("a", 5).unwrap();
        let permits = [
            five.acquire(RecordWait::NoWait).await.unwrap(),
            five.acquire_many(2, RecordWait::NoWait).await.unwrap(),
        ];
        let tickets = permits.each_ref().map(|permit| permit.ticket());
        for permit in permits {
            permit.release().await.unwrap();
        }
        let six = locks.semaphore("a", 6).unwrap();
        assert!(six.acquire(RecordWait::NoWait).await.is_err());
        sleep(7 * DAY + 5 * SECOND).await;
        let swept = sweep_table(&locks).await.unwrap();
        assert_eq!(swept.removed.locks, 1);
        assert!(world.left_of("a").await.is_empty());
        let permit = six.acquire(RecordWait::NoWait).await.unwrap();
        assert!(tickets.iter().all(|before| *before < permit.ticket()));
    });
}

#[test]
fn a_lock_that_only_those_have_who_came_beside_its_holder_is_not_idle() {
    in_world(async |world| {
        let locks = world.client().await;
        let five = locks.semaphore("a", 5).unwrap();
        let first = five.acquire(RecordWait::NoWait).await.unwrap();
        let second = five.acquire(RecordWait::NoWait).await.unwrap();
        first.release().await.unwrap();
        // As if the item had not been written for a long time.
        world.set("a", "expires_at", 1_000).await;
        world.set("a", "last", 1_000).await;
        world.set("a", "watermark", 1_000).await;
        let item = world.lock_item("a").await;
        let mut names = item.keys();
        let nonce = names.find(|name| name.len() == 32).unwrap();
        world.set("a", nonce, 999).await;
        let swept = sweep_table(&locks).await.unwrap();
        assert_eq!((swept.removed, swept.failed), (nothing(), 0));
        assert!(second.is_held());
        let ticket = second.ticket().get();
        world.set("a", nonce, ticket).await;
        second.release().await.unwrap();
    });
}

#[test]
fn data_stays_for_the_idle_retention_of_its_lock_and_goes_with_it() {
    in_world(async |world| {
        let locks = world.client().await;
        let lock = locks.fair_lock("a").unwrap();
        let guard = lock.try_acquire().await.unwrap().unwrap();
        guard.set_data("cursor").await.unwrap();
        guard.release().await.unwrap();
        // Each turn counts as a use of the lock.
        for _ in 0..2 {
            sleep(6 * DAY).await;
            let swept = sweep_table(&locks).await.unwrap();
            assert_eq!(swept.removed, nothing());
            turn(&lock).await;
        }
        let data = lock.inspect().await.unwrap().data.unwrap();
        assert_eq!(data.bytes.to_vec(), b"cursor");
        sleep(7 * DAY + 5 * SECOND).await;
        let swept = sweep_table(&locks).await.unwrap();
        assert_eq!(swept.removed.locks, 1);
        assert_eq!(lock.inspect().await.unwrap().data, None);
        let guard = lock.try_acquire().await.unwrap().unwrap();
        assert_eq!(guard.data(), None);
    });
}

#[test]
fn a_lock_that_cannot_be_read_does_not_stop_the_sweep_of_others() {
    in_world(async |world| {
        let crashed = world.crashable().await;
        let (_a, _b) = (crashed.take("a").await, crashed.take("b").await);
        crashed.crash();
        sleep(DEATH).await;
        world.set("a", "format", 99).await;
        let locks = world.client().await;
        let swept = sweep_table(&locks).await.unwrap();
        assert_eq!(
            (swept.locks, swept.failed, swept.removed.holders),
            (2, 1, 1)
        );
    });
}

#[test]
fn locks_of_another_namespace_are_left_alone() {
    in_world(async |world| {
        let crashed = world.crashable().await;
        let _guard = crashed.take("a").await;
        crashed.crash();
        sleep(DEATH).await;
        let others = LockClient::builder(world.engine.client()).namespace("fair");
        let others = others.clock(world.clock.clone()).build().unwrap();
        let swept = sweep_table(&others).await.unwrap();
        assert_eq!((swept.locks, swept.removed), (0, nothing()));
    });
}

#[test]
fn a_stream_of_sweeps_goes_on_after_a_failure_and_ends_with_its_client() {
    in_world(async |world| {
        let crashed = world.crashable().await;
        let _guard = crashed.take("a").await;
        let sweeping = world.crashable().await;
        let swept = sweeping.locks.sweeps(OFTEN).unwrap();
        let swept = tokio::spawn(swept.map(|swept| swept.is_ok()).collect::<Vec<_>>());
        sleep(OFTEN).await;
        crashed.crash();
        sweeping.crash();
        sleep(2 * DEATH).await;
        sweeping.comes_back();
        sleep(4 * OFTEN).await;
        let slots = &world.lock_item("a").await["slots"];
        assert!(slots.as_l().unwrap().is_empty());
        sweeping.locks.shutdown(HeldLocks::Keep, SECOND).await;
        let swept = swept.await.unwrap();
        assert!(
            swept.contains(&false) && swept.last() == Some(&true),
            "{swept:?}"
        );
    });
}

#[test]
fn sweeps_that_are_never_due_again_rest() {
    in_world(async |world| {
        let network = Network::to(&world.engine);
        let locks = world.client_on(&network).await;
        let _sweeping = Sweeping::of(&locks, Duration::MAX);
        sleep(DAY).await;
        assert_eq!(network.counts().of("Scan"), 1);
    });
}
