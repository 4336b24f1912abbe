//! The data that a lock carries from holder to holder.

use std::sync::atomic::Ordering;

use fairlock::embedded::{Fault, When};
use fairlock::{Error, LockGuard, Ticket};

use super::rig::{MS, Rig, SECOND};
use fairlock_testkit::lab::acquire;
use fairlock_testkit::verbs::meets;

type Data = Option<(Vec<u8>, Ticket)>;

async fn carried(rig: &Rig) -> Data {
    let lock = rig.host().lock();
    let data = lock.inspect().await.unwrap().data;
    data.map(|data| (data.bytes.to_vec(), data.ticket))
}

fn with(guard: &LockGuard) -> Data {
    guard.data().map(|data| (data.bytes.to_vec(), data.ticket))
}

pub(crate) async fn data_goes_to_the_next_holder_and_stays_until_it_is_removed(rig: &Rig) {
    let (a, b) = (rig.host(), rig.host());
    let guard = acquire(&a).await;
    for bytes in [b"page 7".to_vec(), vec![0; 64 * 1024]] {
        guard.set_data(&bytes).await.unwrap();
        assert_eq!(carried(rig).await, Some((bytes, guard.ticket())));
    }
    let left = with(&guard);
    let next = rig.waits_behind(0, &b).await;
    guard.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(with(&next), left);
    next.release().await.unwrap();
    assert_eq!(carried(rig).await, left);
    let guard = acquire(&a).await;
    assert_eq!(with(&guard), left);
    guard.clear_data().await.unwrap();
    guard.clear_data().await.unwrap();
    assert_eq!((with(&guard), carried(rig).await), (None, None));
    guard.release().await.unwrap();
    rig.comes_to_rest().await;
}

pub(crate) async fn data_is_written_once_whatever_its_request_meets(rig: &Rig) {
    let host = rig.host();
    let guard = acquire(&host).await;
    for fault in [
        Fault::Lose(When::After),
        Fault::Lose(When::Before),
        Fault::Close(When::After),
        Fault::Close(When::Before),
        Fault::CutShort,
        Fault::Conflict,
    ] {
        let met = meets(&host.network, "write data", 1, fault.clone());
        guard.set_data("once").await.unwrap();
        assert_eq!(with(&guard), Some((b"once".to_vec(), guard.ticket())));
        let removal = meets(&host.network, "write data", 1, fault);
        guard.clear_data().await.unwrap();
        assert_eq!(carried(rig).await, None);
        assert_eq!(
            [&met, &removal].map(|met| met.load(Ordering::SeqCst)),
            [1, 1]
        );
    }
    guard.release().await.unwrap();
    rig.comes_to_rest().await;
}

pub(crate) async fn who_has_an_older_token_writes_nothing_and_is_told(rig: &Rig) {
    let stale = acquire(&rig.host()).await;
    stale.set_data("stale").await.unwrap();
    rig.delete_lock_item().await;
    let next = acquire(&rig.host()).await;
    next.set_data("fresh").await.unwrap();
    let fresh = Some((b"fresh".to_vec(), next.ticket()));
    for refused in [stale.set_data("late").await, stale.clear_data().await] {
        assert!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
        assert!(!stale.is_held());
    }
    assert_eq!(carried(rig).await, fresh);
    next.release().await.unwrap();
}

pub(crate) async fn a_late_copy_of_a_write_takes_no_later_one_back(rig: &Rig) {
    let (host, after) = (rig.host(), 200 * MS);
    let guard = acquire(&host).await;
    meets(&host.network, "write data", 2, Fault::Duplicate { after });
    guard.set_data("first").await.unwrap();
    guard.clear_data().await.unwrap();
    guard.set_data("last").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(carried(rig).await, Some((b"last".to_vec(), guard.ticket())));
    guard.release().await.unwrap();
    rig.comes_to_rest().await;
}
