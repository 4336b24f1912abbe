//! What the tests of the AWS lock client for Java (amazon-dynamodb-lock-client 1.4.0, 601eab1) assert.
//!
//! These of their tests have no counterpart:
//!
//! - `testAcquireLockLeaveData_rvnChanged` and 9 more (a stale version fails only if consistent data is asked for, and otherwise data
//!   may be stale). Differs: data is always that of the item to which the grant was written. There is no option to read it otherwise.
//! - `acquireLock_withConsistentLockDataTrue_releasedLockConditionalCheckFailure` and 2 more (how that is asked of DynamoDB). Differs:
//!   every write is an update on conditions of its own, which `differential::every_write_is_what_the_embedded_engine_makes_of_it`
//!   compares with the engine.
//! - `testAcquireLockMustExistWhenNotUpdateExistingLock_LockDoesNotExist` and 18 more (a lock is acquired only if its item is there).
//!   Not here: the item of an idle lock is deleted by TTL, so that it is there says nothing.
//! - `testAcquireLockBasicWithUpdateExistingLockTrue` and 3 more (attributes of the holder before stay). Differs: attributes belong to
//!   a place, and go with it. What must stay is data:
//!   `data::data_goes_to_the_next_holder_is_read_by_others_and_stays_after_the_release`.
//! - `testAcquireLockMultipleTimesReentrant` and 1 more (unless it asks for re-entrancy). Not here: locks are not re-entrant. Pass the
//!   guard on.
//! - `sendHeartbeat_whenDeleteDataTrueAndDataNotNull_throwsIllegalArgumentException` (not both at once). Differs: `set_data` and
//!   `clear_data` are two calls, so that cannot be said.
//! - `cannotHeartbeatExpiredLock` and 1 more (an expired lock is not renewed). Differs: a lease that no other caller has taken can be
//!   extended, because it was never anyone else's: `lease_lock::a_lock_can_be_acquired_if_the_old_one_is_expired`. A guard is lost at
//!   its deadline, and never renewed after that.
//! - `testLockItemHasSessionMonitor` and 11 more (the settings of a session monitor). Differs: every guard has `events`, and the time
//!   of the warning is a third of the lease.
//! - `sendHeartbeat_whenServiceUnavailable_andHoldLockOnServiceUnavailableTrue_thenUpdateLookupTimeUsingUpdateLookUpTimeMethod` (unless
//!   the client is told to believe on). Not here: others may believe so too, as their page says. A lease that cannot be renewed ends.
//! - `getLocksFromDynamoDB_whenNoPartitionKeyMatches_shouldReturnEmpty` (a listing by partition key, without a scan). Not here: a
//!   lock's name is its partition key. `locks` scans the table.
//! - `testBuilder_whenGetLocalHostThrowsUnknownHostException_uuidCreateRandomIsCalled` (an owner without a host's name). Differs:
//!   owners are for people only, and no decision compares them.
//! - `build_whenMaxLockObservationCacheSizeNotSet_usesDefault` and 2 more (how many observations a client keeps). Differs: none are
//!   kept for callers that do not wait, which go by DynamoDB's clock.
//! - `releaseLock_whenRemoveKillSessionMonitorJoinInterrupted_swallowsInterruptedException` (an interrupt of a thread that waits for
//!   its monitor). Not here: there is no such thread.
//! - `sendHeartbeat_whenNotExpired_andSameOwner_releasedFalse_setsRequestMetricCollector` and 2 more (a collector for the SDK's
//!   metrics). Not here: the feature `metrics` counts requests by itself.
//! - `updateLookUpTime_whenLookUpTimeIsUpdated_thenGetLookUpTimeReturnsTheUpdatedTime` and 42 more (parts of their classes: builders,
//!   equality, iterators, exceptions). Not here: they say nothing of locks.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{DeleteOutcome, Error, Finding, HeldLocks, HoldEvent, LossReason, RecordWait};
use fairlock_testkit::lab::{Host, Lab, acquire, cut_off};
use fairlock_testkit::verbs::{meets, verb};
use fairlock_testkit::virtual_time;
use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::{
    LEASE, LONG, MS, SECOND, data, dies, found, holder, lock, script, state, try_acquire, why_lost,
};

