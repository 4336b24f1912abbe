//! Locks of several permits, one or several of which are had at a time.

use fairlock::{Error, Invalid, LockGuard, Problem, RecordWait};
use futures::future::join_all;
use tokio::task::JoinHandle;

use crate::common::virtual_time;
use crate::lab::{Host, Lab};
use crate::{shares, waits_to_share};

/// Starts waiting for permits of lock `s`, of which there are five.
async fn waits_for(lab: &Lab, host: &Host, permits: u64) -> JoinHandle<LockGuard> {
    let lock = host.locks.semaphore("s", 5).unwrap();
    let wait = RecordWait::Infinite;
    let waiting = tokio::spawn(async move { lock.acquire_many(permits, wait).await.unwrap() });
    lab.settle().await;
    waiting
}

#[test]
fn permits_are_had_by_as_many_as_there_are() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..6).map(|_| lab.host()).collect();
        let mut held = Vec::new();
        for host in &hosts[..5] {
            let lock = host.locks.semaphore("s", 5).unwrap();
            held.push(lock.acquire(RecordWait::NoWait).await.unwrap());
        }
        let sixth = waits_for(&lab, &hosts[5], 1).await;
        assert!(!sixth.is_finished());
        held.remove(2).release().await.unwrap();
        held.push(sixth.await.unwrap());
        assert!(held.iter().all(LockGuard::is_held));
    });
}

#[test]
fn who_waits_for_many_permits_is_not_passed_by_who_wants_one() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..4).map(|_| lab.host()).collect();
        let three = waits_for(&lab, &hosts[0], 3).await.await.unwrap();
        let one = waits_for(&lab, &hosts[1], 1).await.await.unwrap();
        let four = waits_for(&lab, &hosts[2], 4).await;
        let last = waits_for(&lab, &hosts[3], 1).await;
        assert!(!four.is_finished() && !last.is_finished(), "one is left");
        three.release().await.unwrap();
        let (four, ()) = (four.await.unwrap(), lab.settle().await);
        assert!(!last.is_finished(), "none is left");
        one.release().await.unwrap();
        let last = last.await.unwrap();
        assert_eq!((four.permits(), last.permits()), (4, 1));
        assert!(four.is_held() && last.is_held());
    });
}

#[test]
fn who_says_another_number_of_permits_is_refused_and_writes_nothing() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let five = host.locks.semaphore("s", 5).unwrap();
        let guard = five.acquire(RecordWait::NoWait).await.unwrap();
        for wait in [RecordWait::NoWait, RecordWait::Infinite] {
            let six = host.locks.semaphore("s", 6).unwrap();
            let refused = six.acquire(wait).await.unwrap_err();
            let Error::Unreadable { problem, .. } = &refused else {
                panic!("{refused}")
            };
            assert_eq!(*problem, Problem::Permits { found: 5, said: 6 });
        }
        let refused = host
            .locks
            .fair_lock("s")
            .unwrap()
            .acquire(RecordWait::Infinite)
            .await;
        assert!(
            matches!(refused, Err(Error::Unreadable { .. })),
            "{refused:?}"
        );
        guard.release().await.unwrap();
        // Free or not.
        let refused = host.locks.fair_lock("s").unwrap().try_acquire().await;
        assert!(
            matches!(refused, Err(Error::Unreadable { .. })),
            "{refused:?}"
        );
        let state = host.locks.fair_lock("s").unwrap().inspect().await.unwrap();
        assert_eq!((state.permits, state.holder), (Some(5), None));
        five.acquire(RecordWait::NoWait)
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    });
}

#[test]
fn permits_that_there_cannot_be_are_refused() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        assert!(matches!(
            host.locks.semaphore("s", 0),
            Err(Error::Invalid(_))
        ));
        assert!(matches!(
            host.locks.semaphore("s", 1001),
            Err(Error::Invalid(_))
        ));
        let five = host.locks.semaphore("s", 5).unwrap();
        for permits in [0, 6] {
            let refused = five
                .acquire_many(permits, RecordWait::NoWait)
                .await
                .unwrap_err();
            let expected = Invalid::Permits {
                said: permits,
                most: 5,
            };
            assert!(matches!(refused, Error::Invalid(found) if found == expected));
        }
        assert_eq!(host.network.counts().requests(), 0);
    });
}

#[test]
fn more_readers_than_a_lock_has_permits_wait_for_their_turn() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let readers = join_all((0..64).map(|_| shares(&host))).await;
        let late = waits_to_share(&lab, &host).await;
        assert!(!late.is_finished());
        for reader in readers {
            reader.release().await.unwrap();
        }
        assert!(late.await.unwrap().is_held());
    });
}
