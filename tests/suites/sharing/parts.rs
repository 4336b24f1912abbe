//! Holds of several permits of which a part is given back, and guards that are split and merged.

use fairlock::embedded::{Fault, When};
use fairlock::{Error, Invalid, LockGuard, RecordWait};
use futures::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{SECOND, requests_of, takes, waits_for, waits_to_share};
use fairlock_testkit::lab::{Host, Lab, acquire, cut_off};
use fairlock_testkit::verbs::meets;
use fairlock_testkit::virtual_time;

/// How many permits the table shows as held, by each holder.
async fn shown(host: &Host) -> Vec<u64> {
    let state = host.locks.fair_lock("s").unwrap().inspect().await.unwrap();
    let holders = state.holder.iter().chain(&state.sharers);
    holders.map(|holder| holder.permits).collect()
}

#[test]
fn a_part_that_is_given_back_goes_to_the_next_in_the_queue_by_one_request() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let mut guard = takes(&hosts[0], 5).await;
        let two = waits_for(&lab, &hosts[1], 2).await;
        let one = waits_for(&lab, &hosts[2], 1).await;
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
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let mut guard = takes(&host, 3).await;
        let before = host.network.counts().requests();
        for said in [0, 3, 4, u64::MAX] {
            let part = Invalid::Part { said, held: 3 };
            assert_eq!(guard.split(said).map(drop), Err(part.clone()));
            match guard.release_some(said).await {
                Err(Error::Invalid(invalid)) => assert_eq!(invalid, part),
                other => panic!("{said}: {other:?}"),
            }
        }
        assert_eq!(host.network.counts().requests(), before);
        let mut one = guard.split(1).unwrap();
        assert!(one.split(1).is_err(), "it has one");
        drop(one);
        guard.release().await.unwrap();
    });
}

#[test]
fn guards_that_were_split_hold_until_the_last_of_them_goes() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..2).map(|_| lab.host()).collect();
        let mut guard = takes(&hosts[0], 5).await;
        let (half, requests) = requests_of(&hosts[0], async { guard.split(3).unwrap() }).await;
        assert_eq!((guard.permits(), half.permits(), requests), (2, 3, 0));
        assert_eq!(guard.ticket(), half.ticket());
        let next = waits_for(&lab, &hosts[1], 3).await;
        half.release().await.unwrap();
        let next = next.await.unwrap();
        assert_eq!(shown(&hosts[1]).await, [2, 3]);
        lab.wait(90 * SECOND).await;
        assert!(guard.is_held() && next.is_held());
        next.release().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(shown(&hosts[1]).await, [0; 0]);
    });
}

#[test]
fn a_part_that_is_dropped_is_given_back_in_the_background() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..2).map(|_| lab.host()).collect();
        let mut guard = takes(&hosts[0], 4).await;
        let parts = [guard.split(1).unwrap(), guard.split(1).unwrap()];
        drop(parts);
        lab.settle().await;
        assert_eq!(shown(&hosts[1]).await, [2]);
        // Cut off for a while: the part is given back as soon as the table can be reached.
        let part = guard.split(1).unwrap();
        hosts[0].network.set_faults(cut_off());
        drop(part);
        lab.wait(5 * SECOND).await;
        hosts[0]
            .network
            .set_faults(fairlock::embedded::Faults::default());
        lab.wait(15 * SECOND).await;
        assert_eq!(shown(&hosts[1]).await, [1]);
        drop(guard);
        lab.settle().await;
        assert_eq!(shown(&hosts[1]).await, [0; 0]);
    });
}

#[test]
fn all_parts_that_are_released_at_one_time_leave_nothing_behind() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..2).map(|_| lab.host()).collect();
        for dropped in [0, 2, 5] {
            let mut guard = takes(&hosts[0], 5).await;
            let mut parts: Vec<_> = (0..4).map(|_| guard.split(1).unwrap()).collect();
            parts.push(guard);
            drop(parts.split_off(5 - dropped));
            let released = join_all(parts.into_iter().map(LockGuard::release)).await;
            assert!(released.into_iter().all(|one| one.is_ok()), "{dropped}");
            lab.settle().await;
            assert_eq!(shown(&hosts[1]).await, [0; 0], "{dropped}");
        }
        assert!(takes(&hosts[1], 5).await.is_held());
    });
}

#[test]
fn merged_guards_are_one_again_and_guards_of_two_holds_are_not_merged() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let mut guard = takes(&host, 3).await;
        let part = guard.split(1).unwrap();
        guard.merge(part).unwrap();
        assert_eq!(guard.permits(), 3);
        let other = takes(&host, 2).await;
        let other = guard.merge(other).unwrap_err();
        assert_eq!((guard.permits(), other.permits()), (3, 2));
        lab.settle().await;
        assert_eq!(shown(&host).await, [3, 2]);
        guard.release().await.unwrap();
        assert_eq!(shown(&host).await, [2]);
    });
}