/// `testAcquireBasicLock`, `testAcquireBasicLockWithSortKey`: the item of an acquired lock shows its owner.
#[test]
fn acquire_basic_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host_with(|builder| builder.owner("integrationTester"));
        let guard = acquire(&host).await;
        let shown = holder(&lab.host()).await.unwrap();
        assert_eq!(shown.owner, "integrationTester");
        assert_eq!(shown.ticket, guard.ticket());
    });
}

/// `testLockTableExists_created`, `testAssertLockTableExists_created` and `lockTableExists_…`: a table that is there is found.
/// `…_notCreated`: a table that is not there is reported, and a lock in it is an error that says so.
#[test]
fn lock_table_exists() {
    virtual_time(async {
        let lab = Lab::new().await;
        assert!(lab.host().locks.check_table().await.unwrap().is_usable());
        let nowhere = lab.host_with(|builder| builder.table("not-created"));
        let report = nowhere.locks.check_table().await.unwrap();
        assert!(matches!(report.findings[..], [Finding::NoTable, ..]));
        assert!(!report.is_usable());
        let refused = lock(&nowhere, "a").try_acquire().await.unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("create_table"), "{refused}");
    });
}

/// `testBackgroundThread`, `testBackgroundThreadWithSortKey`: locks stay held for as long as heartbeats are sent in the background.
#[test]
fn background_thread() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guards = [try_acquire(&host, "a").await, try_acquire(&host, "b").await];
        assert!(guards.iter().all(Option::is_some));
        lab.wait(10 * LEASE).await;
        for name in ["a", "b"] {
            assert!(try_acquire(&other, name).await.is_none());
        }
    });
}

/// `testNoBackgroundThread`, `testNoBackgroundThreadWithSortKey`: without heartbeats, locks are free when their leases have ended.
#[test]
fn no_background_thread() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        for name in ["a", "b"] {
            let lease = host.locks.lease_lock(name).unwrap();
            lease.acquire("owner", 5 * SECOND).await.unwrap();
            assert!(try_acquire(&other, name).await.is_none());
        }
        lab.wait(20 * SECOND).await;
        for name in ["a", "b"] {
            assert!(try_acquire(&other, name).await.is_some());
        }
    });
}

/// `testReleasingLock`, `testReleasingLockWithSortKey`, `testRangeKey`: a released lock is granted to the next caller that does not wait.
#[test]
fn releasing_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        assert!(try_acquire(&other, "a").await.is_none());
        guard.release().await.unwrap();
        assert!(try_acquire(&other, "a").await.is_some());
    });
}

/// `testAcquireLockLeaveData` and its variants, `testReleaseLockLeaveItem`: data stays after the release, and the next holder has it.
#[test]
fn acquire_lock_leave_data() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        guard.set_data("testAcquireLockLeaveData").await.unwrap();
        guard.release().await.unwrap();
        assert!(holder(&other).await.is_none());
        let expected = Some(b"testAcquireLockLeaveData".to_vec());
        assert_eq!(data(&other).await, expected);
        let next = acquire(&other).await;
        assert_eq!(found(&next), expected);
    });
}

/// `testAcquireLockLeaveDataAfterClose`: data stays when the client is closed that held the lock.
#[test]
fn acquire_lock_leave_data_after_close() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        guard.set_data("data").await.unwrap();
        host.locks.shutdown(HeldLocks::Release, LEASE).await;
        let next = acquire(&lab.host()).await;
        assert_eq!(found(&next), Some(b"data".to_vec()));
    });
}

