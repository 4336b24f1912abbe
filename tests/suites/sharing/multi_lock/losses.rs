//! A lock of several is lost, or cannot be released.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairlock::embedded::{Fault, When};
use fairlock::{Error, LossReason, RecordWait};
use futures::FutureExt;
use tokio::time::{Instant, sleep};

use super::{LEASE, REQUEST, TICK, acquire, names, several, waits};
use fairlock_testkit::assert_is;
use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{SECOND, away, in_lab};
use fairlock_testkit::verbs::verb;

#[test]
fn a_lock_that_is_lost_while_the_next_is_waited_for_is_taken_again() {
    in_lab(async |lab, [host, other, third]| {
        let b = acquire(&other, "b").await;
        let both = several(&host, &["a", "b"]);
        let waiting = waits(lab, both, RecordWait::Infinite).await;
        assert_eq!(lab.items("b").await.len(), 1, "a successor");
        lab.delete_lock_item("a").await;
        // Another client holds it before the loss is noticed.
        let a = acquire(&third, "a").await;
        lab.wait(LEASE).await;
        b.release().await.unwrap();
        // It left the queue of `b` too.
        assert!(lab.is_free("b").await);
        assert!(!waiting.is_finished());
        let before = a.ticket();
        a.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.is_held() && guard.ticket("a") > Some(before));
        guard.release().await.unwrap();
    });
}

#[test]
fn beginning_again_takes_no_more_time_than_was_given() {
    in_lab(async |lab, [host, other]| {
        let _b = acquire(&other, "b").await;
        let started = Instant::now();
        let both = several(&host, &["a", "b"]);
        let waiting = waits(lab, both, RecordWait::Timeout(60 * SECOND)).await;
        lab.delete_lock_item("a").await;
        lab.wait(LEASE).await;
        assert!(!lab.is_free("a").await, "it has it again");
        let refused = waiting.await.unwrap().unwrap_err();
        assert_is!(refused, Error::NotGranted { lock, .. } if lock == "b");
        assert!(started.elapsed() <= 60 * SECOND + REQUEST);
    });
}

#[test]
fn a_loss_when_the_time_is_nearly_over_makes_the_call_no_later_though_nothing_is_answered() {
    for tenths in sampled(270..=340, 3) {
        in_lab(async |lab, [host, other]| {
            let _b = acquire(&other, "b").await;
            let both = several(&host, &["a", "b"]);
            let (started, wait) = (Instant::now(), SECOND / 10 * tenths);
            let waiting = waits(lab, both, RecordWait::Timeout(wait)).await;
            // The lease of `a` ends after thirty seconds.
            host.script(|_| Some(Fault::Hang(When::Before)));
            let refused = waiting.await.unwrap().unwrap_err();
            let is_told = matches!(
                refused,
                Error::NotGranted { .. } | Error::Unavailable { .. }
            );
            assert!(is_told, "{refused}");
            let late = started.elapsed().checked_sub(wait).unwrap();
            assert!(late <= REQUEST + TICK, "{wait:?}: {late:?}");
        });
    }
}

#[test]
fn a_lock_that_is_lost_while_the_last_comes_too_late_ends_the_call_in_time() {
    let mut lost = 0;
    for tenths in 85..=125 {
        in_lab(async |lab, [host, other]| {
            let b = acquire(&other, "b").await;
            let both = several(&host, &["a", "b"]);
            let (started, wait) = (Instant::now(), SECOND / 10 * tenths);
            let waiting = waits(lab, both, RecordWait::Timeout(wait)).await;
            // At the end of the time, the loss of `a` is reported first, and then the answer that brings `b`.
            let told_late = move |after, before| {
                let (told, now) = (started + wait + after, Instant::now());
                let late = told - now;
                (now > started + wait - before).then_some(Fault::Delay(When::After, late))
            };
            host.script(move |request| match verb(request) {
                "renew hold" => told_late(SECOND / 2, SECOND),
                "read lock" => told_late(SECOND, SECOND / 2),
                _ => None,
            });
            lab.wait(wait - SECOND - started.elapsed()).await;
            lab.delete_lock_item("a").await;
            lab.wait(SECOND / 2).await;
            b.release().await.unwrap();
            let ended = waiting.await.unwrap();
            let late = started.elapsed().saturating_sub(wait);
            assert!(late <= REQUEST + TICK, "{wait:?}: {late:?}");
            let is_lost =
                |refused: &Error| matches!(refused, Error::NotGranted { lock, .. } if lock == "a");
            lost += usize::from(ended.as_ref().is_err_and(is_lost));
            drop(ended);
            lab.wait(LEASE).await;
            assert!(lab.is_free("b").await);
        });
    }
    assert!(lost > 0);
}

#[test]
fn a_lock_that_comes_when_the_time_is_over_is_the_last_that_is_asked_for() {
    for tenths in 1..=30 {
        in_lab(async |lab, [host]| {
            let all = several(&host, &["a", "b", "c"]);
            // At any moment, each lock alone can be acquired within one request time-out.
            host.network.set_faults(away(REQUEST * 9 / 10));
            let (started, wait) = (Instant::now(), SECOND / 10 * tenths);
            let ended = all.acquire(RecordWait::Timeout(wait)).await;
            let late = started.elapsed().saturating_sub(wait);
            assert!(late <= REQUEST + TICK, "{wait:?}: {late:?}");
            let ended = ended.map(drop).unwrap_err();
            let is_told = matches!(ended, Error::NotGranted { .. } | Error::Unavailable { .. });
            assert!(is_told, "{wait:?}: {ended}");
            lab.wait(LEASE).await;
            for lock in ["a", "b", "c"] {
                assert!(lab.is_free(lock).await, "{lock}");
            }
        });
    }
}

