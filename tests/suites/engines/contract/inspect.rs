//! Read-only views: one lock, all locks, and a caller's own position in the queue.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; a caller's task"
)]

use std::sync::{Arc, Mutex};

use fairlock::{LockState, RecordWait, Stage};
use futures::TryStreamExt;
use futures::future::join_all;

use super::rig::{Rig, granted, until};
use fairlock_testkit::lab::acquire;

pub(crate) async fn an_observer_sees_the_holder_and_the_queue_and_writes_nothing(rig: &Rig) {
    let onlooker = rig.host();
    let lock = onlooker.locks.fair_lock("a").unwrap();
    let unused = lock.inspect().await.unwrap();
    assert_eq!((unused.holder, unused.newest_ticket), (None, None));
    let hosts = [(); 4].map(|()| rig.host_with(|builder| builder.successor_slots(2)));
    let guard = acquire(&hosts[0]).await;
    let mut waiting = Vec::new();
    for (before, host) in hosts[1..].iter().enumerate() {
        waiting.push(rig.waits_behind(before, host).await);
    }
    let state = lock.inspect().await.unwrap();
    let holder = state.holder.unwrap();
    assert_eq!(
        (holder.ticket, holder.stage),
        (guard.ticket(), Stage::Holder)
    );
    let stages: Vec<_> = state.queue.iter().map(|at| at.stage).collect();
    assert_eq!(stages, [Stage::Successor, Stage::Successor, Stage::Waiting]);
    assert!(state.queue.is_sorted_by(|a, b| a.ticket < b.ticket));
    assert_eq!(state.waiting, 3);
    assert_eq!(onlooker.network.counts().writes(), 0);
    guard.release().await.unwrap();
    let turns = waiting.into_iter().map(|waiting| async {
        granted(waiting).await.release().await.unwrap();
    });
    join_all(turns).await;
    rig.comes_to_rest().await;
}

pub(crate) async fn a_listing_shows_every_lock(rig: &Rig) {
    let host = rig.host();
    let mut guards = Vec::new();
    for name in ["a", "b", "c"] {
        let lock = host.locks.fair_lock(name).unwrap();
        guards.push(lock.acquire(RecordWait::NoWait).await.unwrap());
    }
    guards.remove(1).release().await.unwrap();
    let mut states: Vec<LockState> = host.locks.locks().try_collect().await.unwrap();
    states.sort_by(|a, b| a.lock.cmp(&b.lock));
    let states = states.iter();
    let states = states.map(|state| (state.lock.as_str(), state.holder.is_some()));
    let states: Vec<_> = states.collect();
    assert_eq!(states, [("a", true), ("b", false), ("c", true)]);
    for guard in guards {
        guard.release().await.unwrap();
    }
}

pub(crate) async fn who_waits_is_told_its_place_whenever_it_changes(rig: &Rig) {
    let hosts = [(); 3].map(|()| rig.host());
    let guard = acquire(&hosts[0]).await;
    let successor = rig.waits_behind(0, &hosts[1]).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let lock = hosts[2].locks.fair_lock("a").unwrap();
    let lock = lock.observed(move |waiting| {
        let holder = waiting.holder.as_ref().map(|holder| holder.ticket);
        tell.lock()
            .unwrap()
            .push((waiting.position.unwrap(), holder));
    });
    let waiting = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
    let mut expected = Vec::new();
    let mut now = guard;
    for (before, next) in [(2, successor), (1, waiting)] {
        expected.push((before, Some(now.ticket())));
        until(async || *told.lock().unwrap() == expected).await;
        now.release().await.unwrap();
        now = granted(next).await;
    }
    expected.push((0, Some(now.ticket())));
    assert_eq!(*told.lock().unwrap(), expected);
    now.release().await.unwrap();
    rig.comes_to_rest().await;
}