/// `testAcquireLockLeaveOrReplaceDataFromReleasedLock`, `…FromAcquiredLock`: a holder that finds no data puts its own there.
#[test]
fn acquire_lock_leave_or_replace_data() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (released, dead) = (lab.host(), lab.host());
        acquire(&released).await.release().await.unwrap();
        let _dead = dies(&dead).await;
        let next = acquire(&lab.host()).await;
        assert_eq!(found(&next), None);
        next.set_data("its own").await.unwrap();
        assert_eq!(data(&lab.host()).await, Some(b"its own".to_vec()));
    });
}

/// `testEmptyData`: a lock without data has none, whoever reads it.
#[test]
fn empty_data() {
    virtual_time(async {
        let lab = Lab::new().await;
        let guard = acquire(&lab.host()).await;
        assert_eq!(found(&guard), None);
        assert_eq!(data(&lab.host()).await, None);
    });
}

/// `testSendHeartbeatLeaveData`, `testSendHeatbeatWithRangeKey`: heartbeats leave the data as it is.
#[test]
fn send_heartbeat_leave_data() {
    virtual_time(async {
        let lab = Lab::new().await;
        let guard = acquire(&lab.host()).await;
        guard.set_data("data").await.unwrap();
        lab.wait(3 * LEASE).await;
        assert!(guard.is_held());
        assert_eq!(data(&lab.host()).await, Some(b"data".to_vec()));
    });
}

/// `testSendHeartbeatChangeData`, `testSendHeartbeatRemoveData`, `sendHeartbeat_…_deleteDataFalse_updatesData`: a holder replaces and removes
/// the data while it holds the lock.
#[test]
fn send_heartbeat_change_and_remove_data() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        for expected in ["data1", "data2"] {
            guard.set_data(expected).await.unwrap();
            assert_eq!(found(&guard), Some(expected.into()));
            assert_eq!(data(&other).await, Some(expected.into()));
        }
        guard.clear_data().await.unwrap();
        assert_eq!((found(&guard), data(&other).await), (None, None));
    });
}

/// `testReleaseLockLeaveItemAndChangeData`: data that is changed before the release is what the next holder has.
#[test]
fn release_lock_leave_item_and_change_data() {
    virtual_time(async {
        let lab = Lab::new().await;
        let guard = acquire(&lab.host()).await;
        guard.set_data("data").await.unwrap();
        guard.set_data("newData").await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(
            found(&acquire(&lab.host()).await),
            Some(b"newData".to_vec())
        );
    });
}

/// `testReleaseLockRemoveItem`: a lock that is deleted has no data for its next holder.
#[test]
fn release_lock_remove_item() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        guard.set_data("data").await.unwrap();
        guard.release().await.unwrap();
        lab.wait(4 * LEASE).await;
        let deleted = host.locks.delete_lock("a").await.unwrap();
        assert_eq!(deleted, DeleteOutcome::Deleted);
        assert_eq!(found(&acquire(&host).await), None);
    });
}

/// `testReleaseLockBestEffort`: a failure of a best-effort release reaches no caller. Here that is a dropped guard.
/// `testReleaseLockNotBestEffort`: a release that is not best-effort returns the failure.
#[test]
fn release_lock_best_effort_or_not() {
    virtual_time(async {
        let lab = Lab::new().await;
        for best_effort in [true, false] {
            let host = lab.host();
            let guard = dies(&host).await;
            match best_effort {
                true => drop(guard),
                false => {
                    let failed = guard.release().await.unwrap_err();
                    assert!(matches!(failed, Error::Unavailable { .. }), "{failed}");
                }
            }
            let next = lock(&lab.host(), "a").acquire(LONG).await.unwrap();
            next.release().await.unwrap();
        }
    });
}

