//! Sweeps remove what is dead or idle, and nothing else.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::RecordWait;

use super::rig::{Rig, SECOND, SHORT, is_held, until};
use fairlock_testkit::lab::{acquire, cut_off};
use fairlock_testkit::sweeps::Sweeping;

pub(crate) async fn a_sweep_removes_a_holder_that_died_and_no_other(rig: &Rig) {
    let dead = rig.host_with(|builder| builder.lease_duration(SHORT));
    let lost = acquire(&dead).await;
    let other = rig.host().locks.fair_lock("b").unwrap();
    let alive = other.acquire(RecordWait::NoWait).await.unwrap();
    dead.network.set_faults(cut_off());
    // If the engine's answers have no date, only sweeps that go on can find dead entries, by observing them.
    let sweeping = rig.host().locks;
    let sweeps = Sweeping::of(&sweeping, SECOND);
    let held = async || {
        rig.items()
            .await
            .iter()
            .filter(|item| is_held(item))
            .count()
    };
    until(async || held().await == 1).await;
    drop(sweeps);
    assert_eq!(other.sweep().await.unwrap().holders, 0);
    assert!(alive.is_held());
    alive.release().await.unwrap();
    lost.lost().await;
    let lock = sweeping.fair_lock("a").unwrap();
    let guard = lock.try_acquire().await.unwrap().unwrap();
    guard.release().await.unwrap();
}

pub(crate) async fn a_sweep_removes_the_dead_of_a_whole_queue(rig: &Rig) {
    let dead = rig.host_with(|builder| builder.lease_duration(SHORT).successor_slots(1));
    let lost = acquire(&dead).await;
    let waiting = [
        rig.waits_behind(0, &dead).await,
        rig.waits_behind(1, &dead).await,
    ];
    dead.network.set_faults(cut_off());
    let locks = rig.host().locks;
    let sweeps = Sweeping::of(&locks, SECOND);
    rig.comes_to_rest().await;
    drop(sweeps);
    waiting.iter().for_each(|dead| dead.abort());
    assert!(!lost.is_held());
}

pub(crate) async fn an_idle_lock_is_removed_after_its_retention(rig: &Rig) {
    let locks = rig.host().locks;
    acquire(&rig.host()).await.release().await.unwrap();
    let swept = locks.sweep_table().await.unwrap();
    assert_eq!((swept.locks, swept.removed.locks), (1, 0), "just used");
    // Last used long ago, and with a ticket of that time.
    let mut item = rig.items().await.remove(0);
    let day = 24 * 3600_u64;
    for (attribute, value) in [
        ("expires_at", 10 * day),
        ("last", day * 1_000_000),
        ("watermark", day * 1_000_000),
    ] {
        item.insert(attribute.into(), AttributeValue::N(value.to_string()));
    }
    rig.put(&item).await;
    let swept = locks.sweep_table().await.unwrap();
    assert_eq!(swept.removed.locks, 1);
    assert!(rig.items().await.is_empty());
}
