//! Voluntary departures: guards that are dropped, and releases that nobody waits for.

use futures::FutureExt;

use super::rig::Rig;
use fairlock_testkit::lab::acquire;

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