/// `testAcquireLockAfterTimeout`, `testSucceedToAcquireLockAfterTimeout`, `testRangeKeyAcquiredAfterTimeout`,
/// `acquireLock_…_skipsAddingLeaseDuration`: a caller that waits is granted the lock of a dead holder when its lease has ended, and waits for
/// one lease at the most. Another lock is granted meanwhile.
#[test]
fn acquire_lock_after_timeout() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (dead, other) = (lab.host(), lab.host());
        let first = dies(&dead).await;
        let asked = Instant::now();
        assert!(try_acquire(&other, "b").await.is_some());
        let next = lock(&other, "a").acquire(LONG).await.unwrap();
        assert!(asked.elapsed() <= LEASE + SECOND, "{:?}", asked.elapsed());
        assert!(next.ticket() > first.ticket() && !first.is_held());
    });
}

/// `acquireLock_whenLockExistsAndIsExpired_andSkipBlockingWaitIsTurnedOn`: a caller that does not wait is granted a lock whose lease has
/// ended. Here the caller need not have watched the lock before: DynamoDB's clock tells it. So is a newcomer that would wait, at once.
#[test]
fn acquire_lock_when_lock_exists_and_is_expired() {
    for wait in [RecordWait::NoWait, LONG] {
        virtual_time(async {
            let lab = Lab::new().await;
            let dead = dies(&lab.host()).await;
            lab.wait(2 * LEASE).await;
            let newcomer = lab.host();
            let asked = Instant::now();
            let guard = lock(&newcomer, "a").acquire(wait).await.unwrap();
            assert!(asked.elapsed() < SECOND, "{:?}", asked.elapsed());
            assert!(guard.ticket() > dead.ticket());
        });
    }
}

/// `acquireLock_whenLockNotExists_andSkipBlockingWaitIsTurnedOn`: a caller that does not wait is granted a lock that has no item yet.
#[test]
fn acquire_lock_when_lock_not_exists() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        assert!(try_acquire(&host, "a").await.is_some());
    });
}

/// `acquireLock_whenLockAlreadyExistsAndIsNotReleased_andSkipBlockingWait_throwsAlreadyOwnedException`, `tryAcquireLock_…_returnsEmpty`: a
/// caller that does not wait is refused a held lock, by an error or by `None`. `acquireLock_whenLockAlreadyExists_throwLockNotGrantedException`:
/// so is a caller whose wait ends.
#[test]
fn acquire_lock_when_lock_already_exists() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        for wait in [RecordWait::NoWait, RecordWait::Timeout(SECOND)] {
            let refused = lock(&other, "a").acquire(wait).await.unwrap_err();
            let Error::NotGranted { holder, .. } = refused else {
                panic!("{refused}")
            };
            assert_eq!(holder.unwrap().ticket, guard.ticket());
        }
        assert!(try_acquire(&other, "a").await.is_none());
    });
}

/// `acquireLock_…_andSkipBlockingWait_eventuallyGetsTheLock`: a caller that does not wait and asks again is granted the lock once the
/// lease has ended.
#[test]
fn acquire_lock_eventually_gets_the_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let _dead = dies(&lab.host()).await;
        let (host, asked) = (lab.host(), Instant::now());
        while try_acquire(&host, "a").await.is_none() {
            lab.wait(SECOND).await;
        }
        assert!(
            asked.elapsed() <= LEASE + 12 * SECOND,
            "by the server clock"
        );
    });
}

/// `acquireLock_whenExpiredCachedLockIsConcurrentlyAcquired_andSkipBlockingWait_throwsUnavailable`, `…ConcurrentlyUpdated…`: of callers that
/// find an expired lock at once, one is granted it, and the others are refused.
#[test]
fn acquire_lock_when_expired_lock_is_concurrently_acquired() {
    virtual_time(async {
        let lab = Lab::new().await;
        let _dead = dies(&lab.host()).await;
        lab.wait(2 * LEASE).await;
        let hosts: Vec<_> = (0..8).map(|_| lab.host()).collect();
        let asked = join_all(hosts.iter().map(|host| try_acquire(host, "a"))).await;
        assert_eq!(asked.iter().flatten().count(), 1);
    });
}

