//! A bounded queue: no more callers wait than a caller allows, however many come at once. A refused caller leaves nothing behind.

use fairlock::embedded::{Fault, Faults, Latency, When};
use fairlock::{Error, LockGuard, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{
    Host, MS, SECOND, acquire, all_wait, cut_all, have_turns, in_lab, in_slots, waits,
};
use futures::future::join_all;
use tokio::task::JoinHandle;

type Call = JoinHandle<Result<LockGuard, Error>>;

/// A call that waits without a time limit, but behind at most `most` waiters.
fn bounded(host: &Host, most: usize) -> Call {
    let lock = host.lock().max_waiters(most);
    tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await })
}

async fn waiting(onlooker: &Host) -> u64 {
    let lock = onlooker.lock();
    lock.inspect().await.unwrap().waiting
}

/// The results of some calls.
struct Sorted {
    granted: Vec<LockGuard>,
    /// For each refused call, how many waiters its error reported.
    refused: Vec<usize>,
    waiting: Vec<Call>,
}

async fn sorted(calls: Vec<Call>) -> Sorted {
    let (ended, waiting): (Vec<_>, _) = calls.into_iter().partition(Call::is_finished);
    let (mut granted, mut refused) = (Vec::new(), Vec::new());
    for ended in join_all(ended).await {
        match ended.unwrap() {
            Ok(guard) => granted.push(guard),
            Err(Error::QueueFull { waiting, .. }) => refused.push(waiting),
            Err(other) => unreachable!("{other}"),
        }
    }
    Sorted {
        granted,
        refused,
        waiting,
    }
}

