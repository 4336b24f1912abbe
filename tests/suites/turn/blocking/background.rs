//! What goes on in the background while the program computes: renewals, and the notice of a loss.

use std::time::Duration;

use fairlock::blocking::LockClient;
use fairlock::{Error, LossReason, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::MS;

use super::{LONG, Table, answers, lock, on_table};

/// A client that soon learns what became of its holds.
fn renews_often(table: &Table) -> LockClient {
    let (locks, _) = table.host_with(|builder| builder.heartbeat_interval(200 * MS));
    locks
}

#[test]
fn a_lease_is_renewed_for_as_long_as_the_program_computes() {
    on_table(|table, []| {
        let (locks, network) = table.host_with(|builder| {
            let builder = builder.lease_duration(2_000 * MS);
            let builder = builder.heartbeat_interval(200 * MS);
            builder.request_timeout(500 * MS)
        });
        let renewals = answers(&network, "renew hold");
        let guard = lock(&locks).acquire(RecordWait::default()).unwrap();
        // Fifteen heartbeats are longer than the lease. This thread does nothing for the client meanwhile.
        for _ in 0..15 {
            renewals.recv_timeout(LONG).unwrap();
        }
        guard.check().unwrap();
        assert!(lock(&table.client()).try_acquire().unwrap().is_none());
        guard.release().unwrap();
    });
}

#[test]
fn a_loss_is_told_by_the_check_by_the_wait_and_by_the_release() {
    on_table(|table, []| {
        let (locks, ops) = (renews_often(table), table.client());
        let guard = lock(&locks).acquire(RecordWait::NoWait).unwrap();
        assert_eq!(guard.wait_lost(MS).unwrap(), None);
        let seen = lock(&ops).inspect().unwrap().holder.unwrap();
        let breaks = ops.as_async().break_hold("a", &seen, "maintenance");
        ops.block_on(breaks).unwrap().unwrap();
        let lost = guard.wait_lost(LONG).unwrap().unwrap();
        let LossReason::Broken { reason, .. } = &lost.reason else {
            panic!("{lost}")
        };
        assert_eq!(reason, "maintenance");
        assert_eq!(guard.check(), Err(lost.clone()));
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert!(!guard.is_held());
        let told = guard.release().unwrap_err();
        assert!(matches!(&told, Error::Lost { reason, .. } if *reason == lost.reason));
    });
}

#[test]
fn work_that_lost_its_lock_has_no_outcome() {
    on_table(|table, []| {
        let (locks, ops) = (renews_often(table), table.client());
        let ran = lock(&locks).run(RecordWait::NoWait, |guard| {
            let seen = lock(&ops).inspect().unwrap().holder.unwrap();
            let breaks = ops.as_async().break_hold("a", &seen, "");
            ops.block_on(breaks).unwrap().unwrap();
            guard.wait_lost(LONG).unwrap().is_some()
        });
        assert_is!(ran, Err(Error::Lost { .. }));
        assert!(table.is_free());
    });
}
