//! Sweeps remove what is dead or idle, and nothing else.

use aws_sdk_dynamodb::types::AttributeValue;

use super::rig::{Rig, SECOND, SHORT};
use fairlock_testkit::lab::{acquire, cut_off};
use fairlock_testkit::sweeps::{Sweeping, sweep_table};

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
    let is_removed = async || {
        let swept = sweep_table(&locks).await.unwrap();
        assert_eq!((swept.locks, swept.failed), (1, 0));
        swept.removed.locks == 1
    };
    assert!(!is_removed().await, "just used");
    // Last used long ago, and with a ticket of that time.
    let mut item = rig.items().await.remove(0);
    let day = 24 * 3600_u64;
    let number = |value: u64| AttributeValue::N(value.to_string());
    item.insert("expires_at".into(), number(10 * day));
    rig.put(&item).await;
    assert!(
        !is_removed().await,
        "a new item could begin below its ticket"
    );
    for counter in ["last", "watermark"] {
        item.insert(counter.into(), number(day * 1_000_000));
    }
    rig.put(&item).await;
    assert!(is_removed().await);
    assert!(rig.items().await.is_empty());
}
