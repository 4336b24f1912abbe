//! Guards that become leases.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::embedded::{Fault, When};
use fairlock::{Error, Fence, HeldLocks, Lease, LossReason, RecordWait};
use futures::future::join;

use super::{ALLOWED, MINUTE, in_processes, is_at_rest, is_refused, named, process};
use fairlock_testkit::assert_is;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Lab, SECOND, acquire, cut_off, in_lab, waits};
use fairlock_testkit::verbs::verb;
use fairlock_testkit::virtual_time;
use tokio::time::timeout;

#[test]
fn a_guard_that_waited_becomes_a_lease_that_another_process_ends() {
    in_processes(async |lab, [a, b, c]| {
        let held = acquire(&a).await;
        let guard = waits(lab, &b).await;
        held.release().await.unwrap();
        let guard = guard.await.unwrap();
        guard.set_data("where the work stands").await.unwrap();
        let (ticket, lost) = (guard.ticket(), guard.lost());
        let before = b.network.counts().requests();
        let lease = guard.into_lease("job", 5 * MINUTE).await.unwrap();
        assert_eq!(b.network.counts().requests() - before, 1);
        assert_eq!(
            (lease.lock(), lease.id(), lease.ticket()),
            ("a", "job", ticket)
        );
        let next = waits(lab, &c).await;
        lab.wait(5 * MINUTE - 10 * SECOND).await;
        assert!(!next.is_finished(), "the lease lasts");
        let longer = named(&c).extend(&lease, 5 * MINUTE).await.unwrap();
        assert_eq!(
            Fence::new("fence", longer.ticket()),
            Fence::new("fence", ticket)
        );
        let state = a.inspect().await;
        assert_eq!(state.data.unwrap().bytes.as_ref(), b"where the work stands");
        named(&a).release(&longer).await.unwrap();
        next.await.unwrap().release().await.unwrap();
        // A guard that became a lease is not lost.
        assert!(futures::FutureExt::now_or_never(lost).is_none());
        assert!(is_at_rest(lab).await);
    });
}

/// Requests of the client as a holder that come after the lease has begun change nothing.
#[test]
fn a_late_renewal_of_the_guard_does_not_shorten_the_lease() {
    in_processes(async |lab, [a, b]| {
        let guard = acquire(&b).await;
        let late = Fault::Delay(When::Before, 8 * SECOND);
        let met = b.meets("renew hold", 1, late);
        while met.load(Ordering::SeqCst) == 0 {
            lab.wait(SECOND / 10).await;
        }
        let lease = guard.into_lease("job", 5 * MINUTE).await.unwrap();
        lab.wait(20 * SECOND).await;
        let found = named(&a).find("job").await.unwrap();
        assert_eq!(found, Some(lease));
        lab.wait(2 * MINUTE).await;
        assert!(is_refused(&named(&a).acquire("other", MINUTE).await));
    });
}

