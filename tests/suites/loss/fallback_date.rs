//! A clock that stands in for the `Date` that answers do not have: what callers get by it, and what they do not.

use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{Clock, Error, Finding, Severity};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{EPOCH, Host, Lab, SECOND, acquire, cut_off};
use fairlock_testkit::virtual_time;

const LEASE: Duration = Duration::from_secs(30);
const MINUTE: Duration = Duration::from_secs(60);
/// The server clock allowance, and the grain of dates.
const ALLOWED: Duration = Duration::from_secs(10 + 2);

/// An engine whose answers have no `Date`, as those of DynamoDB Local.
async fn silent() -> Lab {
    let clock = Clock::of_tokio(EPOCH);
    let engine = Engine::memory().unwrap().with_clock(clock.clone());
    Lab::on(engine.without_date(), clock).await
}

/// A client with the lab's clock in place of the `Date`.
fn dated(lab: &Lab) -> Host {
    lab.host_with(|builder| builder.fallback_date(lab.clock.clone()))
}

/// A hold whose host is cut off after the renewal that dates it.
async fn dead_holder(lab: &Lab, host: &Host) {
    let guard = acquire(host).await;
    lab.wait(2 * SECOND).await;
    host.network.set_faults(cut_off());
    std::mem::forget(guard);
}

#[test]
fn a_lease_is_acquired_and_ends_and_is_taken_by_another_name() {
    virtual_time(async {
        let lab = silent().await;
        let (a, b) = (dated(&lab), dated(&lab));
        let lock = |host: &Host| host.locks.lease_lock("a").unwrap();
        let lease = lock(&a).acquire("one", MINUTE).await.unwrap();
        assert_eq!(lock(&b).find("one").await.unwrap(), Some(lease.clone()));
        lab.wait(MINUTE / 2).await;
        let refused = lock(&b).acquire("other", MINUTE).await;
        assert_is!(refused, Err(Error::NotGranted { .. }));
        let longer = lock(&b).extend(&lease, MINUTE).await.unwrap();
        lab.wait(MINUTE / 2 + ALLOWED).await;
        let refused = lock(&b).acquire("other", MINUTE).await;
        assert!(refused.is_err(), "the extended lease lasts: {refused:?}");
        lab.wait(MINUTE / 2).await;
        let other = lock(&b).acquire("other", MINUTE).await.unwrap();
        assert!(other.ticket() > longer.ticket());
        assert_is!(lock(&a).release(&longer).await, Err(Error::Lost { .. }));
    });
}

#[test]
fn a_dead_holder_is_passed_by_a_caller_that_does_not_wait() {
    virtual_time(async {
        let lab = silent().await;
        dead_holder(&lab, &dated(&lab)).await;
        lab.wait(LEASE - 3 * SECOND).await;
        assert!(dated(&lab).try_acquire().await.is_none(), "its lease lasts");
        lab.wait(3 * SECOND + ALLOWED + SECOND).await;
        assert!(
            lab.host().try_acquire().await.is_none(),
            "a caller without the clock"
        );
        assert!(dated(&lab).try_acquire().await.is_some());
    });
}

#[test]
fn a_process_of_a_single_turn_that_reads_first_leaves_a_date() {
    for reads_first in [false, true] {
        virtual_time(async {
            let lab = silent().await;
            // Where there is no item, the first enter makes none, and the second has a date.
            acquire(&dated(&lab)).await.release().await.unwrap();
            let host = lab.host_with(|builder| {
                let builder = builder.fallback_date(lab.clock.clone());
                builder.testing(|it| it.reads_first = reads_first)
            });
            let lock = host.lock();
            std::mem::forget(lock.try_acquire().await.unwrap().unwrap());
            host.network.set_faults(cut_off());
            lab.wait(LEASE + ALLOWED + SECOND).await;
            let is_granted = dated(&lab).try_acquire().await.is_some();
            assert_eq!(is_granted, reads_first);
        });
    }
}

#[test]
fn a_holder_without_the_clock_is_not_passed_while_it_lives_and_without_the_clock_no_caller_passes_it()
 {
    virtual_time(async {
        let lab = silent().await;
        let undated = lab.host();
        let guard = acquire(&undated).await;
        for _ in 0..20 {
            lab.wait(LEASE / 4).await;
            assert!(dated(&lab).try_acquire().await.is_none());
        }
        assert!(guard.is_held());
        undated.network.set_faults(cut_off());
        std::mem::forget(guard);
        lab.wait(10 * LEASE).await;
        for _ in 0..3 {
            assert!(lab.host().try_acquire().await.is_none());
            lab.wait(2 * LEASE).await;
        }
    });
}

/// The clock of the client shows another year than the clock that stands in for the `Date`.
#[test]
fn items_stay_by_the_clock_that_stands_in() {
    virtual_time(async {
        let lab = silent().await;
        lab.switch_ttl_on().await;
        let host = lab.host_with(|builder| {
            let wrong = Clock::of_tokio(EPOCH / 2);
            builder.clock(wrong).fallback_date(lab.clock.clone())
        });
        for _ in 0..3 {
            acquire(&host).await.release().await.unwrap();
        }
        let day = 24 * 60 * MINUTE;
        lab.wait(3 * day).await;
        lab.engine.expire().await.unwrap();
        assert_eq!(lab.items("a").await.len(), 1, "half of the retention");
        lab.wait(5 * day).await;
        lab.engine.expire().await.unwrap();
        assert!(lab.items("a").await.is_empty());
    });
}

#[test]
fn a_check_of_the_table_names_the_clock_where_it_counts() {
    virtual_time(async {
        let lab = silent().await;
        let findings = async |host: &Host| host.locks.check_table().await.unwrap().findings;
        let found = findings(&lab.host()).await;
        assert!(found.contains(&Finding::MissingDateHeader), "{found:?}");
        let found = findings(&dated(&lab)).await;
        assert!(found.contains(&Finding::FallbackDate), "{found:?}");
        assert!(!found.contains(&Finding::MissingDateHeader), "{found:?}");
        assert_eq!(Finding::FallbackDate.severity(), Severity::Warning);
        let lab = Lab::new().await;
        let found = findings(&dated(&lab)).await;
        assert!(!found.contains(&Finding::FallbackDate), "{found:?}");
    });
}

/// No reader takes a later time than an item can hold.
#[test]
fn a_clock_beyond_all_dates_stands_in_for_none() {
    virtual_time(async {
        let lab = silent().await;
        let far = Clock::of_tokio(Duration::from_secs(u64::MAX / 2));
        let host = lab.host_with(|builder| builder.fallback_date(far));
        for _ in 0..2 {
            let guard = acquire(&host).await;
            lab.wait(LEASE).await;
            guard.release().await.unwrap();
        }
        assert!(dated(&lab).try_acquire().await.is_some());
    });
}
