//! Bounds of several locks begin when the call has all of them.

use std::time::Duration;

use fairlock::{LossReason, RecordWait};
use tokio::time::{Instant, timeout};

use super::{acquire, several, waits};
use fairlock_testkit::lab::{Lab, SECOND, away, in_lab};
use fairlock_testkit::virtual_time;

/// How long the wait for the later lock is, of which the earlier one is held meanwhile.
const LONG: Duration = Duration::from_secs(100);

#[test]
fn a_call_waits_for_a_later_lock_for_longer_than_its_holds_may_last() {
    in_lab(async |lab, [host, other]| {
        let b = acquire(&other, "b").await;
        let both = several(&host, &["a", "b"]).max_hold(25 * SECOND);
        let waiting = waits(lab, both, RecordWait::Infinite).await;
        lab.wait(LONG).await;
        assert!(!lab.is_free("a").await);
        b.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        let begun = Instant::now();
        let lost = guard.lost().await;
        assert_eq!(lost.reason, LossReason::MaxHold { limit: 25 * SECOND });
        assert!(begun.elapsed() > 24 * SECOND && begun.elapsed() <= 25 * SECOND);
        assert!(lab.is_free("a").await && lab.is_free("b").await);
    });
}

#[test]
fn free_locks_are_had_though_their_holds_are_shorter_than_the_requests_for_them() {
    virtual_time(async {
        let host = Lab::new().await.host();
        host.network.set_faults(away(SECOND / 10));
        let all = several(&host, &["a", "b", "c"]).max_hold(SECOND / 4);
        let guard = timeout(60 * SECOND, all.acquire(RecordWait::Infinite)).await;
        let guard = guard.unwrap().unwrap();
        assert!(guard.is_held());
        let begun = Instant::now();
        guard.lost().await;
        assert!(begun.elapsed() <= SECOND / 4, "{:?}", begun.elapsed());
    });
}

#[test]
fn the_shortest_time_begins_with_all_and_keeps_no_lock_of_a_call_that_has_not_all() {
    in_lab(async |lab, [host, other]| {
        let b = acquire(&other, "b").await;
        let both = several(&host, &["a", "b"]).min_hold(40 * SECOND);
        assert!(both.try_acquire().await.unwrap().is_none());
        assert!(lab.is_free("a").await);
        let waiting = waits(lab, both, RecordWait::Infinite).await;
        lab.wait(LONG).await;
        b.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        guard.release().await.unwrap();
        lab.wait(30 * SECOND).await;
        assert!(!lab.is_free("a").await && !lab.is_free("b").await);
        lab.wait(10 * SECOND).await;
        assert!(lab.is_free("a").await && lab.is_free("b").await);
    });
}

/// The call begins again, and must not wait for a lock that it held itself.
#[test]
fn a_call_that_lost_a_lock_before_it_took_its_guard_waits_for_no_shortest_time_of_its_own() {
    in_lab(async |lab, []| {
        let host = lab.host_with(|builder| builder.heartbeat_interval(SECOND));
        let both = several(&host, &["a", "b"]).min_hold(600 * SECOND);
        let begun = Instant::now();
        let mut call = Box::pin(both.acquire(RecordWait::Infinite));
        assert!(futures::poll!(call.as_mut()).is_pending());
        lab.wait(SECOND / 2).await;
        let ops = lab.host();
        let b = ops.locks.fair_lock("b").unwrap();
        let seen = b.inspect().await.unwrap().holder.unwrap();
        ops.locks.break_hold("b", &seen, "away").await.unwrap();
        // Its next renewal tells the client of it.
        lab.wait(2 * SECOND).await;
        let guard = call.await.unwrap();
        assert!(begun.elapsed() < 4 * SECOND, "{:?}", begun.elapsed());
        assert!(guard.is_held());
    });
}