/// A copy of the request that is under way for long must not shorten what another process has made of the lease.
#[test]
fn a_late_copy_of_the_request_takes_back_no_extension() {
    in_processes(async |lab, [a, b]| {
        let guard = acquire(&b).await;
        // The first copy is applied without an answer, and the second arrives much later.
        let sent = AtomicUsize::new(0);
        b.script(move |request| {
            let is_it = verb(request) == "lease out";
            let nth = is_it.then(|| sent.fetch_add(1, Ordering::SeqCst));
            match nth? {
                0 => Some(Fault::Lose(When::After)),
                _ => Some(Fault::Delay(When::Before, 20 * SECOND)),
            }
        });
        let (made, longer) = join(guard.into_lease("job", MINUTE), async {
            lab.wait(4 * SECOND).await;
            let lease = named(&a).find("job").await.unwrap().unwrap();
            named(&a).extend(&lease, 30 * MINUTE).await.unwrap()
        })
        .await;
        drop(made);
        lab.wait(MINUTE).await;
        assert_eq!(named(&a).find("job").await.unwrap(), Some(longer.clone()));
        lab.wait(5 * MINUTE).await;
        assert!(is_refused(&named(&b).acquire("other", MINUTE).await));
        named(&a).release(&longer).await.unwrap();
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn a_part_whose_return_is_under_way_is_not_in_the_lease() {
    virtual_time(async {
        for delay in 0..2 {
            let lab = Lab::new().await;
            let host = process(&lab).await;
            let exports = host.locks.semaphore("a", 5).unwrap();
            let mut one = exports.acquire_many(5, RecordWait::NoWait).await.unwrap();
            host.network.set_faults(fairlock::embedded::Faults {
                round_trip: fairlock::embedded::Latency::Constant(SECOND / 50),
                ..Default::default()
            });
            let given = timeout(SECOND / 100 * delay, one.release_some(3)).await;
            assert!(given.is_err(), "{delay}");
            let lease = one.into_lease("job", MINUTE).await.unwrap();
            lab.settle().await;
            let rest = exports.acquire_many(3, RecordWait::NoWait).await.unwrap();
            assert!(exports.try_acquire().await.unwrap().is_none());
            rest.release().await.unwrap();
            exports
                .lease_lock(2)
                .unwrap()
                .release(&lease)
                .await
                .unwrap();
            assert!(is_at_rest(&lab).await, "{delay}");
        }
    });
}

#[test]
fn a_place_that_has_become_a_lease_is_not_given_up() {
    in_processes(async |_, [a, b]| {
        let guard = acquire(&a).await;
        let place = guard.place_id();
        let lease = guard.into_lease("job", MINUTE).await.unwrap();
        b.locks.give_up(&place, Duration::ZERO).await.unwrap();
        assert_eq!(named(&b).find("job").await.unwrap(), Some(lease));
    });
}

#[test]
fn permits_and_shared_holds_become_leases_and_what_was_given_back_stays_so() {
    in_processes(async |lab, [a, b]| {
        let exports = a.locks.semaphore("a", 5).unwrap();
        let mut guard = exports.acquire_many(4, RecordWait::NoWait).await.unwrap();
        guard.release_some(1).await.unwrap();
        let lease = guard.into_lease("three", MINUTE).await.unwrap();
        let theirs = b.locks.semaphore("a", 5).unwrap();
        let two = theirs.acquire_many(2, RecordWait::NoWait).await.unwrap();
        assert!(theirs.try_acquire().await.unwrap().is_none());
        theirs.lease_lock(3).unwrap().release(&lease).await.unwrap();
        two.release().await.unwrap();
        assert!(is_at_rest(lab).await);
        lab.delete_lock_item("a").await;

        let mut writer = a.lock().acquire(RecordWait::NoWait).await.unwrap();
        writer.downgrade().await.unwrap();
        let lease = writer.into_lease("reader", MINUTE).await.unwrap();
        let reader = b.lock().acquire_shared(RecordWait::NoWait).await.unwrap();
        assert!(is_refused(&named(&b).acquire("writer", MINUTE).await));
        reader.release().await.unwrap();
        named(&b).shared().release(&lease).await.unwrap();
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn what_cannot_become_a_lease_is_refused_and_released() {
    in_processes(async |lab, [host]| {
        for (id, span, words) in [
            ("", MINUTE, "the id of a lease"),
            ("job", SECOND / 2, "must be at least"),
            ("job", 100_000 * MINUTE, "must be at most"),
        ] {
            let refused = acquire(&host).await.into_lease(id, span).await;
            let refused = refused.unwrap_err();
            assert!(is_invalid(&refused, words), "{refused}");
            assert!(is_at_rest(lab).await, "{id}");
        }
    });
}

#[test]
fn a_hold_that_is_lost_becomes_no_lease() {
    in_processes(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        a.network.set_faults(cut_off());
        let next = waits(lab, &b).await;
        let next = next.await.unwrap();
        a.network.set_faults(fairlock::embedded::Faults::default());
        let refused = guard.into_lease("job", MINUTE).await;
        assert_is!(refused, Err(Error::Lost { .. }));
        assert!(next.is_held());
        assert_eq!(named(&b).find("job").await.unwrap(), None);
        next.release().await.unwrap();

        // Nobody has noticed yet: the write that makes it a lease is refused.
        let guard = acquire(&a).await;
        lab.delete_lock_item("a").await;
        let refused = guard.into_lease("job", MINUTE).await;
        let is_deleted = matches!(
            refused,
            Err(Error::Lost {
                reason: LossReason::Deleted,
                ..
            })
        );
        assert!(is_deleted, "{refused:?}");
        assert_eq!(named(&b).find("job").await.unwrap(), None);
    });
}

#[test]
fn the_longest_and_the_shortest_hold_do_not_bound_the_lease() {
    in_processes(async |lab, [a, b]| {
        let bounded = a.lock().max_hold(20 * SECOND).min_hold(10 * SECOND);
        let guard = bounded.acquire(RecordWait::NoWait).await.unwrap();
        let lease = guard.into_lease("job", 2 * MINUTE).await.unwrap();
        lab.wait(MINUTE).await;
        assert_eq!(named(&b).find("job").await.unwrap(), Some(lease.clone()));
        assert!(is_refused(&named(&b).acquire("other", MINUTE).await));
        lab.wait(MINUTE + ALLOWED).await;
        let other: Lease = named(&b).acquire("other", MINUTE).await.unwrap();
        assert!(other.ticket() > lease.ticket());
    });
}

#[test]
fn a_client_that_shuts_down_leaves_the_lease_to_its_name() {
    in_processes(async |_, [a, b]| {
        let lease = acquire(&a).await.into_lease("job", MINUTE).await.unwrap();
        let report = a.locks.shutdown(HeldLocks::Release, SECOND).await;
        assert!(report.held.is_empty() && report.unfinished.is_empty());
        assert_eq!(named(&b).find("job").await.unwrap(), Some(lease));
    });
}

/// A copy of the request with which the hold began arrives when the lease is over, and an answer from before the lease when it has begun.
#[test]
fn a_late_copy_of_a_hold_that_became_a_lease_is_given_up_and_the_lease_is_not() {
    in_lab(async |lab, [host, other]| {
        acquire(&other).await.release().await.unwrap();
        let enters = AtomicUsize::new(0);
        host.script(move |request| {
            let is_enter = verb(request).starts_with("enter");
            match is_enter.then(|| enters.fetch_add(1, Ordering::SeqCst))? {
                0 => Some(Fault::Hang(When::After).and(Fault::Duplicate { after: MINUTE })),
                2 => Some(Fault::Delay(When::After, SECOND)),
                _ => None,
            }
        });
        let (guard, lock) = (acquire(&host).await, host.lock());
        let leased = async {
            lab.wait(SECOND / 2).await;
            guard.into_lease("job", MINUTE).await.unwrap()
        };
        let (refused, lease) = join(lock.try_acquire(), leased).await;
        assert!(refused.unwrap().is_none());
        lab.settle().await;
        assert_eq!(named(&host).find("job").await.unwrap(), Some(lease.clone()));
        named(&host).release(&lease).await.unwrap();
        lab.wait(MINUTE).await;
        let holder = lock.inspect().await.unwrap().holder;
        assert!(holder.is_some_and(|late| late.ticket > lease.ticket()));
        assert!(lock.try_acquire().await.unwrap().is_none(), "seen");
        assert!(lab.is_free("a").await);
    });
}