#[test]
fn the_first_loss_is_told_with_its_lock_and_the_others_are_still_held() {
    in_lab(async |lab, [host]| {
        let all = several(&host, &["a", "b", "c"]);
        let guard = all.acquire(RecordWait::NoWait).await.unwrap();
        lab.delete_lock_item("b").await;
        let lost = guard.lost().await;
        assert_eq!(
            (lost.lock.as_str(), lost.reason),
            ("b", LossReason::Deleted)
        );
        assert_eq!(Some(lost.ticket), guard.ticket("b"));
        assert!(!guard.is_held() && guard.remaining().is_zero());
        let held = guard.guards().iter().filter(|lock| lock.is_held());
        assert_eq!(held.count(), 2);
        // Later calls report the same loss again.
        assert_eq!(guard.lost().await.lock, "b");
        let Err(Error::Lost { lock, .. }) = guard.release().await else {
            panic!("nobody is told");
        };
        assert_eq!(lock, "b");
        assert!(lab.is_free("a").await && lab.is_free("c").await);
    });
}

#[test]
fn nothing_is_lost_once_it_was_given_back() {
    in_lab(async |lab, [host]| {
        let guard = several(&host, &["a", "b"]).try_acquire().await.unwrap();
        let guard = guard.unwrap();
        let lost = guard.lost();
        guard.release().await.unwrap();
        lab.wait(10 * LEASE).await;
        assert!(lost.now_or_never().is_none());
    });
}

#[test]
fn work_under_several_locks_is_dropped_when_one_of_them_is_lost() {
    in_lab(async |lab, [host]| {
        let both = several(&host, &["a", "b"]);
        let ran = both.run(RecordWait::NoWait, async |guard| names(guard).len());
        assert_eq!(ran.await.unwrap().into_result().unwrap(), 2);
        let ended = Arc::new(AtomicBool::new(false));
        let ran = both.run(RecordWait::NoWait, async |_| {
            lab.delete_lock_item("b").await;
            sleep(3600 * SECOND).await;
            ended.store(true, Ordering::SeqCst);
        });
        let Err(Error::Lost { lock, .. }) = ran.await else {
            panic!("it was not told");
        };
        assert!(lock == "b" && !ended.load(Ordering::SeqCst));
        assert!(lab.is_free("a").await && lab.is_free("b").await);
        let guard = both.acquire(RecordWait::NoWait).await.unwrap();
        assert_eq!(guard.run(async { 42 }).await.unwrap().value, 42);
    });
}

#[test]
fn all_are_released_at_once_and_one_that_cannot_be_keeps_none_of_the_others() {
    in_lab(async |lab, [host]| {
        let all = several(&host, &["a", "b", "c"]);
        let guard = all.acquire(RecordWait::NoWait).await.unwrap();
        let network = host.network.clone();
        let _ = network.script(|request| {
            let is_first = request.key("pk") == Some("a");
            is_first.then_some(Fault::Lose(When::Before))
        });
        let releasing = tokio::spawn(guard.release());
        assert!(lab.is_free("b").await && lab.is_free("c").await);
        assert!(!releasing.is_finished());
        let failed = releasing.await.unwrap().unwrap_err();
        assert_is!(failed, Error::Unavailable { .. });
    });
}

#[test]
fn a_loss_is_told_before_any_other_error_of_the_release() {
    in_lab(async |lab, [host]| {
        let all = several(&host, &["a", "b", "c"]);
        let guard = all.acquire(RecordWait::NoWait).await.unwrap();
        lab.delete_lock_item("c").await;
        let network = host.network.clone();
        let _ = network.script(|request| {
            let is_first = request.key("pk") == Some("a");
            is_first.then_some(Fault::Lose(When::Before))
        });
        let told = guard.release().await.unwrap_err();
        let Error::Lost { lock, reason, .. } = told else {
            panic!("{told}");
        };
        assert_eq!((lock.as_str(), reason), ("c", LossReason::Deleted));
    });
}

#[test]
fn who_does_not_wait_and_loses_a_lock_on_the_way_is_not_refused_by_itself() {
    in_lab(async |lab, [host]| {
        // The lock exists, so the first request of this host takes it before the host knows the time. The host renews it after a second.
        acquire(&lab.host(), "lock/a")
            .await
            .release()
            .await
            .unwrap();
        let slow = AtomicBool::new(true);
        // The first answer for `b` comes after `a` was lost: `a` was deleted, and the first renewal finds that after a second.
        let network = host.network.clone().script(move |request| {
            let is_first = request.mentions("lock/b") && slow.swap(false, Ordering::SeqCst);
            is_first.then_some(Fault::Delay(When::After, SECOND * 9 / 5))
        });
        let both = several(&host, &["lock/a", "lock/b"]);
        let deletes = async {
            sleep(SECOND / 2).await;
            lab.delete_lock_item("lock/a").await;
        };
        let (guard, ()) = tokio::join!(both.try_acquire(), deletes);
        let guard = guard.unwrap().expect("nobody else wants them");
        assert!(guard.is_held());
        let counts = network.counts();
        assert!(counts.requests() > 5, "it began again: {counts:?}");
        guard.release().await.unwrap();
        assert!(lab.is_free("lock/a").await && lab.is_free("lock/b").await);
    });
}