/// `acquireLock_whenRecordVersionChangesAfterCachedObservation_andSkipBlockingWait_observesNewVersionBeforeAcquiring`: a holder that renews
/// is not taken for dead, however long other clients have watched it.
#[test]
fn acquire_lock_observes_new_version_before_acquiring() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        for _ in 0..20 {
            assert!(try_acquire(&other, "a").await.is_none());
            lab.wait(LEASE / 2).await;
        }
        assert!(guard.is_held());
    });
}

/// `acquireLock_whenExpiredCachedLockIsUpdated_andUpdateExistingLockRecord_removesIsReleased`: what stands of a dead holder is gone when the
/// next one holds the lock.
#[test]
fn acquire_lock_removes_what_the_dead_holder_left() {
    virtual_time(async {
        let lab = Lab::new().await;
        let dead = dies(&lab.host()).await;
        let next = lock(&lab.host(), "a").acquire(LONG).await.unwrap();
        let state = state(&lab.host()).await;
        assert_eq!(state.holder.unwrap().ticket, next.ticket());
        assert!(state.sharers.is_empty() && state.queue.is_empty());
        assert!(dead.ticket() < next.ticket());
    });
}

/// `testAcquireLockMultipleTimesNotReentrant`, `acquireLock_withReentrantFalse_failsIfHoldingLock`: a client that holds a lock is refused the
/// same lock. Here the error says that the holder is in this process.
#[test]
fn acquire_lock_multiple_times_not_reentrant() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let _guard = acquire(&host).await;
        let again = lock(&host, "a").acquire(RecordWait::Timeout(SECOND)).await;
        let Err(Error::NotGranted { holder, .. }) = again else {
            panic!("{again:?}")
        };
        assert!(holder.unwrap().is_this_process);
    });
}

/// `testSetupTooSmallHearbeatCheck`: a heartbeat that leaves no room for a second one within the lease is refused.
#[test]
fn setup_too_small_heartbeat_check() {
    virtual_time(async {
        let lab = Lab::new().await;
        let builder = fairlock::LockClient::builder(lab.engine.client());
        let builder = builder.lease_duration(5 * SECOND);
        let refused = builder.heartbeat_interval(4 * SECOND).build().unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains("heartbeat"), "{refused}");
    });
}

/// `testAcquiringSomeoneElsesLock`: a holder whose lock was taken over after its lease cannot release it from the next holder.
#[test]
fn acquiring_someone_elses_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, thief) = (lab.host(), lab.host());
        let stale = dies(&host).await;
        let guard = lock(&thief, "a").acquire(LONG).await.unwrap();
        host.network.set_faults(Faults::default());
        why_lost(stale.release().await);
        assert_eq!(holder(&thief).await.unwrap().ticket, guard.ticket());
        assert!(guard.is_held());
    });
}

/// `canReleaseExpiredLock`: a lease that has ended and that no other caller has taken can be released.
#[test]
fn can_release_expired_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let leases = host.locks.lease_lock("a").unwrap();
        let lease = leases.acquire("owner", 3 * SECOND).await.unwrap();
        lab.wait(4 * SECOND).await;
        leases.release(&lease).await.unwrap();
        assert!(holder(&host).await.is_none());
    });
}

/// `cannotReleaseLockYouDontOwn`, `cannotHeartbeatLockYouDontOwn`, `sendHeartbeat_whenNotExpiredAndDifferentOwner_…`: a lease that another
/// caller has taken over can be neither released nor extended.
#[test]
fn cannot_release_or_heartbeat_lock_you_dont_own() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let leases = host.locks.lease_lock("a").unwrap();
        let stale = leases.acquire("owner", 3 * SECOND).await.unwrap();
        let guard = lock(&other, "a").acquire(LONG).await.unwrap();
        why_lost(leases.extend(&stale, 3 * SECOND).await);
        why_lost(leases.release(&stale).await);
        assert_eq!(holder(&host).await.unwrap().ticket, guard.ticket());
    });
}

