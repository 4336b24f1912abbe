//! Holds that last for a time at least, however soon they are given back.

use std::time::Duration;

use fairlock::{Error, HeldLocks, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{EPOCH, Host, Lab, MS, SECOND, acquire, cut_off, in_lab, waits};
use tokio::time::Instant;

use super::{at_least, is_held};

#[test]
fn a_lock_that_is_released_early_is_held_for_its_shortest_time_and_then_handed_over() {
    in_lab(async |lab, [one, two, three]| {
        acquire(&one).await.release().await.unwrap();
        for least in [SECOND, 20 * SECOND, 3_600 * SECOND] {
            let before = one.network.counts();
            let guard = at_least(&one, least).await;
            let begun = Instant::now();
            let next = waits(lab, &two).await;
            if least > SECOND {
                guard.release().await.unwrap();
                assert!(begun.elapsed() < 2 * SECOND, "it does not wait");
                tokio::time::sleep_until(begun + least - MS).await;
                assert!(is_held(&three).await);
            } else {
                drop(guard);
            }
            let next = next.await.unwrap();
            let granted = begun.elapsed();
            assert!(
                granted >= least && granted < least + 2 * SECOND,
                "{granted:?}"
            );
            next.release().await.unwrap();
            let sent = one.network.counts() - before;
            assert!(sent.requests() <= 3, "{sent:?}");
        }
        assert!(lab.is_free("a").await);
    });
}

/// Who comes for a hold that was given back early, by a process that is gone since.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Comer {
    /// It waited already when the hold was given back.
    Before,
    After,
    /// It asks again and again, and never waits.
    NoWait,
}

/// Nobody believes in such a hold. A `Date` has whole seconds, of which a right wall clock tells the parts.
#[test]
fn a_hold_that_was_given_back_ends_with_its_shortest_time_for_all_who_come() {
    for comer in [Comer::Before, Comer::After, Comer::NoWait] {
        for (off, part) in [(0, 1), (0, 450), (0, 999), (3, 1), (3, 500), (1_000, 999)] {
            let (off, part) = (SECOND * off, MS * part);
            in_lab(async |lab, []| {
                let host = || lab.host_with(|to| to.clock(lab.clock.clone().ahead(off)));
                for least in sampled(
                    [SECOND, 5 * SECOND, 50 * SECOND, 600 * SECOND].into_iter(),
                    2,
                ) {
                    tokio::time::sleep(part).await;
                    let granted = next_after(lab, [host(), host()], comer, least).await;
                    // A wrong wall clock tells nothing of the parts of a second, nor of what the clock of leases may have drifted.
                    let differ = if off.is_zero() { 0 } else { 2 };
                    let bound = least + SECOND * (1 + differ) + MS * 300;
                    assert!(
                        granted >= least && granted <= bound,
                        "{comer:?}, clocks {off:?} off, {part:?}: {granted:?} of {least:?}"
                    );
                }
            });
        }
    }
}

/// One host gives a hold back early and is gone. Returns when the other has the lock.
async fn next_after(lab: &Lab, hosts: [Host; 2], comer: Comer, least: Duration) -> Duration {
    let [one, two] = hosts;
    let guard = at_least(&one, least).await;
    let begun = Instant::now();
    let waiter = match comer {
        Comer::Before => Some(waits(lab, &two).await),
        Comer::After | Comer::NoWait => None,
    };
    tokio::time::sleep(least / 5).await;
    guard.release().await.unwrap();
    one.network.set_faults(cut_off());
    let next = match waiter {
        Some(waiter) => waiter.await.unwrap(),
        None if comer == Comer::After => acquire(&two).await,
        None => {
            tokio::time::sleep_until(begun + least - SECOND).await;
            loop {
                match two.try_acquire().await {
                    Some(guard) => break guard,
                    None => tokio::time::sleep(MS * 50).await,
                }
            }
        }
    };
    let granted = begun.elapsed();
    next.release().await.unwrap();
    lab.settle().await;
    granted
}

