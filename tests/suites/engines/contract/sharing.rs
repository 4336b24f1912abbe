//! Locks that several callers hold at one time: which callers share it, which are admitted, and what each leaves.

use fairlock::{Error, ItemProblem, LockGuard, RecordWait, Stage};
use futures::future::join_all;

use super::rig::{Rig, Waiting, granted, is_held, until};
use fairlock_testkit::lab::{Host, acquire, shares};
use fairlock_testkit::tamper::{Item, held_in_slot, successors};

/// The permits of the lock in these scenarios.
pub(crate) const FIVE: u64 = 5;

/// Takes this many of five permits.
pub(crate) async fn takes(host: &Host, permits: u64) -> LockGuard {
    let lock = host.locks.semaphore("a", FIVE).unwrap();
    let taken = lock.acquire_many(permits, RecordWait::Infinite).await;
    taken.unwrap()
}

/// Waits until a call is in the queue, behind `before` others.
async fn is_in_queue(rig: &Rig, before: usize) {
    let onlooker = rig.host().lock();
    until(async || onlooker.inspect().await.unwrap().queue.len() > before).await;
}

pub(crate) async fn waits_to_share(rig: &Rig, before: usize, host: &Host) -> Waiting {
    let lock = host.lock();
    let waiting = async move { lock.acquire_shared(RecordWait::Infinite).await };
    let waiting = tokio::spawn(waiting);
    is_in_queue(rig, before).await;
    waiting
}

pub(crate) async fn waits_for(rig: &Rig, before: usize, host: &Host, permits: u64) -> Waiting {
    let lock = host.locks.semaphore("a", FIVE).unwrap();
    let waiting = async move { lock.acquire_many(permits, RecordWait::Infinite).await };
    let waiting = tokio::spawn(waiting);
    is_in_queue(rig, before).await;
    waiting
}

/// The permits of all holders, and how many sharers, tickets of sharers, and successors the lock item has.
pub(crate) async fn counted(rig: &Rig) -> (i64, usize, usize, usize) {
    let item = &rig.items().await[0];
    let number = |name: &str| item[name].as_n().unwrap().parse::<i64>().unwrap();
    let sharers = item["sharers"].as_m().unwrap();
    let nonces = nonces(item);
    let is_nonce = |name: &&String| name.len() == 32;
    let mut beside = item.keys().filter(is_nonce);
    assert!(beside.all(|nonce| nonces.contains(nonce)), "{item:?}");
    let shared = { item.keys() }.filter(|nonce| sharers.contains_key(*nonce));
    let held = number("permits") - number("room") + held_in_slot(item).unwrap_or(0);
    (held, sharers.len(), shared.count(), successors(item))
}

/// The nonces of the places on the lock item.
fn nonces(item: &Item) -> Vec<String> {
    let slots = item["slots"].as_l().unwrap().iter();
    let sharers = item["sharers"].as_m().unwrap().values();
    let places = slots.chain(sharers);
    let nonces = places.filter_map(|rig| rig.as_m().unwrap().get("nonce"));
    nonces.map(|nonce| nonce.as_s().unwrap().clone()).collect()
}

async fn has_no_holder(rig: &Rig) -> bool {
    !is_held(&rig.items().await[0])
}

pub(crate) async fn readers_come_and_go_beside_each_other_and_the_last_hands_over(rig: &Rig) {
    let hosts = [(); 6].map(|()| rig.host());
    let first = shares(&hosts[0]).await;
    let second = shares(&hosts[1]).await;
    let third = shares(&hosts[2]).await;
    assert_eq!(counted(rig).await, (3, 2, 2, 0));
    assert!(first.ticket() < second.ticket() && second.ticket() < third.ticket());
    let state = hosts[3].lock().inspect().await;
    let shown = state.unwrap().sharers;
    let shown: Vec<_> = shown.iter().map(|it| (it.ticket, it.stage)).collect();
    let sharers = [&second, &third].map(|it| (it.ticket(), Stage::Holder));
    assert_eq!(shown, sharers);
    // The one at the holder's place, one beside it, and the last of all.
    first.release().await.unwrap();
    assert!(has_no_holder(rig).await);
    assert_eq!(counted(rig).await, (2, 2, 2, 0));
    let writer = rig.waits_behind(0, &hosts[3]).await;
    let readers = [
        waits_to_share(rig, 1, &hosts[4]).await,
        waits_to_share(rig, 2, &hosts[5]).await,
    ];
    second.release().await.unwrap();
    assert_eq!(counted(rig).await, (1, 1, 1, 3));
    assert!(!writer.is_finished());
    third.release().await.unwrap();
    let writer = granted(writer).await;
    assert_eq!(counted(rig).await, (64, 0, 0, 2));
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    writer.release().await.unwrap();
    let readers = join_all(readers.map(granted)).await;
    assert_eq!(counted(rig).await, (2, 1, 1, 0));
    for reader in readers {
        reader.release().await.unwrap();
    }
    assert_eq!(counted(rig).await, (0, 0, 0, 0));
    rig.comes_to_rest().await;
}

/// Callers that name another number of permits are refused, and write nothing.
async fn are_refused(rig: &Rig, host: &Host) {
    let before = rig.items().await;
    for wait in [RecordWait::NoWait, RecordWait::Infinite] {
        let six = host.locks.semaphore("a", 6).unwrap();
        let fair = host.lock();
        for (refused, said) in [
            (six.acquire(wait).await, 6),
            (fair.acquire_shared(wait).await, 64),
            (fair.acquire(wait).await, 64),
        ] {
            let refused = refused.unwrap_err();
            let Error::InvalidItem { problem, .. } = &refused else {
                panic!("{refused}")
            };
            let found = FIVE;
            assert_eq!(*problem, ItemProblem::Permits { found, said });
        }
    }
    assert_eq!(rig.items().await, before);
}

pub(crate) async fn a_downgrade_lets_readers_in_and_no_writer(rig: &Rig) {
    let hosts = [(); 4].map(|()| rig.host());
    let mut guard = acquire(&hosts[0]).await;
    let readers = [
        waits_to_share(rig, 0, &hosts[1]).await,
        waits_to_share(rig, 1, &hosts[2]).await,
    ];
    let writer = rig.waits_behind(2, &hosts[3]).await;
    guard.downgrade().await.unwrap();
    let readers = join_all(readers.map(granted)).await;
    assert_eq!(counted(rig).await, (3, 2, 2, 1));
    assert!(!writer.is_finished() && guard.is_held());
    guard.release().await.unwrap();
    for reader in readers {
        reader.release().await.unwrap();
    }
    granted(writer).await.release().await.unwrap();
    rig.comes_to_rest().await;
}

pub(crate) async fn permits_that_are_not_left_are_refused_and_their_number_must_be_the_same(
    rig: &Rig,
) {
    let hosts = [(); 3].map(|()| rig.host());
    let (three, one) = (takes(&hosts[0], 3).await, takes(&hosts[1], 1).await);
    let semaphore = |permits| hosts[2].locks.semaphore("a", permits).unwrap();
    let refused = semaphore(FIVE).acquire_many(2, RecordWait::NoWait).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::NotGranted { .. }), "{refused}");
    let last = semaphore(FIVE).acquire(RecordWait::NoWait).await.unwrap();
    assert_eq!(counted(rig).await, (5, 2, 2, 0));
    last.release().await.unwrap();
    are_refused(rig, &hosts[2]).await;
    three.release().await.unwrap();
    one.release().await.unwrap();
    are_refused(rig, &hosts[2]).await;
    rig.comes_to_rest().await;
}
