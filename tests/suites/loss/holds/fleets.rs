//! Two fleets on one lock, with settings that are each accepted: whatever one must assume about the other is true.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::LockClientBuilder;
use fairlock::embedded::{Fault, When};

use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, cut_off, in_lab, waits};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What a fleet sets, with its lease and its request time-out.
struct Fleet {
    name: &'static str,
    lease: Duration,
    timeout: Duration,
    set: fn(LockClientBuilder) -> LockClientBuilder,
}

const FLEETS: [Fleet; 6] = [
    Fleet {
        name: "defaults",
        lease: Duration::from_secs(30),
        timeout: Duration::from_millis(2_000),
        set: |builder| builder,
    },
    Fleet {
        name: "long leases and the longest heartbeats",
        lease: Duration::from_secs(720),
        timeout: Duration::from_millis(2_000),
        set: |builder| builder.lease_duration(720 * SECOND),
    },
    Fleet {
        name: "short leases",
        lease: SECOND,
        timeout: Duration::from_millis(166),
        set: |builder| {
            builder
                .lease_duration(SECOND)
                .testing(|it| it.join_timeout = Some(SECOND))
        },
    },
    Fleet {
        name: "slow requests",
        lease: Duration::from_secs(60),
        timeout: Duration::from_millis(10_000),
        set: |builder| {
            builder
                .lease_duration(60 * SECOND)
                .request_timeout(10 * SECOND)
        },
    },
    Fleet {
        name: "a long retention",
        lease: Duration::from_secs(30),
        timeout: Duration::from_millis(2_000),
        set: |builder| builder.idle_retention(90 * DAY),
    },
    Fleet {
        name: "rare heartbeats, short retention",
        lease: Duration::from_secs(60),
        timeout: Duration::from_millis(2_000),
        set: |builder| {
            let builder = builder
                .lease_duration(60 * SECOND)
                .heartbeat_interval(50 * SECOND);
            builder.idle_retention(DAY)
        },
    },
];

/// Every fleet beside every other, or a sample in which each is on both sides.
fn pairs() -> impl Iterator<Item = (&'static Fleet, &'static Fleet)> {
    let all = FLEETS
        .iter()
        .flat_map(|one| FLEETS.iter().map(move |other| (one, other)));
    sampled(all, 5)
}

/// A host of the fleet whose clock is as slow as the margin allows.
fn slow_host(lab: &Lab, fleet: &Fleet) -> Host {
    let slow = lab.clock.clone().at_rate(0.981);
    lab.host_with(|builder| (fleet.set)(builder).clock(slow))
}

#[test]
fn nobody_of_another_fleet_has_the_lock_before_its_holder_stopped_believing() {
    for (one, other) in pairs() {
        in_lab(async |lab, []| {
            let (holder, caller) = (slow_host(lab, one), lab.host_with(other.set));
            let watcher = lab.host_with(other.set);
            let guard = acquire(&holder).await;
            let waiting = waits(lab, &watcher).await;
            lab.wait(one.lease * 3 / 4).await;
            assert!(guard.is_held(), "{} / {}", one.name, other.name);
            waiting.abort();
            holder.network.set_faults(cut_off());
            let lock = caller.lock();
            let caller_has_it = async || lock.try_acquire().await.unwrap().is_some();
            // The loop ends with the lease at the latest.
            while guard.is_held() {
                assert!(!caller_has_it().await, "{} / {}", one.name, other.name);
                lab.wait(one.lease / 50).await;
            }
            lab.wait(2 * other.lease.max(one.lease) + 60 * SECOND).await;
            assert!(caller_has_it().await, "{} / {}", one.name, other.name);
        });
    }
}

#[test]
fn a_waiter_whose_row_is_late_within_its_own_time_out_is_not_passed_by_another_fleet() {
    for (one, other) in pairs() {
        in_lab(async |lab, []| {
            let [holder, successor, late] =
                [(); 3].map(|()| lab.host_with(|it| (one.set)(it).successor_slots(1)));
            let behind = lab.host_with(|it| (other.set)(it).successor_slots(1));
            let guard = acquire(&holder).await;
            let successor = waits(lab, &successor).await;
            let delay = Fault::Delay(When::Before, one.timeout * 9 / 10);
            let joins = late.meets("join", usize::MAX, delay);
            let late = waits(lab, &late).await;
            let behind = waits(lab, &behind).await;
            guard.release().await.unwrap();
            successor.await.unwrap().release().await.unwrap();
            let first = late.await.unwrap();
            assert!(!behind.is_finished(), "{} / {}", one.name, other.name);
            assert_eq!(joins.load(Ordering::SeqCst), 1);
            first.release().await.unwrap();
            behind.await.unwrap().release().await.unwrap();
        });
    }
}

#[test]
fn a_retention_must_be_twice_the_lease() {
    in_lab(async |lab, []| {
        let built = |retention| {
            let builder = fairlock::LockClient::builder(lab.engine.client());
            builder
                .lease_duration(DAY)
                .idle_retention(retention)
                .build()
        };
        assert!(built(2 * DAY).is_ok());
        let refused = built(2 * DAY - SECOND).unwrap_err().to_string();
        assert!(refused.contains("twice the lease"), "{refused}");
    });
}
