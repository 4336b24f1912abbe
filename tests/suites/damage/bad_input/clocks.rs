//! Clocks of hosts and servers that show any time at all: errors, perhaps, and no panic.

use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{Clock, HeldLocks, RecordWait};
use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{Host, Lab, SECOND};
use fairlock_testkit::panics::{count_panics, panics};
use fairlock_testkit::sweeps::sweep_table;
use fairlock_testkit::virtual_time;

/// The beginning, a usual time, the ends of what milliseconds, dates of answers and the system's types can tell, and beyond.
const TIMES: [Duration; 8] = [
    Duration::ZERO,
    Duration::from_secs(1_700_000_000),
    Duration::MAX,
    // The end of the year 9999.
    Duration::from_secs(253_402_300_799),
    Duration::from_secs(253_402_300_800),
    Duration::from_millis(u64::MAX),
    Duration::from_secs(i64::MAX.unsigned_abs()),
    Duration::from_secs(u64::MAX - 100_000_000),
];

/// Asks for whatever reckons with the time. Any error will do.
async fn asks_for_all(lab: &Lab, one: &Host, other: &Host) {
    let (lock, elsewhere) = (one.locks.fair_lock("a"), other.locks.fair_lock("a"));
    let (lock, elsewhere) = (lock.unwrap(), elsewhere.unwrap());
    let guard = lock.try_acquire().await;
    let _ = elsewhere.try_acquire().await;
    let _ = elsewhere.acquire(RecordWait::Timeout(30 * SECOND)).await;
    let _ = format!("{:?}", elsewhere.inspect().await);
    drop(guard);
    lab.settle().await;
    let leases = one.locks.lease_lock("b").unwrap();
    if let Ok(lease) = leases.acquire("id", 60 * SECOND).await {
        let _ = format!(
            "{:?} {:?}",
            lease,
            other.locks.lease_lock("b").unwrap().find("id").await
        );
        let _ = leases.extend(&lease, 60 * SECOND).await;
    }
    let _ = sweep_table(&one.locks).await;
    let _ = other
        .network
        .clone()
        .faults(fairlock_testkit::lab::cut_off());
    let _ = elsewhere.acquire(RecordWait::Timeout(10 * SECOND)).await;
    let _ = one.locks.shutdown(HeldLocks::Release, Duration::MAX).await;
}

/// Fails if there is a panic, in a background task too.
fn panics_never(server: Duration, host: Duration, is_dated: bool) {
    count_panics();
    virtual_time(async {
        let clock = Clock::of_tokio(Duration::ZERO).ahead(server);
        let engine = Engine::memory().unwrap().with_clock(clock.clone());
        let engine = if is_dated {
            engine
        } else {
            engine.without_date()
        };
        let lab = Lab::on(engine, clock).await;
        let own = Clock::of_tokio(host);
        let one = lab.host_with(|builder| builder.clock(own.clone()).fallback_date(own));
        asks_for_all(&lab, &one, &lab.host()).await;
    });
    assert_eq!(panics(), 0, "server {server:?}, host {host:?}, {is_dated}");
}

#[test]
fn no_time_that_a_clock_shows_is_a_panic() {
    for server in sampled(TIMES.into_iter(), 2) {
        for host in TIMES {
            panics_never(server, host, true);
        }
        panics_never(server, server, false);
    }
}
