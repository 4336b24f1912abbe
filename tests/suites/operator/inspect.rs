//! An observer sees which client holds a lock, since when, and which clients wait in which order. It changes nothing.

use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Error, HeldLocks, LockState, RecordWait, Stage};
use fairlock_testkit::assert_is;
use fairlock_testkit::datagram_network::Post;
use fairlock_testkit::lab::{
    EPOCH, Host, Lab, SECOND, acquire, all_wait, cut_off, has_turn, in_lab, waits,
};
use fairlock_testkit::virtual_time;
use futures::{StreamExt, TryStreamExt};

async fn listed(host: &Host) -> Vec<LockState> {
    let mut states: Vec<_> = host.locks.locks().try_collect().await.unwrap();
    states.sort_by(|a, b| a.lock.cmp(&b.lock));
    states
}

/// Seconds since the start of the test.
fn second(at: Option<SystemTime>) -> u64 {
    let since = at.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    (since - EPOCH).as_secs()
}

async fn put(lab: &Lab, pk: &str, sk: &str) {
    let put = lab.engine.client().put_item().table_name("locks");
    let text = |s: &str| AttributeValue::S(s.into());
    put.item("pk", text(pk))
        .item("sk", text(sk))
        .item("what", text("not ours"))
        .send()
        .await
        .unwrap();
}

#[test]
fn whose_client_can_be_notified_is_shown_for_the_holder_and_for_all_waiters() {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(1));
        let host = |is_notified: bool| {
            lab.host_with(|builder| match is_notified {
                true => builder.successor_slots(1).notifier(post.notifier()),
                false => builder.successor_slots(1),
            })
        };
        let hosts = [true, false, true, false].map(host);
        let guard = acquire(&hosts[0]).await;
        let waiting = all_wait(&lab, &hosts[1..]).await;
        let state = hosts[1].inspect().await;
        assert!(state.holder.unwrap().is_notifiable);
        let queue = state.queue.iter().map(|at| (at.stage, at.is_notifiable));
        assert_eq!(
            queue.collect::<Vec<_>>(),
            [
                (Stage::Successor, false),
                (Stage::Waiting, true),
                (Stage::Waiting, false)
            ]
        );
        drop((guard, waiting));
    });
}

