//! Sweeps remove what is dead or idle, and nothing else.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{IdleLocks, RecordWait, SweepOptions};

use super::place::{Place, SECOND, SHORT, is_held, until};
use fairlock_testkit::lab::{acquire, cut_off};

pub(crate) async fn a_sweep_removes_a_holder_that_died_and_no_other(place: &Place) {
    let dead = place.host_with(|builder| builder.lease_duration(SHORT));
    let lost = acquire(&dead).await;
    let other = place.host().locks.fair_lock("b").unwrap();
    let alive = other.acquire(RecordWait::NoWait).await.unwrap();
    dead.network.set_faults(cut_off());
    // If the engine's answers have no date, only a sweeper that keeps running can find dead entries, by observing them.
    let sweeping = place.host().locks;
    let sweeper = sweeping.start_sweeper(SweepOptions::every(SECOND)).unwrap();
    let held = async || {
        place
            .items()
            .await
            .iter()
            .filter(|item| is_held(item))
            .count()
    };
    until(async || held().await == 1).await;
    sweeper.stop().await;
    assert_eq!(other.sweep().await.unwrap().holders, 0);
    assert!(alive.is_held());
    alive.release().await.unwrap();
    lost.lost().await;
    let lock = sweeping.fair_lock("a").unwrap();
    let guard = lock.try_acquire().await.unwrap().unwrap();
    guard.release().await.unwrap();
}

pub(crate) async fn a_sweep_removes_the_dead_of_a_whole_queue(place: &Place) {
    let dead = place.host_with(|builder| builder.lease_duration(SHORT).successor_slots(1));
    let lost = acquire(&dead).await;
    let waiting = [
        place.waits_behind(0, &dead).await,
        place.waits_behind(1, &dead).await,
    ];
    dead.network.set_faults(cut_off());
    let locks = place.host().locks;
    let sweeper = locks.start_sweeper(SweepOptions::every(SECOND)).unwrap();
    place.comes_to_rest().await;
    sweeper.stop().await;
    waiting.iter().for_each(|dead| dead.abort());
    assert!(!lost.is_held());
}

pub(crate) async fn an_idle_lock_is_removed_after_its_retention(place: &Place) {
    let locks = place.host().locks;
    acquire(&place.host()).await.release().await.unwrap();
    let swept = locks.sweep_table(IdleLocks::Remove).await.unwrap();
    assert_eq!((swept.locks, swept.removed.locks), (1, 0), "just used");
    // Last used long ago, and with a ticket of that time.
    let mut item = place.items().await.remove(0);
    let day = 24 * 3600_u64;
    for (attribute, value) in [
        ("expires_at", 10 * day),
        ("last", day * 1_000_000),
        ("watermark", day * 1_000_000),
    ] {
        item.insert(attribute.into(), AttributeValue::N(value.to_string()));
    }
    place.put(&item).await;
    let swept = locks.sweep_table(IdleLocks::Keep).await.unwrap();
    assert!(swept.removed.is_nothing());
    let swept = locks.sweep_table(IdleLocks::Remove).await.unwrap();
    assert_eq!(swept.removed.locks, 1);
    assert!(place.items().await.is_empty());
}
