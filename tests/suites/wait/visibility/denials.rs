//! A policy that denies the requests of a waiting call: put up with for a while, and then told as such.

use std::sync::atomic::Ordering;

use fairlock::embedded::Fault;
use fairlock::{Error, OutageKind, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{SECOND, acquire, in_lab};
use tokio::time::Instant;

use super::outages::{asks, kinds, told_by};

/// A policy that was just attached denies for some seconds.
#[test]
fn who_waits_puts_up_with_a_denial_for_twenty_seconds_and_then_is_told_it_as_such() {
    // In the queue, in a slot or at a row, the next renewal is due at once, or in the middle of the denial.
    let queued = [(32, 0), (32, 4), (1, 4)].map(Some);
    for is_queued in queued.into_iter().chain([None]) {
        for lasts in [15, 60] {
            in_lab(async |lab, []| {
                let slots = is_queued.map_or(32, |(slots, _)| slots);
                let host = || lab.host_with(|builder| builder.successor_slots(slots));
                let (holder, between, waiter) = (host(), host(), host());
                let guard = acquire(&holder).await;
                let others = asks(told_by(&between).0, RecordWait::Infinite);
                lab.settle().await;
                let (lock, told) = told_by(&waiter);
                let asked = || asks(lock.clone(), RecordWait::Infinite);
                let queued = is_queued.map(|_| asked());
                lab.wait(SECOND + is_queued.map_or(0, |(_, rests)| rests) * SECOND)
                    .await;
                waiter.script(|_| Some(Fault::Refuse("AccessDeniedException")));
                let asked = queued.unwrap_or_else(asked);
                lab.wait(lasts * SECOND).await;
                waiter.script(|_| None);
                let kinds = kinds(&told);
                assert!(kinds.contains(&Some(OutageKind::Refused)), "{kinds:?}");
                assert_eq!(asked.is_finished(), lasts > 20, "{kinds:?}");
                guard.release().await.unwrap();
                others.await.unwrap().unwrap().release().await.unwrap();
                match asked.await.unwrap() {
                    Ok(guard) => guard.release().await.unwrap(),
                    Err(refused) => {
                        assert_is!(refused, Error::Refused { .. });
                        assert!(refused.to_string().contains("AccessDenied"), "{refused}");
                    }
                }
            });
        }
    }
}

/// A draw that is denied for a while leaves no gap, so it is tried for as long as any other step.
#[test]
fn a_denial_that_meets_a_draw_alone_is_waited_out() {
    in_lab(async |lab, []| {
        let host = || lab.host_with(|builder| builder.successor_slots(1));
        let (holder, between, waiter) = (host(), host(), host());
        let guard = acquire(&holder).await;
        let others = asks(told_by(&between).0, RecordWait::Infinite);
        lab.settle().await;
        let denied = Fault::Refuse("AccessDeniedException");
        let met = waiter.meets("draw", 10, denied);
        let asked = asks(told_by(&waiter).0, RecordWait::Infinite);
        lab.wait(15 * SECOND).await;
        assert_eq!(met.load(Ordering::SeqCst), 10);
        assert!(!asked.is_finished());
        guard.release().await.unwrap();
        others.await.unwrap().unwrap().release().await.unwrap();
        asked.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_denial_ends_a_shorter_wait_when_that_is_over_and_other_refusals_end_it_at_once() {
    let denied = Fault::Refuse("AccessDeniedException");
    let missing = Fault::Refuse("ResourceNotFoundException");
    for (fault, least, most) in [(denied, 9, 13), (missing, 0, 1)] {
        in_lab(async |_, [host]| {
            host.script(move |_| Some(fault.clone()));
            let lock = host.lock();
            let started = Instant::now();
            let refused = lock.acquire(RecordWait::Timeout(10 * SECOND)).await;
            let (refused, took) = (refused.unwrap_err(), started.elapsed());
            assert_is!(refused, Error::Refused { .. });
            assert!(least * SECOND <= took && took <= most * SECOND, "{took:?}");
        });
    }
}