/// `sendHeartbeat_whenNotExpired_andSameOwner_releasedTrue_throwsLockNotGrantedException`, `ensure_whenIsReleasedTrue_…`: a released lease
/// cannot be extended. `…releasedFalse…`: one that is held can.
#[test]
fn send_heartbeat_when_released_or_not() {
    virtual_time(async {
        let lab = Lab::new().await;
        let leases = lab.host().locks.lease_lock("a").unwrap();
        let lease = leases.acquire("owner", 60 * SECOND).await.unwrap();
        let lease = leases.extend(&lease, 90 * SECOND).await.unwrap();
        leases.release(&lease).await.unwrap();
        let reason = why_lost(leases.extend(&lease, 90 * SECOND).await);
        assert_eq!(reason, LossReason::Released);
    });
}

/// `testNullLock`: a lock that no caller has used has no holder.
#[test]
fn null_lock() {
    virtual_time(async {
        let state = state(&Lab::new().await.host()).await;
        assert!(state.holder.is_none() && state.newest_ticket.is_none());
    });
}

/// `testReleaseAllLocks`: a client that is closed releases all that it holds.
#[test]
fn release_all_locks() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let names = ["Test 1", "Test 2", "Test 3"];
        let held = join_all(names.map(|name| try_acquire(&host, name))).await;
        assert_eq!(held.iter().flatten().count(), 3);
        let report = host.locks.shutdown(HeldLocks::Release, LEASE).await;
        assert!(report.unfinished.is_empty() && report.held.is_empty());
        for name in names {
            assert!(try_acquire(&other, name).await.is_some());
        }
    });
}

/// `testEnsureLock`: a lease that lasts for long enough is left as it is, and one that does not is extended.
#[test]
fn ensure_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let leases = lab.host().locks.lease_lock("a").unwrap();
        let lease = leases.acquire("owner", 30 * SECOND).await.unwrap();
        let shorter = leases.extend(&lease, 10 * SECOND).await.unwrap();
        assert_eq!(shorter.expires_at(), lease.expires_at());
        let longer = leases.extend(&lease, 40 * SECOND).await.unwrap();
        assert!(longer.expires_at() >= lease.expires_at() + 9 * SECOND);
    });
}

/// `testGetLock`: a held lock is shown with its holder, and without one after the release.
#[test]
fn get_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        assert!(holder(&other).await.is_some());
        guard.release().await.unwrap();
        assert!(holder(&other).await.is_none());
    });
}

/// `testAdditionalAttributes`: the attributes of a holder are shown to every client. `testInvalidAttributesData` and the four after it,
/// `acquireLock_whenLockAlreadyExists_throwIllegalArgumentException`: names that clash with attributes of the item are refused. Here no name
/// clashes, because the attributes stand in a map of their own.
#[test]
fn additional_attributes() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let names = [
            "data",
            "key",
            "leaseDuration",
            "owner",
            "ticket",
            "pk",
            "sk",
        ];
        let said = lock(&host, "a").attributes(names.map(|name| (name, "ok")));
        let guard = said.acquire(RecordWait::NoWait).await.unwrap();
        for client in [&host, &lab.host()] {
            let shown = holder(client).await.unwrap();
            assert!(names.iter().all(|name| shown.attributes[*name] == "ok"));
            assert_eq!((shown.ticket, &*shown.owner), (guard.ticket(), "host-0"));
        }
    });
}

/// `testLockItemToString`: a held lock is printed with what identifies it, and on one line.
#[test]
fn lock_item_to_string() {
    virtual_time(async {
        let guard = acquire(&Lab::new().await.host()).await;
        let printed = format!("{guard:?}");
        let ticket = guard.ticket().to_string();
        assert!(
            printed.contains("\"a\"") && printed.contains(&ticket),
            "{printed}"
        );
        assert!(!printed.contains('\n'));
    });
}

