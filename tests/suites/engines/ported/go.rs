//! What the tests of dynamolock (Go, version 5, 6e19a15) assert.
//!
//! These of their tests have no counterpart:
//!
//! - `TestNilLock` and 1 more (methods of a nil pointer). Differs: a guard always has a hold.
//! - `TestHeartbeatReadOnlyLock` (what is only read cannot be renewed). Differs: `inspect` returns a state, which has no such call.
//! - `TestTableTags` (tags on the created table). Not here: tag the table by infrastructure as code.
//! - `TestMap` and 1 more (a map of their own, and how to mock the SDK). Not here: they say nothing of locks. For tests of a service
//!   there is an engine.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Fault, When};
use fairlock::{Closed, DeleteOutcome, Error, HeldLocks, HoldEvent, LossReason, RecordWait};
use fairlock_testkit::captured_log::said;
use fairlock_testkit::lab::{Lab, acquire, cut_off, waits};
use fairlock_testkit::verbs::meets;
use fairlock_testkit::virtual_time;
use futures::StreamExt;
use futures::future::join_all;
use tokio::time::Instant;
use tracing::Level;

use super::{LEASE, LONG, SECOND, data, dies, found, holder, lock, state, try_acquire, why_lost};

/// `TestClientBasicFlow`: data is that of the newest holder. A second client is refused while the lock is held, and granted it afterwards.
/// `TestClientWithDataAfterRelease`: data that is written before the release is there after it.
#[test]
fn client_basic_flow() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        for content in ["some content a", "some content b"] {
            let guard = acquire(&host).await;
            guard.set_data(content).await.unwrap();
            assert_eq!(found(&guard), Some(content.into()));
            assert!(try_acquire(&other, "a").await.is_none());
            guard.release().await.unwrap();
        }
        let guard = try_acquire(&other, "a").await.unwrap();
        assert_eq!(found(&guard), Some("some content b".into()));
    });
}

/// `TestReadLockContent`, both loads, and `TestReadLockContentAfterRelease`: any client reads the data, held or not.
#[test]
fn read_lock_content() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        guard.set_data("some content").await.unwrap();
        for client in [&host, &other] {
            assert_eq!(data(client).await, Some("some content".into()));
        }
        guard.release().await.unwrap();
        assert_eq!(data(&other).await, Some("some content".into()));
    });
}

/// `TestReadLockContentAfterDeleteOnRelease`, `TestDeleteLockOnRelease`: a lock that was deleted shows neither data nor a holder.
#[test]
fn read_lock_content_after_delete() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        guard.set_data("some content").await.unwrap();
        guard.release().await.unwrap();
        lab.wait(4 * LEASE).await;
        let deleted = host.locks.delete_lock("a").await.unwrap();
        assert_eq!(deleted, DeleteOutcome::Deleted);
        let state = state(&lab.host()).await;
        assert!(state.data.is_none() && state.holder.is_none());
        assert_eq!(lab.items("a").await, [""; 0]);
    });
}

/// `TestInvalidLeaseHeartbeatRation`: a heartbeat that is too long for its lease is refused.
#[test]
fn invalid_lease_heartbeat_ratio() {
    virtual_time(async {
        let lab = Lab::new().await;
        let builder = fairlock::LockClient::builder(lab.engine.client());
        let builder = builder.lease_duration(SECOND).heartbeat_interval(SECOND);
        assert!(matches!(builder.build(), Err(Error::Invalid(_))));
    });
}

/// `TestFailIfLocked`: a caller that does not wait is refused a lock that its own client holds.
#[test]
fn fail_if_locked() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let _guard = acquire(&host).await;
        let asked = Instant::now();
        let refused = lock(&host, "a").acquire(RecordWait::NoWait).await;
        assert!(matches!(refused, Err(Error::NotGranted { .. })));
        assert_eq!(asked.elapsed(), Duration::ZERO);
    });
}

/// `TestClientWithAdditionalAttributes`, "good attributes": the attributes of a holder are shown. "bad attributes", which are refused there,
/// are attributes like others here.
#[test]
fn client_with_additional_attributes() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host_with(|builder| builder.owner("owner"));
        let said = [("hello", "world"), ("ownerName", "fakeOwner")];
        let said = lock(&host, "a").attributes(said);
        let _guard = said.acquire(RecordWait::NoWait).await.unwrap();
        let shown = holder(&lab.host()).await.unwrap();
        assert_eq!(shown.attributes["hello"], "world");
        assert_eq!(shown.attributes["ownerName"], "fakeOwner");
        assert_eq!(shown.owner, "owner");
    });
}

