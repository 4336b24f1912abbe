//! Read-only views: one lock, and all locks.

use std::pin::pin;

use fairlock::{RecordWait, Stage};
use futures::future::join_all;
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::rig::{Rig, granted};
use fairlock_testkit::lab::acquire;

pub(crate) async fn an_observer_sees_the_holder_and_the_queue_and_writes_nothing(rig: &Rig) {
    let onlooker = rig.host();
    let lock = onlooker.lock();
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

/// Together they are larger than a page of 1 MB.
pub(crate) async fn a_listing_shows_every_lock_over_all_pages(rig: &Rig) {
    let host = rig.host();
    let mut expected = Vec::new();
    let mut guards = Vec::new();
    for number in 0..20 {
        let name = format!("lock-{number:02}");
        let lock = host.locks.fair_lock(&name).unwrap();
        let guard = lock.acquire(RecordWait::NoWait).await.unwrap();
        guard.set_data(vec![b'x'; 60_000]).await.unwrap();
        let is_held = number % 2 == 0;
        expected.push((name, is_held));
        match is_held {
            true => guards.push(guard),
            false => guard.release().await.unwrap(),
        }
    }
    let mut listing = pin!(host.locks.locks());
    let mut listed = Vec::new();
    while let Some(state) = listing.try_next().await.unwrap() {
        listed.push((state.lock, state.holder.is_some()));
    }
    listed.sort();
    assert_eq!(listed, expected);
    assert!(listing.next().now_or_never().flatten().is_none());
    for guard in guards {
        guard.release().await.unwrap();
    }
}
