//! A call that does not wait returns within five request time-outs, whatever is answered late or not at all, and reports what it found out.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::embedded::{Fault, When};
use fairlock::{Error, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{MS, SECOND, acquire, cut_off, in_lab};
use fairlock_testkit::verbs::verb;
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

use super::{acquires, draw_and_die, full_of_holes};

#[test]
fn a_silent_table_ends_the_call_within_five_request_timeouts() {
    for verb in ["enter known", "enter", "evict", "read queue"] {
        in_lab(async |lab, [dead, host]| {
            let guard = acquire(&dead).await;
            lab.wait(5 * SECOND).await;
            draw_and_die(lab, 3).await;
            dead.network.set_faults(cut_off());
            lab.wait(60 * SECOND).await;
            let lock = host.lock();
            if verb != "enter known" {
                lock.inspect().await.unwrap();
            }
            host.meets(verb, usize::MAX, Fault::Hang(When::Before));
            let started = Instant::now();
            let refused = lock.acquire(RecordWait::NoWait).await.unwrap_err();
            assert_is!(refused, Error::Unavailable { .. });
            assert!(started.elapsed() <= 10 * SECOND, "{:?}", started.elapsed());
            drop(guard);
        });
    }
}

#[test]
fn a_renewal_before_the_grant_that_nobody_answers_ends_the_call_within_five_request_timeouts() {
    in_lab(async |lab, []| {
        acquire(&lab.host()).await.release().await.unwrap();
        // Lets the item come close to its expiry, so that a call must extend that before any grant.
        lab.wait(5 * 86_400 * SECOND).await;
        let host = lab.host();
        host.script(|request| {
            let is_silent = !verb(request).starts_with("enter");
            is_silent.then_some(Fault::Hang(When::Before))
        });
        let started = Instant::now();
        let refused = acquires(&host, RecordWait::NoWait).await.unwrap();
        let refused = refused.unwrap_err();
        assert_is!(refused, Error::Unavailable { .. });
        assert!(started.elapsed() <= 10 * SECOND, "{:?}", started.elapsed());
        assert!(host.network.counts().of("UpdateItem") > 3, "it renewed");
    });
}

/// Three of its attempts are not answered. The fourth is answered at the last moment. No later request is answered.
#[test]
fn a_call_sends_nothing_more_when_its_last_attempt_is_answered_late() {
    for (what, is_dead) in [
        ("enter known", false),
        ("enter", true),
        ("read queue", true),
    ] {
        in_lab(async |lab, [dead, host]| {
            if is_dead {
                host.locks
                    .fair_lock("b")
                    .unwrap()
                    .try_acquire()
                    .await
                    .unwrap();
                acquire(&dead).await.release().await.unwrap();
                draw_and_die(lab, 3).await;
                lab.wait(60 * SECOND).await;
            }
            let asked = AtomicUsize::new(0);
            host.script(move |request| {
                let is_it = verb(request) == what || asked.load(Ordering::SeqCst) > 0;
                let nth = asked.fetch_add(usize::from(is_it), Ordering::SeqCst);
                let late = Fault::Delay(When::After, 1999 * MS);
                match (is_it, nth) {
                    (false, _) => None,
                    (true, 3) => Some(late),
                    (true, _) => Some(Fault::Hang(When::Before)),
                }
            });
            let started = Instant::now();
            let outcome = acquires(&host, RecordWait::NoWait).await.unwrap();
            assert!(
                started.elapsed() <= 10 * SECOND,
                "{what}: {:?}",
                started.elapsed()
            );
            let refused = outcome.unwrap_err();
            // It did not learn of any holder.
            assert!(
                matches!(refused, Error::Unavailable { .. }),
                "{what}: {refused}"
            );
        });
    }
}

/// A late answer is followed by a request of another kind that is not answered. That is the renewal of a hold whose item would expire soon,
/// or the read of a missing item.
#[test]
fn a_call_ends_within_five_request_timeouts_whatever_follows_a_late_answer() {
    let late = || Fault::Delay(When::After, 1990 * MS);
    let lost = |after: u32| Fault::Lose(When::Before).and(Fault::Delay(When::Before, after * MS));
    for (is_shared, plan) in [
        (
            false,
            vec![
                Fault::Hang(When::Before),
                Fault::Hang(When::Before),
                Fault::Hang(When::Before),
                late(),
            ],
        ),
        (
            true,
            vec![
                late(),
                Fault::Hang(When::Before),
                late(),
                lost(1800),
                late(),
            ],
        ),
    ] {
        in_lab(async |lab, []| {
            if !is_shared {
                acquire(&lab.host()).await.release().await.unwrap();
                // The item's expiry must be extended before any grant.
                lab.wait(5 * 86_400 * SECOND).await;
            }
            let host = lab.host();
            let plan = Mutex::new(VecDeque::from(plan));
            host.script(move |_| {
                let next = plan.lock().unwrap().pop_front();
                Some(next.unwrap_or(Fault::Hang(When::Before)))
            });
            let lock = host.lock();
            let started = Instant::now();
            let refused = match is_shared {
                true => lock.try_acquire_shared().await.map(drop),
                false => lock.try_acquire().await.map(drop),
            };
            let took = started.elapsed();
            let refused = refused.unwrap_err();
            assert!(took <= 10 * SECOND, "shared {is_shared}: {took:?}");
            assert_is!(refused, Error::Unavailable { .. });
            host.script(|_| None);
            lab.wait(3 * SECOND).await;
            assert!(lab.is_free("a").await, "shared {is_shared}");
        });
    }
}

#[test]
fn a_call_ends_within_five_request_timeouts_however_much_is_in_the_way() {
    virtual_time(async {
        let (_lab, host) = full_of_holes(1000).await;
        let late = Fault::Delay(When::After, 1500 * MS);
        host.script(move |_| Some(late.clone()));
        let started = Instant::now();
        let refused = acquires(&host, RecordWait::NoWait).await.unwrap();
        let refused = refused.unwrap_err();
        assert_is!(refused, Error::Unavailable { .. });
        assert!(started.elapsed() <= 10 * SECOND, "{:?}", started.elapsed());
    });
}