#[test]
fn those_who_wait_together_are_shown_as_one_with_their_number_wherever_they_stand() {
    in_lab(async |lab, []| {
        let single = || lab.host_with(|builder| builder.successor_slots(1));
        let (a, b, onlooker) = (single(), single(), single());
        let guard = acquire(&a).await;
        let call = |host: &Host| {
            let lock = host.lock();
            tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.unwrap() })
        };
        // The first call stands alone, the others share a place.
        let mut calls: Vec<_> = (0..4).map(|_| call(&b)).collect();
        lab.wait(SECOND).await;
        let queue = |state: &LockState| -> Vec<_> {
            let queue = state.queue.iter();
            queue.map(|at| (at.stage, at.tickets)).collect()
        };
        let state = onlooker.inspect().await;
        assert_eq!(queue(&state), [(Stage::Successor, 1), (Stage::Waiting, 3)]);
        assert_eq!((state.waiting, listed(&onlooker).await[0].waiting), (4, 4));
        assert_eq!(state.newest_ticket, Some(state.queue[1].ticket));
        guard.release().await.unwrap();
        let guard = calls.remove(0).await.unwrap();
        lab.wait(SECOND).await;
        let state = onlooker.inspect().await;
        assert_eq!(queue(&state), [(Stage::Successor, 3)]);
        assert_eq!((state.waiting, listed(&onlooker).await[0].waiting), (3, 3));
        guard.release().await.unwrap();
        for (before, call) in calls.into_iter().enumerate() {
            let guard = call.await.unwrap();
            let holder = onlooker.inspect().await.holder.unwrap();
            let first = holder.ticket.get() + 1 - holder.tickets;
            assert_eq!(holder.tickets, 3);
            assert_eq!(guard.ticket().get(), first + before as u64);
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn since_when_it_is_held_counts_from_the_grant_and_in_queue_from_the_ticket() {
    in_lab(async |lab, [a, b, onlooker]| {
        // Both have seen a `Date` before.
        a.inspect().await;
        b.inspect().await;
        let guard = acquire(&a).await;
        lab.wait(10 * SECOND).await;
        let successor = waits(lab, &b).await;
        assert_eq!(second(onlooker.inspect().await.held_since), 0);
        lab.wait(20 * SECOND).await;
        guard.release().await.unwrap();
        let guard = successor.await.unwrap();
        let state = onlooker.inspect().await;
        assert_eq!(second(state.held_since), 31);
        assert_eq!(second(state.holder.unwrap().since), 10);
        let refused = onlooker.lock().acquire(RecordWait::NoWait).await;
        let Err(Error::NotGranted { since, .. }) = refused else {
            unreachable!("{refused:?}")
        };
        assert_eq!(second(since), 31);
        guard.release().await.unwrap();
        let state = onlooker.inspect().await;
        assert_eq!((state.holder, state.held_since), (None, None));
    });
}

#[test]
fn the_lease_that_is_left_goes_to_zero_when_nobody_renews_it() {
    in_lab(async |lab, [host, onlooker]| {
        host.inspect().await;
        let guard = acquire(&host).await;
        let left = || async { onlooker.inspect().await.holder.unwrap().lease_left.unwrap() };
        let first = left().await;
        assert!(first > 27 * SECOND && first <= 31 * SECOND, "{first:?}");
        host.network.set_faults(cut_off());
        lab.wait(20 * SECOND).await;
        let then = left().await;
        assert!(then >= 9 * SECOND && then <= 12 * SECOND, "{then:?}");
        lab.wait(20 * SECOND).await;
        assert_eq!(left().await, Duration::ZERO);
        drop(guard);
    });
}

#[test]
fn a_listing_shows_every_lock_of_the_namespace_and_goes_on_past_a_damaged_one() {
    in_lab(async |lab, [host]| {
        let mut guards = Vec::new();
        for name in ["a", "b", "c"] {
            let lock = host.locks.fair_lock(name).unwrap();
            guards.push(lock.acquire(RecordWait::NoWait).await.unwrap());
        }
        let other = lab.host_with(|builder| builder.namespace("other"));
        let foreign = other.locks.fair_lock("z").unwrap();
        guards.push(foreign.acquire(RecordWait::NoWait).await.unwrap());
        guards.remove(1).release().await.unwrap();
        put(lab, "d", "mine").await;
        let states = listed(&host).await;
        let names: Vec<_> = states
            .iter()
            .map(|at| (at.lock.as_str(), at.holder.is_some()))
            .collect();
        assert_eq!(names, [("a", true), ("b", false), ("c", true)]);

        put(lab, "b", "fairlock/#lock").await;
        let states: Vec<_> = host.locks.locks().collect().await;
        assert_eq!(states.len(), 3);
        let damaged = states
            .iter()
            .filter(|state| matches!(state, Err(Error::InvalidItem { .. })));
        assert_eq!(damaged.count(), 1);
        drop(guards);
    });
}

#[test]
fn a_listing_without_its_table_or_after_the_shutdown_is_one_error() {
    in_lab(async |lab, []| {
        let lost = lab.host_with(|builder| builder.table("lost"));
        let states: Vec<_> = lost.locks.locks().collect().await;
        assert_is!(states[..], [Err(Error::Refused { .. })]);
        lost.locks.shutdown(HeldLocks::Keep, SECOND).await;
        let states: Vec<_> = lost.locks.locks().collect().await;
        assert_is!(states[..], [Err(Error::ShutDown(_))]);
        assert!(matches!(
            lost.lock().inspect().await,
            Err(Error::ShutDown(_))
        ));
    });
}

#[test]
fn a_hold_that_a_first_request_entered_says_since_when_with_its_first_renewal() {
    in_lab(async |lab, [host, onlooker]| {
        // The lock exists, so the first request takes it.
        acquire(&onlooker).await.release().await.unwrap();
        let guard = acquire(&host).await;
        assert_eq!(onlooker.inspect().await.held_since, None);
        lab.wait(2 * SECOND).await;
        assert_eq!(second(onlooker.inspect().await.held_since), 1);
        lab.wait(30 * SECOND).await;
        assert_eq!(second(onlooker.inspect().await.held_since), 1);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_listing_that_a_shutdown_comes_into_ends_with_one_error() {
    in_lab(async |_, [host, onlooker]| {
        for name in ["a", "b", "c", "d"] {
            let lock = host.locks.fair_lock(name).unwrap();
            has_turn(lock.acquire(RecordWait::NoWait)).await;
        }
        let mut states = std::pin::pin!(onlooker.locks.locks());
        assert!(matches!(states.next().await, Some(Ok(_))));
        onlooker.locks.shutdown(HeldLocks::Keep, SECOND).await;
        let rest: Vec<_> = states.collect().await;
        assert_is!(rest[..], [Err(Error::ShutDown(_))]);
    });
}

#[test]
#[should_panic(expected = "reads that are not consistent")]
fn a_client_whose_reads_are_not_consistent_is_found() {
    in_lab(async |_, [host]| {
        let _ = host.network.clone().rewrite(|body| {
            body["ConsistentRead"] = false.into();
        });
        host.inspect().await;
    });
}