/// The events of a hold whose renewals fail after `heartbeats` that were answered.
async fn monitored(heartbeats: u32) -> Vec<HoldEvent> {
    let lab = Lab::new().await;
    let host = lab.host();
    let guard = acquire(&host).await;
    lab.wait(heartbeats * LEASE / 3).await;
    host.network.set_faults(cut_off());
    let mut events = pin!(guard.events());
    assert_eq!(events.next().await, Some(HoldEvent::Granted));
    let danger = events.next().await.unwrap();
    assert!(
        guard.is_held() && guard.in_danger(),
        "in danger, not expired"
    );
    assert!(guard.remaining() > Duration::ZERO);
    vec![danger, events.next().await.unwrap()]
}

/// `testSessionMonitorCallbackFiredOnNonHeartbeatingLock`, `testShortLeaseNoHeartbeatCallbackFired`, `testHeartbeatAfterSafetyTimeout`: a
/// holder whose heartbeats fail is warned before its lease has ended. `testLongLeaseHeartbeatCallbackFired`: so is one whose heartbeats
/// succeeded for a while. `isLeaseEnteringDangerZone_…`, `amIAboutToExpire_…`: the warning comes while the lease still lasts.
#[test]
fn session_monitor_callback_fired() {
    for heartbeats in [0, 1, 5] {
        virtual_time(async {
            let events = monitored(heartbeats).await;
            let [HoldEvent::InDanger { remaining }, HoldEvent::Lost(_)] = &events[..] else {
                panic!("{events:?}")
            };
            assert!(*remaining <= LEASE / 3, "{remaining:?}");
        });
    }
}

/// `testCallbackNotCalledOnClosingClient`: a hold that ends with its client was never in danger.
#[test]
fn callback_not_called_on_closing_client() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let events = guard.events();
        host.locks.shutdown(HeldLocks::Release, LEASE).await;
        lab.wait(2 * LEASE).await;
        let events: Vec<_> = events.collect().await;
        let lost = HoldEvent::Lost(LossReason::ShutDown);
        assert_eq!(events, [HoldEvent::Granted, lost]);
    });
}

/// `testHeartbeatAllLocks`: a heartbeat that fails keeps no other lock from its own, and is tried again.
#[test]
fn heartbeat_all_locks() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let names = ["lock1", "lock2", "lock3"];
        let held = join_all(names.map(|name| try_acquire(&host, name))).await;
        let (fails, tries) = (
            Arc::new(AtomicBool::new(true)),
            [(); 3].map(|()| AtomicUsize::new(0)),
        );
        let tries = Arc::new(tries);
        let (failing, counted) = (Arc::clone(&fails), Arc::clone(&tries));
        script(&host, Fault::ServerError(When::Before), move |request| {
            let which = names
                .iter()
                .position(|name| request.key("pk") == Some(name));
            let Some(which) = which.filter(|_| verb(request) == "renew hold") else {
                return false;
            };
            counted[which].fetch_add(1, Ordering::SeqCst);
            which != 1 && failing.load(Ordering::SeqCst)
        });
        lab.wait(LEASE - 8 * SECOND).await;
        assert!(tries.iter().all(|tries| tries.load(Ordering::SeqCst) >= 2));
        let [one, two, three] = &held[..] else {
            unreachable!()
        };
        let in_danger = [one, two, three].map(|guard| guard.as_ref().unwrap().in_danger());
        assert_eq!(in_danger, [true, false, true]);
        fails.store(false, Ordering::SeqCst);
        lab.wait(2 * LEASE).await;
        assert!(held.iter().flatten().all(|guard| guard.is_held()));
    });
}