#[test]
fn a_loss_is_one_for_all_parts() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..2).map(|_| lab.host()).collect();
        let mut guard = takes(&hosts[0], 4).await;
        let mut part = guard.split(2).unwrap();
        hosts[0].network.set_faults(cut_off());
        let next = takes(&hosts[1], 5).await;
        hosts[0]
            .network
            .set_faults(fairlock::embedded::Faults::default());
        assert!(!guard.is_held() && !part.is_held());
        let refused = part.release_some(1).await.unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }), "{refused}");
        for guard in [guard, part] {
            let refused = guard.release().await.unwrap_err();
            assert!(matches!(refused, Error::Lost { .. }), "{refused}");
        }
        assert!(next.is_held());
        assert_eq!(shown(&hosts[1]).await, [5]);
    });
}

#[test]
fn a_part_is_given_back_though_the_answer_is_lost_and_kept_for_the_shortest_time() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let mut guard = takes(&host, 4).await;
        meets(&host.network, "downgrade", 1, Fault::Lose(When::After));
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

/// A writer that is split shares the lock with readers as soon as one of its parts is gone.
#[test]
fn a_writer_may_be_split_too() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..2).map(|_| lab.host()).collect();
        let mut writer = acquire(&hosts[0]).await;
        let part = writer.split(32).unwrap();
        let refused = writer.set_data(b"no").await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(Invalid::SharedData)));
        let reader = waits_to_share(&lab, &hosts[1]).await;
        assert!(!reader.is_finished());
        part.release().await.unwrap();
        let reader = reader.await.unwrap();
        assert!(writer.is_held() && reader.is_held());
        drop((writer, reader));
        lab.settle().await;
        assert!(lab.is_free("a").await);
    });
}

/// How many permits the guards count on, and how many the table shows.
async fn counted(guards: &[&LockGuard], host: &Host) -> (u64, u64) {
    let counted = guards.iter().map(|guard| guard.permits()).sum();
    (counted, shown(host).await.iter().sum())
}

/// The answer comes too late for the caller, who asks again, or for something else.
#[test]
fn a_part_that_was_given_back_without_an_answer_is_given_back_once() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        for again in ["some", "all but one", "a sibling", "nothing"] {
            let mut guard = takes(&host, 5).await;
            let mut siblings = vec![guard.split(1).unwrap(), guard.split(1).unwrap()];
            meets(
                &host.network,
                "downgrade",
                1,
                Fault::Delay(When::After, SECOND),
            );
            let given = timeout(SECOND / 2, guard.release_some(1)).await;
            assert!(given.is_err(), "{again}");
            match again {
                "some" => guard.release_some(1).await.unwrap(),
                "all but one" => guard.downgrade().await.unwrap(),
                "a sibling" => siblings.pop().unwrap().release().await.unwrap(),
                _ => {}
            }
            lab.wait(30 * SECOND).await;
            let all: Vec<_> = siblings.iter().chain([&guard]).collect();
            let (counted, shown) = counted(&all, &host).await;
            assert_eq!(counted, shown, "{again}");
            assert!(all.into_iter().all(LockGuard::is_held), "{again}");
            drop((guard, siblings));
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
    waiting
        .next()
        .unwrap()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let second = waiting.next().unwrap().await.unwrap();
    (second, waiting.next().unwrap())
}

/// The next caller at the place wants all permits, and has them when the last part is gone.
#[test]
fn parts_of_a_hold_take_nothing_from_the_next_caller_at_its_place() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        for loses in [false, true] {
            let (mut guard, next) = batch(&lab, &host).await;
            let parts = [guard.split(1).unwrap(), guard.split(2).unwrap(), guard];
            let _check = parts[0].check_item().map(drop);
            if loses {
                meets(&host.network, "pass on", 1, Fault::Lose(When::After));
            }
            let released = join_all(parts.map(LockGuard::release)).await;
            assert!(released.iter().all(Result::is_ok), "{released:?}");
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

/// The permits go back when the next caller at the place has gone, whatever was dropped in between.
#[test]
fn parts_that_are_dropped_before_a_caller_that_goes_away_are_counted_once() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        for dropped in ["the part", "its release", "some of it"] {
            let (mut guard, next) = batch(&lab, &host).await;
            let mut part = guard.split(2).unwrap();
            let _check = guard.check_item().map(drop);
            meets(
                &host.network,
                "pass on",
                1,
                Fault::Delay(When::Before, SECOND),
            );
            let kept = match dropped {
                "the part" => {
                    drop(part);
                    None
                }
                "its release" => {
                    assert!(timeout(SECOND / 2, part.release()).await.is_err());
                    None
                }
                _ => {
                    let given = timeout(SECOND / 2, part.release_some(1)).await;
                    assert!(given.is_err());
                    Some(part)
                }
            };
            next.abort();
            lab.wait(40 * SECOND).await;
            let all: Vec<_> = kept.iter().chain([&guard]).collect();
            let (counted, shown) = counted(&all, &host).await;
            assert_eq!(counted, shown, "{dropped}");
            assert_eq!(guard.permits(), 3, "{dropped}");
            assert!(guard.is_held());
            drop((kept, guard));
            lab.settle().await;
        }
    });
}