/// `TestCustomRefreshPeriod`: the shortest and the longest time between two polls of a waiter are settings.
#[test]
fn custom_refresh_period() {
    let polls = |least: Duration, most: Duration| {
        virtual_time(async move {
            let lab = Lab::new().await;
            let _guard = acquire(&lab.host()).await;
            let host = lab
                .host_with(|builder| builder.testing(|it| it.poll_interval = Some((least, most))));
            let waiting = waits(&lab, &host).await;
            let before = host.network.counts().requests();
            lab.wait(60 * SECOND).await;
            waiting.abort();
            host.network.counts().requests() - before
        })
    };
    let slow = polls(5 * SECOND, 10 * SECOND);
    let fast = polls(Duration::from_millis(100), Duration::from_millis(100));
    assert!((300..=660).contains(&fast), "{fast}");
    assert!(slow <= 20, "{slow}");
}

/// `TestCustomAdditionalTimeToWaitForLock`: a caller waits for as long as it says, and is granted the lock when the holder stops renewing it.
#[test]
fn custom_additional_time_to_wait_for_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let _guard = acquire(&host).await;
        let next = waits(&lab, &lab.host()).await;
        lab.wait(3 * LEASE).await;
        assert!(!next.is_finished());
        host.network.set_faults(cut_off());
        lab.wait(LEASE + SECOND).await;
        assert!(next.is_finished());
    });
}

/// `TestClientClose`, `TestAcquireLockOnCloseClient`: after the client is closed, its locks are free, and every call returns an error that
/// says so.
#[test]
fn client_close() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let names = ["bulkClose1", "bulkClose2", "bulkClose3"];
        let mut held = join_all(names.map(|name| try_acquire(&host, name))).await;
        host.locks.shutdown(HeldLocks::Release, LEASE).await;
        for name in names {
            assert!(try_acquire(&other, name).await.is_some());
        }
        let is_closed = |error: Error| matches!(error, Error::ShutDown(Closed::ShutDown));
        let lock = lock(&host, "acquireAfterClose");
        assert!(is_closed(lock.acquire(LONG).await.unwrap_err()));
        assert!(is_closed(lock.inspect().await.unwrap_err()));
        let table = host.locks.create_table().await;
        assert!(is_closed(table.unwrap_err()));
        let guard = held.pop().flatten().unwrap();
        assert!(!guard.is_held());
        assert_eq!(why_lost(guard.release().await), LossReason::ShutDown);
    });
}

/// `TestCloseRace`: a client that is closed while hundreds of its callers ask for locks holds none of them afterwards.
#[test]
fn close_race() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let calls = (0..500).map(|number| {
            let lock = lock(&host, &number.to_string());
            async move { lock.acquire(RecordWait::NoWait).await }
        });
        let (calls, report) = tokio::join!(
            join_all(calls),
            host.locks.shutdown(HeldLocks::Release, LEASE)
        );
        assert!(report.unfinished.is_empty());
        drop(calls);
        lab.settle().await;
        let held = host.locks.shutdown(HeldLocks::Release, LEASE).await.held;
        assert!(held.is_empty(), "{held:?}");
        let mut shown = std::pin::pin!(lab.host().locks.locks());
        while let Some(state) = shown.next().await {
            assert!(state.unwrap().holder.is_none());
        }
    });
}

/// `TestCancelationWithoutHearbeat`, `TestHeartbeatImmediateContextCancel`: a client that never held anything is closed at once.
#[test]
fn cancelation_without_heartbeat() {
    virtual_time(async {
        let host = Lab::new().await.host();
        let asked = Instant::now();
        let report = host.locks.shutdown(HeldLocks::Release, LEASE).await;
        assert!(report.unfinished.is_empty() && asked.elapsed() < SECOND);
        assert_eq!(host.network.counts().requests(), 0);
    });
}

/// `TestAcquireLockOnCanceledContext`: a call that is given up before it has begun sends nothing.
#[test]
fn acquire_lock_on_canceled_context() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        drop(lock(&host, "a").acquire(LONG));
        lab.settle().await;
        assert_eq!(host.network.counts().requests(), 0);
    });
}

/// `TestInvalidReleases`, "duplicated lock close": a second release is an error. Here it can only be said of a lease.
#[test]
fn invalid_releases() {
    virtual_time(async {
        let lab = Lab::new().await;
        let leases = lab.host().locks.lease_lock("a").unwrap();
        let lease = leases
            .acquire("duplicatedLockRelease", 60 * SECOND)
            .await
            .unwrap();
        leases.release(&lease).await.unwrap();
        let reason = why_lost(leases.release(&lease).await);
        assert_eq!(reason, LossReason::Released);
    });
}

/// `TestHeartbeatLoss`: heartbeats go on for a second lock when the first was released.
#[test]
fn heartbeat_loss() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let first = try_acquire(&host, "heartbeatLoss1").await.unwrap();
        lab.wait(LEASE / 3).await;
        first.release().await.unwrap();
        lab.wait(LEASE / 3).await;
        let second = try_acquire(&host, "heartbeatLoss2").await.unwrap();
        lab.wait(3 * LEASE).await;
        assert!(second.is_held() && !second.in_danger());
    });
}

