//! Holds of several permits of which a part is given back.

use fairlock::embedded::{Fault, When};
use fairlock::{LockGuard, RecordWait};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{requests_of, takes, waits_for};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, SECOND, has_turn, in_lab};

/// How many permits the table shows as held, by each holder.
async fn shown(host: &Host) -> Vec<u64> {
    let state = host.locks.fair_lock("s").unwrap().inspect().await.unwrap();
    let holders = state.holder.iter().chain(&state.sharers);
    holders.map(|holder| holder.permits).collect()
}

#[test]
fn a_part_that_is_given_back_goes_to_the_next_in_the_queue_by_one_request() {
    in_lab(async |lab, hosts: [Host; 3]| {
        let mut guard = takes(&hosts[0], 5).await;
        let two = waits_for(lab, &hosts[1], 2).await;
        let one = waits_for(lab, &hosts[2], 1).await;
        guard.release_some(1).await.unwrap();
        lab.settle().await;
        assert!(!two.is_finished() && !one.is_finished(), "in their order");
        let (done, requests) = requests_of(&hosts[0], guard.release_some(2)).await;
        done.unwrap();
        // Besides, the client lets the next callers in.
        assert!(requests <= 2, "{requests}");
        let (two, one) = (two.await.unwrap(), one.await.unwrap());
        assert_eq!(shown(&hosts[0]).await, [2, 2, 1]);
        assert_eq!((guard.permits(), guard.total_permits()), (2, 5));
        lab.wait(90 * SECOND).await;
        assert!([&guard, &two, &one].into_iter().all(LockGuard::is_held));
        guard.release().await.unwrap();
        assert_eq!(shown(&hosts[0]).await, [2, 1]);
    });
}

#[test]
fn what_is_no_part_of_a_guard_is_refused_without_a_request() {
    in_lab(async |_, [host]| {
        let mut guard = takes(&host, 3).await;
        let before = host.network.counts().requests();
        for said in [0, 3, 4, u64::MAX] {
            let refused = guard.release_some(said).await.unwrap_err();
            let part = format!("{said} permits cannot be taken off a guard that holds 3,");
            assert!(is_invalid(&refused, &part), "{refused}");
        }
        assert_eq!(host.network.counts().requests(), before);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_part_is_given_back_though_the_answer_is_lost_and_kept_for_the_shortest_time() {
    in_lab(async |lab, [host]| {
        let mut guard = takes(&host, 4).await;
        host.meets("downgrade", 1, Fault::Lose(When::After));
        guard.release_some(1).await.unwrap();
        assert_eq!(shown(&host).await, [3]);
        guard.release().await.unwrap();
        let lock = host.locks.semaphore("s", 5).unwrap().min_hold(60 * SECOND);
        let guard = lock.acquire_many(4, RecordWait::Infinite).await;
        let mut guard = guard.unwrap();
        guard.release_some(3).await.unwrap();
        assert_eq!(guard.permits(), 1);
        lab.wait(50 * SECOND).await;
        assert_eq!(shown(&host).await, [4]);
        lab.wait(15 * SECOND).await;
        assert_eq!(shown(&host).await, [1]);
        guard.release().await.unwrap();
    });
}

/// The answer comes too late for the caller, who asks again, or for something else.
#[test]
fn a_part_that_was_given_back_without_an_answer_is_given_back_once() {
    in_lab(async |lab, [host]| {
        for again in ["some", "all but one", "nothing"] {
            let mut guard = takes(&host, 5).await;
            host.meets("downgrade", 1, Fault::Delay(When::After, SECOND));
            let given = timeout(SECOND / 2, guard.release_some(1)).await;
            assert!(given.is_err(), "{again}");
            match again {
                "some" => guard.release_some(1).await.unwrap(),
                "all but one" => guard.downgrade().await.unwrap(),
                _ => {}
            }
            lab.wait(30 * SECOND).await;
            assert_eq!(shown(&host).await, [guard.permits()], "{again}");
            assert!(guard.is_held(), "{again}");
            drop(guard);
            lab.settle().await;
        }
    });
}

/// Three callers of one client want all permits. The second and the third come together, and have their turns at one place.
async fn batch(lab: &Lab, host: &Host) -> (LockGuard, JoinHandle<LockGuard>) {
    let mut waiting = Vec::new();
    let first = takes(&lab.host(), 5).await;
    for _ in 0..3 {
        let lock = host.locks.semaphore("s", 5).unwrap();
        let wait = RecordWait::Infinite;
        waiting.push(tokio::spawn(async move {
            lock.acquire_many(5, wait).await.unwrap()
        }));
    }
    lab.settle().await;
    first.release().await.unwrap();
    let mut waiting = waiting.into_iter();
    has_turn(waiting.next().unwrap()).await;
    let second = waiting.next().unwrap().await.unwrap();
    (second, waiting.next().unwrap())
}

/// The next caller at the place wants all permits, and has them when this hold is released.
#[test]
fn a_part_that_is_given_back_takes_nothing_from_the_next_caller_at_the_place() {
    in_lab(async |lab, [host, other]| {
        for loses in [false, true] {
            let (mut guard, next) = batch(lab, &host).await;
            let _check = guard.check_item().map(drop);
            if loses {
                host.meets("pass on", 1, Fault::Lose(When::After));
            }
            guard.release_some(2).await.unwrap();
            guard.release().await.unwrap();
            let next = next.await.unwrap();
            lab.wait(30 * SECOND).await;
            assert_eq!(
                (next.permits(), shown(&other).await),
                (5, vec![5]),
                "{loses}"
            );
            let late = other.locks.semaphore("s", 5).unwrap();
            assert!(late.try_acquire().await.unwrap().is_none());
            next.set_data(b"alone").await.unwrap();
            next.release().await.unwrap();
        }
    });
}

/// The permits go back when the next caller at the place has gone, also if the call that gives them back was dropped.
#[test]
fn permits_of_a_dropped_call_before_a_caller_that_goes_away_are_counted_once() {
    in_lab(async |lab, [host]| {
        let (mut guard, next) = batch(lab, &host).await;
        let _check = guard.check_item().map(drop);
        let late = Fault::Delay(When::Before, SECOND);
        host.meets("pass on", 1, late);
        let given = timeout(SECOND / 2, guard.release_some(2)).await;
        assert!(given.is_err());
        next.abort();
        lab.wait(40 * SECOND).await;
        assert_eq!((guard.permits(), shown(&host).await), (3, vec![3]));
        assert!(guard.is_held());
    });
}
