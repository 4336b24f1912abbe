//! Calls that share some of their locks, or take permits.

use fairlock::{Error, LockClaim, MultiLock, RecordWait};

use super::{acquire, waits};
use fairlock_testkit::assert_is;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, SECOND, in_lab};
use fairlock_testkit::virtual_time;

/// One lock alone, a share of another, and two permits of five.
fn mixed(host: &Host) -> MultiLock {
    let claims = [
        LockClaim::permits("exports", 5, 2),
        LockClaim::shared("catalogue"),
        LockClaim::from("account"),
    ];
    host.locks.multi_lock(claims).unwrap()
}

#[test]
fn a_call_takes_one_lock_alone_shares_another_and_takes_permits_of_a_third() {
    in_lab(async |lab, [a, b]| {
        let guard = mixed(&a).acquire(RecordWait::NoWait).await.unwrap();
        let held = guard.guards().iter();
        let held: Vec<_> = held
            .map(|it| (it.name(), it.permits(), it.total_permits()))
            .collect();
        assert_eq!(
            held,
            [("account", 64, 64), ("catalogue", 1, 64), ("exports", 2, 5)]
        );
        // Beside it, others read and take the permits that are left.
        let catalogue = b.locks.fair_lock("catalogue").unwrap();
        let reader = catalogue.acquire_shared(RecordWait::NoWait).await.unwrap();
        let exports = b.locks.semaphore("exports", 5).unwrap();
        let three = exports.acquire_many(3, RecordWait::NoWait).await.unwrap();
        for refused in [
            catalogue.try_acquire().await,
            exports.try_acquire().await,
            b.locks.fair_lock("account").unwrap().try_acquire().await,
        ] {
            assert!(refused.unwrap().is_none());
        }
        three.release().await.unwrap();
        reader.release().await.unwrap();
        guard.release().await.unwrap();
        for lock in ["account", "catalogue", "exports"] {
            lab.settle().await;
            assert_eq!(lab.items(lock).await, ["fairlock/#lock"]);
        }
    });
}

#[test]
fn a_call_waits_for_permits_and_shares_and_a_refusal_gives_all_back() {
    in_lab(async |lab, [a, b]| {
        let writer = acquire(&a, "catalogue").await;
        let waiting = waits(lab, mixed(&b), RecordWait::Infinite).await;
        let exports = a.locks.semaphore("exports", 5).unwrap();
        let four = exports.acquire_many(4, RecordWait::NoWait).await.unwrap();
        writer.release().await.unwrap();
        lab.settle().await;
        assert!(!waiting.is_finished(), "one permit is left of two");
        let refused = mixed(&a).acquire(RecordWait::Timeout(SECOND)).await;
        let is_named = matches!(&refused, Err(Error::NotGranted { lock, .. }) if lock == "account");
        assert!(is_named, "{refused:?}");
        four.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        guard.release().await.unwrap();
        lab.settle().await;
        let all = exports.acquire_many(5, RecordWait::NoWait).await.unwrap();
        let refused = mixed(&b).try_acquire().await.unwrap();
        assert!(refused.is_none());
        lab.settle().await;
        assert!(lab.is_free("account").await && lab.is_free("catalogue").await);
        all.release().await.unwrap();
    });
}

#[test]
fn a_lock_that_is_claimed_twice_is_claimed_once_or_refused() {
    virtual_time(async {
        let host = Lab::new().await.host();
        let claims = |claims: &[LockClaim]| host.locks.multi_lock(claims.iter().cloned());
        let shared = || LockClaim::shared("a");
        let both = claims(&[shared(), LockClaim::from("a"), shared()]).unwrap();
        let guard = both.acquire(RecordWait::NoWait).await.unwrap();
        assert_eq!(guard.guards().len(), 1);
        assert_eq!(guard.guards()[0].permits(), 64, "alone");
        guard.release().await.unwrap();
        let once = claims(&[shared(), shared()]).unwrap();
        let guard = once.acquire(RecordWait::NoWait).await.unwrap();
        assert_eq!(guard.guards()[0].permits(), 1);
        guard.release().await.unwrap();
        let permits = |of, asks| LockClaim::permits("s", of, asks);
        assert!(claims(&[permits(5, 2), permits(5, 2)]).is_ok());
        for refused in [
            claims(&[permits(5, 2), permits(5, 3)]),
            claims(&[permits(5, 2), permits(6, 2)]),
            claims(&[permits(5, 2), LockClaim::from("s")]),
            claims(&[permits(5, 6)]),
            claims(&[permits(5, 0)]),
            claims(&[permits(0, 0)]),
            claims(&[LockClaim::shared("")]),
            claims(&[]),
        ] {
            assert_is!(refused.map(drop), Err(Error::Invalid(_)));
        }
        let most = claims(&[permits(5, 6)]).map(drop).unwrap_err();
        let words = "6 permits were asked for, where there are 1 to 5";
        assert!(is_invalid(&most, words), "{most}");
    });
}