/// `TestHeartbeatError`: a heartbeat that fails because the table was deleted is logged, and the client can be closed. Here the holder is
/// notified of the loss too.
#[test]
fn heartbeat_error() {
    let lines = said(Level::WARN, async || {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let delete = lab.engine.client().delete_table().table_name("locks");
        delete.send().await.unwrap();
        let lost = guard.lost().await;
        assert!(lost.to_string().contains("ResourceNotFound"), "{lost}");
        host.locks.shutdown(HeldLocks::Release, LEASE).await;
    });
    let is_told = |line: &&String| line.contains("ResourceNotFound");
    assert!(lines.iter().any(|line| is_told(&line)), "{lines:?}");
}

/// `TestBadDynamoDB`, "get" and "acquire": a service that does not answer is an error of the call.
#[test]
fn bad_dynamodb() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        host.network.set_faults(cut_off());
        let lock = lock(&host, "a");
        let unread = lock.inspect().await.unwrap_err();
        assert!(matches!(unread, Error::Unavailable { .. }), "{unread}");
        for wait in [RecordWait::NoWait, RecordWait::Timeout(SECOND)] {
            let failed = lock.acquire(wait).await.unwrap_err();
            assert!(matches!(failed, Error::Unavailable { .. }), "{failed}");
        }
    });
}

/// `TestBadCreateLockItem`: an item that cannot be read is an error of its own kind.
#[test]
fn bad_create_lock_item() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        acquire(&host).await.release().await.unwrap();
        let spoil = lab.engine.client().update_item().table_name("locks");
        let spoil = spoil.key("pk", AttributeValue::S("a".into()));
        let spoil = spoil.key("sk", AttributeValue::S("fairlock/#lock".into()));
        let spoil = spoil.update_expression("SET slots = :bad");
        let bad = AttributeValue::S("bad duration".into());
        spoil
            .expression_attribute_values(":bad", bad)
            .send()
            .await
            .unwrap();
        let refused = lock(&host, "a").try_acquire().await.unwrap_err();
        assert!(matches!(refused, Error::InvalidItem { .. }), "{refused}");
    });
}

/// `TestHeartbeatHandover`: a second client is refused while the first one renews, and is granted the lock when it has stopped. The first
/// client's renewals then change nothing.
#[test]
fn heartbeat_handover() {
    virtual_time(async {
        let lab = Lab::new().await;
        let leases = lab.host().locks.lease_lock("a").unwrap();
        let mut lease = leases.acquire("kirk", 4 * SECOND).await.unwrap();
        let other = lab.host();
        for _ in 0..3 {
            lab.wait(2 * SECOND).await;
            lease = leases.extend(&lease, 4 * SECOND).await.unwrap();
            assert!(try_acquire(&other, "a").await.is_none());
        }
        let guard = lock(&other, "a").acquire(LONG).await.unwrap();
        why_lost(leases.extend(&lease, 4 * SECOND).await);
        assert!(guard.is_held());
    });
}

/// `TestHeartbeatDataOps`, "delete data" and "replace data": a holder's changes of the data are there for another client at once.
/// "racy heartbeats": after another client has taken the lock over, the first one changes nothing.
#[test]
fn heartbeat_data_ops() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        guard.set_data("some content a").await.unwrap();
        guard.set_data("some content b").await.unwrap();
        assert_eq!(data(&other).await, Some("some content b".into()));
        guard.clear_data().await.unwrap();
        assert_eq!(data(&other).await, None);
        host.network.set_faults(cut_off());
        let beta = lock(&other, "a").acquire(LONG).await.unwrap();
        beta.set_data("beta").await.unwrap();
        host.network
            .set_faults(fairlock::embedded::Faults::default());
        why_lost(guard.set_data("alpha").await);
        assert_eq!(data(&other).await, Some("beta".into()));
    });
}

/// `TestHeartbeatRetry`, "noRetry", "retryOnce", "retryMany", and `TestHeartbeatOwnerMatching`: a heartbeat that was applied and whose answer
/// was lost is an error there, unless it is asked to retry. Here the renewal recognises itself, and the hold goes on. "badReadAfterFail":
/// so it does if the answers after it fail.
#[test]
fn heartbeat_retry() {
    for times in [1, 2, 5] {
        virtual_time(async {
            let lab = Lab::new().await;
            let host = lab.host();
            let guard = acquire(&host).await;
            lab.wait(2 * SECOND).await;
            let lost_answer = Fault::Lose(When::After);
            let met = meets(&host.network, "renew hold", times, lost_answer);
            lab.wait(3 * LEASE).await;
            assert_eq!(met.load(std::sync::atomic::Ordering::SeqCst), times);
            assert!(guard.is_held() && !guard.in_danger());
            guard.release().await.unwrap();
        });
    }
}

