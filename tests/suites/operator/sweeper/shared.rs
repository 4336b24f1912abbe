//! Sweeps of locks that several callers hold at one time, and of leases.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{LockGuard, RecordWait};
use tokio::time::sleep;

use super::updates;
use fairlock_testkit::lab::SECOND;
use fairlock_testkit::sweep_fixture::*;

async fn shares(crashable: &Crashable) -> LockGuard {
    let lock = crashable.locks.fair_lock("a").unwrap();
    lock.acquire_shared(RecordWait::Infinite).await.unwrap()
}

/// `count` readers that share the lock, each a client of its own.
async fn readers(world: &World, count: usize) -> Vec<(Crashable, LockGuard)> {
    let mut readers = Vec::new();
    for _ in 0..count {
        let client = world.crashable().await;
        let guard = shares(&client).await;
        readers.push((client, guard));
    }
    readers
}

async fn room(world: &World) -> AttributeValue {
    world.lock_item("a").await["room"].clone()
}

#[test]
fn dead_readers_go_and_the_living_among_them_stay() {
    in_world(async |world| {
        // The first of them stands in a slot.
        let mut readers = readers(world, 5).await;
        for dead in [0, 2, 4] {
            readers[dead].0.crash();
        }
        sleep(DEATH).await;
        assert_eq!(world.sweep("a").await.holders, 3);
        assert_eq!(room(world).await, number(62));
        assert_eq!(world.sweep("a").await, nothing());
        for alive in [3, 1] {
            let (_client, guard) = readers.swap_remove(alive);
            assert!(guard.is_held());
            guard.release().await.unwrap();
        }
        let writer = world.client().await.fair_lock("a").unwrap();
        assert!(writer.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn those_who_wait_for_permits_of_the_dead_have_them_when_those_are_swept() {
    in_world(async |world| {
        let dead = world.crashable().await;
        let of = |client: &fairlock::LockClient| client.semaphore("a", 5).unwrap();
        let three = of(&dead.locks).acquire_many(3, RecordWait::NoWait).await;
        let alive = world.crashable().await;
        let one = of(&alive.locks).acquire(RecordWait::NoWait).await.unwrap();
        dead.crash();
        let successor = world.crashable().await;
        let four = of(&successor.locks);
        let wait = RecordWait::Infinite;
        let waiting = spawn(async move { four.acquire_many(4, wait).await });
        sleep(DEATH).await;
        world.sweep("a").await;
        let guard = waiting.await.unwrap().unwrap();
        // The waiter for four permits has the first slot.
        assert_eq!(room(world).await, number(4));
        assert!(one.is_held() && guard.is_held() && !three.unwrap().is_held());
        assert_eq!(world.sweep("a").await, nothing());
    });
}

/// A renewal of all holders beside the holder's place.
async fn renew_sharers(world: &World) {
    let mut item = world.lock_item("a").await;
    let AttributeValue::M(sharers) = item.get_mut("sharers").unwrap() else {
        unreachable!()
    };
    for sharer in sharers.values_mut() {
        let AttributeValue::M(sharer) = sharer else {
            unreachable!()
        };
        let beat: u64 = sharer["beat"].as_n().unwrap().parse().unwrap();
        let now = u64::try_from(world.time().as_millis()).unwrap();
        sharer.insert("beat".into(), number(beat + 1));
        sharer.insert("renewed_at".into(), number(now));
    }
    let put = world.engine.client().put_item().table_name("fairlock");
    put.set_item(Some(item)).send().await.unwrap();
}

#[test]
fn a_renewal_between_poll_and_removal_saves_a_reader() {
    in_world(async |world| {
        let readers = readers(world, 2).await;
        readers[1].0.crash();
        sleep(DEATH).await;
        let touch = || renew_sharers(world);
        assert_eq!(swept_despite(world, updates, touch).await, nothing());
        assert_eq!(world.sweep("a").await, nothing());
        sleep(DEATH).await;
        assert_eq!(world.sweep("a").await.holders, 1);
        assert!(readers[0].1.is_held());
    });
}

#[test]
fn a_lease_that_is_over_goes_and_one_that_is_not_stays() {
    in_world(async |world| {
        let lock = world.client().await.lease_lock("a").unwrap();
        let minute = Duration::from_secs(60);
        let lease = lock.acquire("one", minute).await.unwrap();
        sleep(minute / 2).await;
        let lease = lock.extend(&lease, minute).await.unwrap();
        sleep(minute - SECOND).await;
        assert_eq!(world.sweep("a").await, nothing());
        assert!(lock.find("one").await.unwrap().is_some());
        sleep(DEATH - Duration::from_secs(30) + SECOND).await;
        assert_eq!(world.sweep("a").await.holders, 1);
        assert_eq!(lock.find("one").await.unwrap(), None);
        assert!(lock.release(&lease).await.is_err());
        assert!(lock.acquire("other", minute).await.is_ok());
    });
}