async fn release_all(guards: impl IntoIterator<Item = LockGuard>) {
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[test]
fn a_call_that_would_wait_behind_too_many_is_refused_by_one_request_and_leaves_nothing() {
    in_slots(1, async |lab, hosts: [Host; 4]| {
        let guard = acquire(&hosts[0]).await;
        let queue = [waits(lab, &hosts[1]).await, waits(lab, &hosts[2]).await];
        let before = (lab.items("a").await, waiting(&hosts[0]).await);
        let lock = hosts[3].lock().max_waiters(2);
        let refused = lock.acquire(RecordWait::Infinite).await.unwrap_err();
        let told = "lock `a` has 2 waiting already, and this call waits behind fewer than 2 only: try again later";
        assert_eq!(refused.to_string(), told);
        assert_eq!(hosts[3].network.counts().requests(), 1);
        lab.settle().await;
        assert_eq!((lab.items("a").await, waiting(&hosts[0]).await), before);
        drop((guard, queue));
    });
}

#[test]
fn no_more_wait_than_may_however_many_come_at_one_moment() {
    for slots in [1, 2, 8] {
        in_slots(slots, async |lab, hosts: [Host; 40]| {
            for host in &hosts {
                host.network.set_faults(Faults {
                    round_trip: Latency::HeavyTailed {
                        median: 10 * MS,
                        p99: 100 * MS,
                    },
                    ..Faults::default()
                });
            }
            let onlooker = lab.host();
            let mut calls: Vec<_> = hosts.iter().map(|host| bounded(host, 3)).collect();
            for turn in 0..4 {
                let mut most = 0;
                for _ in 0..100 {
                    lab.wait(20 * MS).await;
                    most = most.max(waiting(&onlooker).await);
                }
                assert_eq!(most, 3 - turn, "{slots} slots");
                let Sorted {
                    granted, waiting, ..
                } = sorted(calls).await;
                assert_eq!((granted.len(), waiting.len() as u64), (1, 3 - turn));
                calls = waiting;
                release_all(granted).await;
            }
        });
    }
}

#[test]
fn those_of_one_client_who_come_together_count_one_by_one() {
    for is_held in [true, false] {
        in_lab(async |lab, [other, host]| {
            let guard = match is_held {
                true => Some(acquire(&other).await),
                false => None,
            };
            let calls = (0..10).map(|_| bounded(&host, 3)).collect();
            lab.settle().await;
            let sorted = sorted(calls).await;
            // If the lock was free, the first call holds it.
            let first = usize::from(!is_held);
            assert_eq!(sorted.granted.len(), first);
            assert_eq!(
                (sorted.refused, sorted.waiting.len()),
                (vec![3; 7 - first], 3)
            );
            release_all(sorted.granted.into_iter().chain(guard)).await;
            for call in sorted.waiting {
                call.await.unwrap().unwrap().release().await.unwrap();
            }
            lab.settle().await;
            assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn each_of_those_who_come_together_has_its_own_limit() {
    in_lab(async |lab, [other, host]| {
        let guard = acquire(&other).await;
        let unbounded = host.lock();
        let unbounded = tokio::spawn(async move { unbounded.acquire(RecordWait::Infinite).await });
        let mut calls: Vec<_> = [1, 5, 2, 2, 3].map(|most| bounded(&host, most)).into();
        calls.insert(0, unbounded);
        lab.settle().await;
        // One waiter is ahead, then two. Refused calls do not count.
        let Sorted {
            refused, waiting, ..
        } = sorted(calls).await;
        assert_eq!((refused, waiting.len()), (vec![1, 2, 2], 3));
        guard.release().await.unwrap();
        for call in waiting {
            call.await.unwrap().unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn a_queue_full_of_the_dead_is_cleared_by_those_whom_it_would_keep_out() {
    for slots in [1, 8] {
        in_slots(slots, async |lab, hosts: [Host; 5]| {
            let guard = acquire(&hosts[0]).await;
            let mut queue = Vec::new();
            for host in &hosts[1..4] {
                queue.push(bounded(host, 3));
                lab.settle().await;
            }
            lab.wait(20 * SECOND).await;
            cut_all(&hosts[..4]);
            assert!(bounded(&hosts[4], 3).await.unwrap().is_err());
            // A lease, the allowance, and the grain of dates.
            lab.wait(43 * SECOND).await;
            let alive = bounded(&hosts[4], 3).await.unwrap();
            assert!(alive.is_ok(), "{alive:?}");
            drop((guard, queue));
        });
    }
}

#[test]
fn a_draw_whose_answer_was_lost_counts_until_its_gap_is_closed() {
    in_slots(1, async |lab, hosts: [Host; 3]| {
        let guard = acquire(&hosts[0]).await;
        let successor = waits(lab, &hosts[1]).await;
        hosts[2].meets("draw", 1, Fault::Lose(When::After));
        let told = bounded(&hosts[2], 2).await.unwrap();
        assert_is!(
            told,
            Err(Error::QueueFull {
                waiting: 2,
                limit: 2,
                ..
            })
        );
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        let alive = bounded(&hosts[2], 2).await.unwrap();
        assert!(alive.is_ok(), "{alive:?}");
    });
}

/// The client's own release showed it a queue. Its waiters have left since, or still wait.
#[test]
fn a_call_is_refused_for_the_queue_as_it_is_and_not_as_its_client_saw_it_before() {
    for is_gone in [true, false] {
        in_slots(8, async |lab, hosts: [Host; 4]| {
            let guard = acquire(&hosts[0]).await;
            let mut queue = all_wait(lab, &hosts[1..]).await;
            guard.release().await.unwrap();
            have_turns(queue.drain(..if is_gone { 3 } else { 1 })).await;
            let told = bounded(&hosts[0], 1).await.unwrap();
            match (is_gone, told) {
                (true, Ok(guard)) => guard.release().await.unwrap(),
                (false, Err(Error::QueueFull { waiting: 1, .. })) => {}
                (_, told) => unreachable!("{told:?}"),
            }
            have_turns(queue).await;
        });
    }
}

#[test]
fn those_who_share_a_lock_do_not_wait_for_it() {
    in_lab(async |lab, hosts: [Host; 8]| {
        let lock = |host: &Host, most| host.lock().max_waiters(most);
        let mut readers = Vec::new();
        for host in &hosts[..5] {
            let shared = lock(host, 1).acquire_shared(RecordWait::Infinite).await;
            readers.push(shared.unwrap());
        }
        let writer = lock(&hosts[5], 1);
        let writer = tokio::spawn(async move { writer.acquire(RecordWait::Infinite).await });
        lab.settle().await;
        let refused = lock(&hosts[6], 1)
            .acquire_shared(RecordWait::Infinite)
            .await;
        let refused = refused.unwrap_err();
        assert_is!(
            refused,
            Error::QueueFull {
                waiting: 1,
                limit: 1,
                ..
            }
        );
        for reader in readers {
            reader.release().await.unwrap();
        }
        drop(writer.await.unwrap().unwrap());
    });
}

#[test]
fn a_limit_of_nobody_is_refused_and_means_nothing_to_those_who_do_not_wait() {
    in_lab(async |lab, [host]| {
        let lock = host.lock();
        let none = lock
            .clone()
            .max_waiters(0)
            .acquire(RecordWait::Infinite)
            .await;
        assert!(is_invalid(&none.unwrap_err(), "max_waiters(0)"));
        assert_eq!(host.network.counts().requests(), 0);
        let guard = acquire(&host).await;
        let _successor = waits(lab, &host).await;
        let refused = lock.max_waiters(1).acquire(RecordWait::NoWait).await;
        assert!(matches!(refused, Err(Error::NotGranted { .. })));
        drop(guard);
    });
}
