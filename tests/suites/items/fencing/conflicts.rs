//! What callers' transactions do to the lock's own writes.

use std::sync::atomic::Ordering;

use fairlock::LossReason;
use fairlock::embedded::{Fault, When};

use fairlock_testkit::lab::{SECOND, acquire, in_lab, loss, waits};

#[test]
fn conflicts_with_transactions_cost_neither_the_lease_nor_the_release() {
    in_lab(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        for _ in 0..5 {
            let conflicts = a.meets("renew hold", 8, Fault::Conflict);
            while conflicts.load(Ordering::SeqCst) < 8 {
                lab.wait(SECOND).await;
                assert!(guard.is_held() && !guard.in_danger());
            }
            lab.wait(2 * SECOND).await;
            assert!(guard.remaining() > 25 * SECOND, "{:?}", guard.remaining());
        }
        let conflicts = a.meets("release", 3, Fault::Conflict);
        guard.release().await.unwrap();
        assert_eq!(conflicts.load(Ordering::SeqCst), 3);
        waiting.await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_release_that_met_a_conflict_is_told_what_became_of_the_lock_since() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let conflict = Fault::Delay(When::After, SECOND).and(Fault::Conflict);
        let _met = host.meets("release", 1, conflict);
        let deleted = async {
            lab.wait(SECOND / 2).await;
            lab.delete_lock_item("a").await;
        };
        let (released, ()) = tokio::join!(guard.release(), deleted);
        let reason = loss(released);
        assert_eq!(reason, LossReason::Deleted);
    });
}

/// How often the successor polls in the three seconds after it met a fault `times` times. Its lease is short, so that it renews early in
/// the hold. Late in a hold, it would poll no more often than a waiter that was told that DynamoDB is too busy.
fn polls_after(times: usize, fault: Fault) -> u64 {
    in_lab(async |lab, [a]| {
        let b = lab.host_with(|builder| {
            builder
                .lease_duration(3 * SECOND)
                .heartbeat_interval(SECOND)
        });
        let _guard = acquire(&a).await;
        let _waiting = waits(lab, &b).await;
        let met = b.meets("renew slot", times, fault);
        while met.load(Ordering::SeqCst) < times {
            lab.wait(SECOND / 100).await;
        }
        let before = b.network.counts();
        lab.wait(3 * SECOND).await;
        (b.network.counts() - before).reads()
    })
}

#[test]
fn a_conflict_slows_no_poll_down_as_being_too_busy_does() {
    let [conflicts, throttles] = [Fault::Conflict, Fault::Throttle].map(|it| polls_after(5, it));
    assert!(
        conflicts > 20 && conflicts > 2 * throttles,
        "{conflicts}, {throttles}"
    );
}