#[test]
fn a_hold_that_was_given_back_is_shown_as_such_and_is_no_takeover() {
    in_lab(async |lab, []| {
        let (one, two, began) = (lab.host(), lab.host(), Instant::now());
        let guard = at_least(&one, 20 * SECOND).await;
        assert_eq!(two.inspect().await.holder.unwrap().kept_until, None);
        lab.wait(SECOND).await;
        guard.release().await.unwrap();
        one.network.set_faults(cut_off());
        let holder = two.inspect().await.holder.unwrap();
        let until = holder.kept_until.unwrap();
        let until = until.duration_since(std::time::UNIX_EPOCH + EPOCH).unwrap();
        let passed = began.elapsed();
        assert!(
            until > passed + 18 * SECOND && until < passed + 20 * SECOND,
            "{until:?}"
        );
        let refused = two.lock().acquire(RecordWait::Timeout(SECOND)).await;
        let told = refused.unwrap_err().to_string();
        assert!(
            told.contains("it is kept until ") && told.contains("gave ticket"),
            "{told}"
        );
        assert!(!told.contains("has it"), "{told}");
    });
}

#[test]
fn a_shutdown_leaves_the_rest_of_the_shortest_time_to_the_lease() {
    for held in [HeldLocks::Keep, HeldLocks::Release] {
        in_lab(async |_, [one, two]| {
            acquire(&two).await.release().await.unwrap();
            let guard = at_least(&one, 40 * SECOND).await;
            let begun = Instant::now();
            // The shutdown that releases finds the guard in use.
            let _guard = match held {
                HeldLocks::Keep => {
                    guard.release().await.unwrap();
                    None
                }
                HeldLocks::Release => Some(guard),
            };
            let report = one.locks.shutdown(held, 60 * SECOND).await;
            let took = begun.elapsed();
            assert!(took < SECOND, "{held:?}: {report:?} after {took:?}");
            tokio::time::sleep_until(begun + 39 * SECOND).await;
            assert!(is_held(&two).await, "{held:?}");
            tokio::time::sleep_until(begun + 55 * SECOND).await;
            assert!(!is_held(&two).await, "{held:?}");
        });
    }
}

#[test]
fn a_release_that_cannot_keep_the_lock_says_so_and_its_lease_ends_the_hold() {
    in_lab(async |lab, [one, two]| {
        let guard = at_least(&one, 60 * SECOND).await;
        let next = waits(lab, &two).await;
        one.network.set_faults(cut_off());
        let released = guard.release().await.unwrap_err();
        assert_is!(released, Error::Unavailable { .. });
        next.await.unwrap().release().await.unwrap();
    });
}

/// No work began under such a grant, so nothing is kept from the others.
#[test]
fn a_grant_that_its_call_did_not_take_is_given_back_before_its_shortest_time() {
    for is_dropped in [false, true] {
        in_lab(async |lab, [one, two]| {
            let least = one.lock().min_hold(600 * SECOND);
            let mut call = Box::pin(least.acquire(RecordWait::Infinite));
            assert!(futures::poll!(call.as_mut()).is_pending());
            // It is granted by then, and the client takes no guard back yet.
            lab.settle().await;
            assert!(is_held(&two).await);
            match is_dropped {
                true => drop(call),
                false => {
                    lab.wait(5 * SECOND).await;
                    let untaken = call.await.unwrap_err();
                    assert!(matches!(untaken, Error::NotGranted { untaken: true, .. }));
                }
            }
            lab.settle().await;
            assert!(!is_held(&two).await, "{is_dropped}");
        });
    }
}

#[test]
fn a_lock_that_is_kept_can_be_broken() {
    in_lab(async |lab, [one, two]| {
        at_least(&one, 600 * SECOND).await.release().await.unwrap();
        let seen = two.inspect().await.holder.unwrap();
        two.locks.break_hold("a", &seen, "").await.unwrap();
        assert!(!is_held(&two).await);
        lab.wait(700 * SECOND).await;
        assert!(lab.is_free("a").await);
    });
}
