//! A call that does not wait returns within five request time-outs, whatever is answered late or not at all, and reports what it found out.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::embedded::{Fault, When};
use fairlock::{Error, RecordWait};
use fairlock_testkit::lab::{Lab, acquire, cut_off};
use fairlock_testkit::verbs::{meets, verb};
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

use super::{MS, SECOND, acquires, draw_and_die, full_of_holes};

#[test]
fn a_silent_table_ends_the_call_within_five_request_timeouts() {
    for verb in ["enter known", "enter", "evict", "read queue"] {
        virtual_time(async {
            let lab = Lab::new().await;
            let (dead, host) = (lab.host(), lab.host());
            let guard = acquire(&dead).await;
            lab.wait(5 * SECOND).await;
            draw_and_die(&lab, 3).await;
            dead.network.set_faults(cut_off());
            lab.wait(60 * SECOND).await;
            let lock = host.locks.fair_lock("a").unwrap();
            if verb != "enter known" {
                lock.inspect().await.unwrap();
            }
            meets(&host.network, verb, usize::MAX, Fault::Hang(When::Before));
            let started = Instant::now();
            let refused = lock.acquire(RecordWait::NoWait).await.unwrap_err();
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
            assert!(started.elapsed() <= 10 * SECOND, "{:?}", started.elapsed());
            drop(guard);
        });
    }
}

#[test]
fn a_renewal_before_the_grant_that_nobody_answers_ends_the_call_within_five_request_timeouts() {
    virtual_time(async {
        let lab = Lab::new().await;
        acquire(&lab.host()).await.release().await.unwrap();
        // Lets the item come close to its expiry, so that a call must extend that before any grant.
        lab.wait(5 * 86_400 * SECOND).await;
        let host = lab.host();
        let _ = host.network.clone().script(|request| {
            let is_silent = !verb(request).starts_with("enter");
            is_silent.then_some(Fault::Hang(When::Before))
        });
        let started = Instant::now();
        let refused = acquires(&host, RecordWait::NoWait).await.unwrap();
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
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
        virtual_time(async {
            let lab = Lab::new().await;
            let (dead, host) = (lab.host(), lab.host());
            if is_dead {
                host.locks
                    .fair_lock("b")
                    .unwrap()
                    .try_acquire()
                    .await
                    .unwrap();
                acquire(&dead).await.release().await.unwrap();
                draw_and_die(&lab, 3).await;
                lab.wait(60 * SECOND).await;
            }
            let asked = AtomicUsize::new(0);
            let _ = host.network.clone().script(move |request| {
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
        virtual_time(async {
            let lab = Lab::new().await;
            if !is_shared {
                acquire(&lab.host()).await.release().await.unwrap();
                // The item's expiry must be extended before any grant.
                lab.wait(5 * 86_400 * SECOND).await;
            }
            let host = lab.host();
            let plan = Mutex::new(VecDeque::from(plan));
            let _ = host.network.clone().script(move |_| {
                let next = plan.lock().unwrap().pop_front();
                Some(next.unwrap_or(Fault::Hang(When::Before)))
            });
            let lock = host.locks.fair_lock("a").unwrap();
            let started = Instant::now();
            let refused = match is_shared {
                true => lock.try_acquire_shared().await.map(drop),
                false => lock.try_acquire().await.map(drop),
            };
            let took = started.elapsed();
            let refused = refused.unwrap_err();
            assert!(took <= 10 * SECOND, "shared {is_shared}: {took:?}");
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
            let _ = host.network.clone().script(|_| None);
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
        let _ = host.network.clone().script(move |_| Some(late.clone()));
        let started = Instant::now();
        let refused = acquires(&host, RecordWait::NoWait).await.unwrap();
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
        assert!(started.elapsed() <= 10 * SECOND, "{:?}", started.elapsed());
    });
}