/// `testAcquireLockOnClientException`: a caller whose requests fail tries again until its wait ends, and then gets an error.
#[test]
fn acquire_lock_on_client_exception() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let faults = Faults {
            lost_requests: 1.0,
            ..Faults::default()
        };
        host.network.set_faults(faults);
        let wait = RecordWait::Timeout(10 * SECOND);
        let failed = lock(&host, "a").acquire(wait).await.unwrap_err();
        assert!(matches!(failed, Error::Unavailable { .. }), "{failed}");
        let tries = host.network.counts().requests();
        assert!(tries >= 4, "{tries}");
    });
}

/// `acquireLock_whenProvisionedThroughputExceeds_throwLockNotGrantedException`: a throttled caller gets an error when its wait ends. Here it
/// waits that long, and is granted the lock if the throttling ends before.
#[test]
fn acquire_lock_when_provisioned_throughput_exceeds() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        meets(&host.network, "enter", 3, Fault::Throttle);
        let guard = lock(&host, "a")
            .acquire(RecordWait::Timeout(10 * SECOND))
            .await;
        guard.unwrap().release().await.unwrap();
        script(&host, Fault::Throttle, |_| true);
        let wait = RecordWait::Timeout(10 * SECOND);
        let refused = lock(&host, "a").acquire(wait).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    });
}

/// `sendHeartbeat_whenServiceUnavailable_andHoldLockOnServiceUnavailableFalse_thenDoNotUpdateLookupTime`: a heartbeat that is answered 503
/// prolongs nothing.
#[test]
fn send_heartbeat_when_service_unavailable() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        script(&host, Fault::ServerError(When::Before), |_| true);
        let before = guard.remaining();
        lab.wait(15 * SECOND).await;
        assert!(guard.remaining() <= before - 15 * SECOND + 10 * MS);
        let lost = guard.lost().await;
        assert!(
            matches!(lost.reason, LossReason::Unreachable { .. }),
            "{lost}"
        );
    });
}

/// `consistentDataUsingUpdateLockRecord`, `consistentDataUsingPutLockRecord`: a number in the data of a lock, raised by each holder, counts
/// every turn.
#[test]
fn consistent_data_stress() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..8).map(|_| lab.host()).collect();
        let turns = async |host: &Host| {
            for _ in 0..10 {
                let guard = lock(host, "a").acquire(LONG).await.unwrap();
                let before = found(&guard).map_or(0, |bytes| bytes[0]);
                guard.set_data([before + 1]).await.unwrap();
                guard.release().await.unwrap();
            }
        };
        join_all(hosts.iter().map(turns)).await;
        assert_eq!(data(&hosts[0]).await, Some(vec![80]));
    });
}

/// The names of all locks, in the order of their names.
async fn all(host: &Host) -> Vec<String> {
    let mut names: Vec<_> = host
        .locks
        .locks()
        .map(|state| state.unwrap().lock)
        .collect()
        .await;
    names.sort();
    names
}

/// `testGetAllLocksFromDynamoDBNoLocks`, `…SingleLock`, `…MultipleLocks`, `…MultiplePagedResultSet`, and the same by partition key: a listing
/// shows every lock, over as many pages as there are. Its end is `None`, and stays so.
#[test]
fn get_all_locks_from_dynamodb() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        assert_eq!(all(&host).await, [""; 0]);
        let mut names = Vec::new();
        // Together they are larger than a page of 1 MB.
        for number in 0..40 {
            let name = format!("lock-{number:02}");
            let guard = try_acquire(&host, &name).await.unwrap();
            guard.set_data(vec![b'x'; 60_000]).await.unwrap();
            names.push(name);
            assert!(number > 1 || all(&host).await == names);
            guard.release().await.unwrap();
        }
        assert_eq!(all(&host).await, names);
        let mut listing = pin!(host.locks.locks());
        while listing.next().await.is_some() {}
        assert!(listing.next().now_or_never().flatten().is_none());
    });
}
