//! Work under a lock, and several locks at once.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::{Error, LossReason, RecordWait};
use futures::future::join_all;
use tokio::time::sleep;

use super::rig::{MS, Rig, SECOND};

pub(crate) async fn work_ends_when_its_lock_is_lost_and_else_with_a_release(rig: &Rig) {
    let host = rig.host_with(|builder| builder.lease_duration(6 * SECOND));
    let lock = host.locks.fair_lock("a").unwrap();
    let ran = lock.run(RecordWait::NoWait, async |guard| guard.ticket());
    let first = ran.await.unwrap().into_result().unwrap();
    let ran = lock.run(RecordWait::NoWait, async |guard| {
        assert!(guard.ticket() > first);
        rig.delete_lock_item().await;
        pending::<()>().await;
    });
    let lost = ran.await.unwrap_err();
    let reason = match &lost {
        Error::Lost { reason, .. } => Some(reason),
        _ => None,
    };
    assert_eq!(reason, Some(&LossReason::Deleted), "{lost}");
    let ran = lock.run(RecordWait::Infinite, async |guard| guard.ticket());
    assert!(ran.await.unwrap().into_result().unwrap() > first);
    rig.comes_to_rest().await;
}

pub(crate) async fn locks_that_are_named_in_any_order_are_had_together_by_everybody(rig: &Rig) {
    let named = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]];
    let inside = AtomicUsize::new(0);
    let turns = named.map(|names| {
        let (host, inside) = (rig.host(), &inside);
        async move {
            let both = host.locks.multi_lock(names).unwrap();
            for _ in 0..5 {
                let work = both.run(RecordWait::Infinite, async |guard| {
                    // Any two of these want a lock in common.
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    assert!(guard.is_held());
                    sleep(5 * MS).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
                work.await.unwrap().into_result().unwrap();
            }
        }
    });
    join_all(turns).await;
    let locks = &rig.host().locks;
    let all = locks.multi_lock(["c", "b", "a"]).unwrap();
    let guard = all.acquire(RecordWait::Infinite).await.unwrap();
    let both = locks.multi_lock(["a", "b"]).unwrap();
    let refused = both.acquire(RecordWait::NoWait).await.unwrap_err();
    assert!(
        matches!(&refused, Error::NotGranted { lock, .. } if lock == "a"),
        "{refused}"
    );
    guard.release().await.unwrap();
}