/// `TestHeartbeatRetry`, "lostDuringHeartbeatRetry", and `TestHeartbeatConditionalCheckFailedTransformsError`: a renewal that finds the lock in
/// other hands is a loss, not a failure.
#[test]
fn heartbeat_lost_during_retry() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, ops) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        let next = waits(&lab, &lab.host()).await;
        let seen = holder(&ops).await.unwrap();
        let broken = ops.locks.break_hold("a", &seen, "stole-rvn").await;
        broken.unwrap();
        let lost = guard.lost().await;
        let LossReason::Broken { reason, .. } = &lost.reason else {
            panic!("{lost}")
        };
        assert_eq!(reason, "stole-rvn");
        assert!(next.await.unwrap().ticket() > guard.ticket());
    });
}

/// `TestSessionMonitor`, `TestSessionMonitorFullCycle`, `TestLockSessionMonitorChecker_ExpiredEarlyExit`: a holder whose lease ends is warned
/// before, is almost expired then, and expired afterwards. `TestSessionMonitorMissedCall`: it is warned also if the network drops everything,
/// for each ratio of lease and heartbeat.
#[test]
fn session_monitor() {
    for (lease, heartbeat) in [(6, 1), (15, 1), (15, 3), (20, 5)] {
        virtual_time(async {
            let lab = Lab::new().await;
            let host = lab.host_with(|builder| {
                let builder = builder.lease_duration(lease * SECOND);
                let builder = builder.heartbeat_interval(heartbeat * SECOND);
                builder.request_timeout(SECOND / 2)
            });
            let guard = acquire(&host).await;
            host.network.set_faults(cut_off());
            let mut events = std::pin::pin!(guard.events());
            assert_eq!(events.next().await, Some(HoldEvent::Granted));
            let danger = events.next().await;
            assert!(
                matches!(danger, Some(HoldEvent::InDanger { .. })),
                "{danger:?}"
            );
            assert!(guard.in_danger() && guard.is_held());
            let lost = events.next().await;
            assert!(matches!(lost, Some(HoldEvent::Lost(_))), "{lost:?}");
            assert!(!guard.is_held() && guard.remaining().is_zero());
        });
    }
}

/// `TestSessionMonitorRemoveBeforeExpiration`, `TestLockSessionMonitorChecker_ContextCanceled`, `TestSessionMonitorRaceCondition`: a lock that
/// is released in time was never in danger.
#[test]
fn session_monitor_remove_before_expiration() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let events = guard.events();
        guard.release().await.unwrap();
        lab.wait(2 * LEASE).await;
        let events: Vec<_> = events.collect().await;
        assert_eq!(events, [HoldEvent::Granted, HoldEvent::Released]);
    });
}

/// `TestIssue56`: a hundred callers of one client that ask at one moment all have their turns.
#[test]
fn issue_56() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let turns = (0..100).map(|_| async {
            let guard = lock(&host, "key").acquire(LONG).await.unwrap();
            let ticket = guard.ticket();
            guard.release().await.unwrap();
            ticket
        });
        let turns = join_all(turns).await;
        assert!(
            turns.is_sorted_by(|one, next| one < next),
            "in the order of calls"
        );
    });
}

/// `TestLockNotGrantedError`: an error says by its kind that the lock was not granted, and what else went wrong has another kind.
/// `TestParseDynamoDBError`: what DynamoDB says is a part of the error.
#[test]
fn lock_not_granted_error() {
    virtual_time(async {
        let lab = Lab::new().await;
        let _guard = acquire(&lab.host()).await;
        let busy = lock(&lab.host(), "a").acquire(RecordWait::NoWait).await;
        assert!(matches!(busy, Err(Error::NotGranted { .. })));
        let refuses = lab.host();
        meets(
            &refuses.network,
            "enter",
            1,
            Fault::Refuse("AccessDeniedException"),
        );
        let refused = lock(&refuses, "b")
            .acquire(RecordWait::NoWait)
            .await
            .unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("AccessDenied"), "{refused}");
    });
}

/// `TestExpiredNilLock`, `TestDeleteLockOnRelease`: a lock that is not there counts as free, and one of a dead holder does when its lease
/// has ended.
#[test]
fn expired_nil_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        assert!(holder(&lab.host()).await.is_none());
        let dead = dies(&lab.host()).await;
        lab.wait(2 * LEASE).await;
        assert!(!dead.is_held());
        let shown = holder(&lab.host()).await.unwrap();
        assert_eq!(shown.lease_left, Some(Duration::ZERO));
    });
}
