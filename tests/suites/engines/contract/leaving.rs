//! Voluntary departures: guards and futures that are dropped, and clients that are shut down.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; a caller's task"
)]

use fairlock::{Error, HeldLocks, LossReason, RecordWait};
use futures::FutureExt;

use super::rig::{Rig, SECOND, granted, until};
use fairlock_testkit::lab::{Host, acquire};

/// Gets the lock within the bound of the test, and releases it.
async fn a_turn(rig: &Rig) {
    acquire(&rig.host()).await.release().await.unwrap();
    rig.comes_to_rest().await;
}

pub(crate) async fn a_guard_that_is_dropped_releases(rig: &Rig) {
    let host = rig.host();
    drop(acquire(&host).await);
    a_turn(rig).await;
    let guard = acquire(&host).await;
    // In a thread without a runtime.
    std::thread::spawn(move || drop(guard)).join().unwrap();
    a_turn(rig).await;
}

pub(crate) async fn a_release_that_is_no_longer_waited_for_is_done_all_the_same(rig: &Rig) {
    let guard = acquire(&rig.host()).await;
    assert!(guard.release().now_or_never().is_none());
    a_turn(rig).await;
}

pub(crate) async fn those_who_stop_waiting_are_passed(rig: &Rig) {
    let hosts = [(); 4].map(|()| rig.single());
    let guard = acquire(&hosts[0]).await;
    let successor = rig.waits_behind(0, &hosts[1]).await;
    let in_queue = rig.waits_behind(1, &hosts[2]).await;
    let behind = rig.waits_behind(2, &hosts[3]).await;
    successor.abort();
    in_queue.abort();
    guard.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
    a_turn(rig).await;
}

async fn shut_down(host: &Host, held: HeldLocks) -> Vec<String> {
    let report = host.locks.shutdown(held, 60 * SECOND).await;
    assert!(report.unfinished.is_empty(), "{report:?}");
    report.held.into_iter().map(|(lock, _)| lock).collect()
}

pub(crate) async fn a_shutdown_that_keeps_tells_waiters_and_leaves_the_hold_to_its_guard(
    rig: &Rig,
) {
    let host = rig.host();
    let guard = acquire(&host).await;
    let lock = host.locks.fair_lock("a").unwrap();
    let waiting = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
    let onlooker = rig.host().locks.fair_lock("a").unwrap();
    until(async || !onlooker.inspect().await.unwrap().queue.is_empty()).await;
    assert_eq!(shut_down(&host, HeldLocks::Keep).await, ["a"]);
    assert!(matches!(waiting.await.unwrap(), Err(Error::ShutDown(_))));
    assert!(onlooker.inspect().await.unwrap().queue.is_empty());
    assert!(guard.is_held());
    guard.release().await.unwrap();
    a_turn(rig).await;
}

pub(crate) async fn a_shutdown_that_releases_tells_the_holder_and_hands_over(rig: &Rig) {
    let (host, successor) = (rig.host(), rig.host());
    let guard = acquire(&host).await;
    let waiting = rig.waits_behind(0, &successor).await;
    assert!(shut_down(&host, HeldLocks::Release).await.is_empty());
    assert_eq!(guard.lost().await.reason, LossReason::ShutDown);
    assert!(!guard.is_held());
    granted(waiting).await.release().await.unwrap();
    a_turn(rig).await;
}
