//! The end of a client: no lock that was to be released stays held, and no caller is told of an eviction that never happened. Whatever
//! could not be done is in the report.

mod standstill;

use std::pin::pin;

use fairlock::embedded::{Engine, Fault, Faults, Gate, When};
use fairlock::{
    Closed, Error, HeldLocks, LockClient, LockGuard, LossReason, RecordWait, ShutdownReport, Ticket,
};
use fairlock_testkit::assert_is;
use fairlock_testkit::captured_log::said_in_lab;
use fairlock_testkit::lab::{
    self, Host, Lab, SECOND, acquire, cut_off, in_lab, in_slots, loss, waits,
};
use fairlock_testkit::{real_time, virtual_time};
use futures::future::{BoxFuture, FutureExt, join_all};
use futures::{StreamExt, poll};
use tokio::task::JoinHandle;
use tracing::Level;

fn acquires(host: &Host) -> JoinHandle<Result<LockGuard, Error>> {
    lab::acquires(host, RecordWait::Infinite)
}

/// Shuts a client down, and opens a gate when the shutdown has begun, which waits for what is held there.
async fn shut_down_and_open(lab: &Lab, host: &Host, how: HeldLocks, gate: &Gate) -> ShutdownReport {
    let locks = host.locks.clone();
    let closing = tokio::spawn(async move { locks.shutdown(how, 5 * SECOND).await });
    lab.wait(SECOND / 10).await;
    assert!(!closing.is_finished(), "{how:?}: waits for nothing");
    gate.open();
    closing.await.unwrap()
}

fn is_clean(report: &ShutdownReport) -> bool {
    report.unfinished.is_empty() && report.held.is_empty()
}

/// Asserts that all that could not be done is the release under this ticket.
#[track_caller]
fn is_undone(report: &ShutdownReport, ticket: Ticket) {
    assert_eq!(
        report.unfinished,
        [format!("releasing lock `a` (ticket {ticket})")]
    );
}

#[test]
fn hundreds_of_calls_that_meet_a_shutdown_hold_nothing_after_it() {
    in_lab(async |lab, [host, other]| {
        let calls = (0..500).map(|number| {
            let lock = host.locks.fair_lock(number.to_string()).unwrap();
            async move { lock.acquire(RecordWait::NoWait).await }
        });
        let shutdown = host.locks.shutdown(HeldLocks::Release, 30 * SECOND);
        let (calls, report) = tokio::join!(join_all(calls), shutdown);
        assert!(report.unfinished.is_empty(), "{report:?}");
        drop(calls);
        lab.settle().await;
        let report = host.locks.shutdown(HeldLocks::Release, SECOND).await;
        assert!(report.held.is_empty(), "{report:?}");
        let mut locks = pin!(other.locks.locks());
        while let Some(state) = locks.next().await {
            assert!(state.unwrap().holder.is_none());
        }
    });
}

#[test]
fn an_acquisition_that_is_granted_during_the_shutdown_is_given_up() {
    for how in [HeldLocks::Release, HeldLocks::Keep] {
        in_lab(async |lab, [host, other]| {
            let gate = host.held("enter", 1, When::After);
            let acquiring = acquires(&host);
            gate.reached(1).await;
            let report = shut_down_and_open(lab, &host, how, &gate).await;
            assert!(is_clean(&report), "{how:?}: {report:?}");
            assert!(matches!(acquiring.await.unwrap(), Err(Error::ShutDown(_))));
            assert!(other.try_acquire().await.is_some());
        });
    }
}

#[test]
fn a_waiter_that_is_promoted_during_the_shutdown_gives_the_lock_up() {
    in_lab(async |lab, [host, successor]| {
        let guard = acquire(&host).await;
        let acquiring = acquires(&successor);
        lab.wait(SECOND).await;
        let gate = successor.held("read lock", 1, When::Before);
        gate.reached(1).await;
        guard.release().await.unwrap();
        let report = shut_down_and_open(lab, &successor, HeldLocks::Release, &gate).await;
        assert!(is_clean(&report), "{report:?}");
        assert!(matches!(acquiring.await.unwrap(), Err(Error::ShutDown(_))));
        assert!(host.try_acquire().await.is_some());
    });
}

/// Three callers that ask at once behind a hold of their own client: the first stands alone, the others share a place. The first `turns` of
/// them have already had their turns.
async fn three_behind(
    lab: &Lab,
    host: &Host,
    turns: usize,
) -> (LockGuard, Vec<JoinHandle<Result<LockGuard, Error>>>) {
    let mut guard = acquire(host).await;
    let mut calls: Vec<_> = (0..3).map(|_| acquires(host)).collect();
    lab.wait(SECOND).await;
    for call in calls.drain(..turns) {
        guard.release().await.unwrap();
        guard = call.await.unwrap().unwrap();
    }
    (guard, calls)
}

#[test]
fn all_who_wait_together_are_told_of_the_shutdown_in_queue_and_behind_a_hold_of_theirs() {
    for (how, turns) in [HeldLocks::Release, HeldLocks::Keep]
        .into_iter()
        .flat_map(|how| [0, 1, 2].map(|turns| (how, turns)))
    {
        in_lab(async |lab, [host, other]| {
            let (guard, calls) = three_behind(lab, &host, turns).await;
            let report = host.locks.shutdown(how, 5 * SECOND).await;
            assert!(report.unfinished.is_empty(), "{report:?}");
            for call in calls {
                assert!(matches!(call.await.unwrap(), Err(Error::ShutDown(_))));
            }
            let lock = other.lock();
            if how == HeldLocks::Keep {
                assert_eq!(report.held, [("a".to_owned(), guard.ticket())]);
                assert_is!(acquires(&host).await.unwrap(), Err(Error::ShutDown(_)));
                // It is renewed until its guard goes.
                lab.wait(100 * SECOND).await;
                assert!(guard.is_held() && lock.try_acquire().await.unwrap().is_none());
                guard.release().await.unwrap();
            } else {
                assert_eq!(guard.lost().await.reason, LossReason::ShutDown);
            }
            assert!(lock.try_acquire().await.unwrap().is_some());
        });
    }
}

/// As by a process that was stopped, and ends first of all when it goes on.
#[test]
fn a_hold_whose_lease_has_ended_before_the_shutdown_is_lost_by_that() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        // The clock jumps, and no task of the client runs before the shutdown does.
        let ((), report) = tokio::join!(
            biased;
            tokio::time::advance(60 * SECOND),
            host.locks.shutdown(HeldLocks::Release, 5 * SECOND)
        );
        assert!(is_clean(&report), "{report:?}");
        assert_eq!(guard.lost().await.reason, LossReason::Expired);
        assert!(lab.is_free("a").await);
    });
}

async fn held_for_five_seconds(host: &Host) -> LockGuard {
    let lock = host.lock().max_hold(5 * SECOND);
    lock.acquire(RecordWait::NoWait).await.unwrap()
}

/// The guard is still there, so nobody has asked for the release but the bound itself.
#[test]
fn the_release_of_a_hold_that_reached_its_longest_time_is_waited_for() {
    for how in [HeldLocks::Release, HeldLocks::Keep] {
        in_lab(async |lab, [host]| {
            let guard = held_for_five_seconds(&host).await;
            let gate = host.held("release", 1, When::Before);
            let lost = guard.lost().await.reason;
            assert_is!(lost, LossReason::MaxHold { .. });
            gate.reached(1).await;
            let report = shut_down_and_open(lab, &host, how, &gate).await;
            assert!(report.unfinished.is_empty(), "{how:?}: {report:?}");
            assert!(lab.is_free("a").await);
            drop(guard);
        });
    }
}

#[test]
fn the_release_of_a_hold_that_reached_its_longest_time_is_in_the_report_if_it_could_not_be_done() {
    in_lab(async |_, [host]| {
        let guard = held_for_five_seconds(&host).await;
        host.network.set_faults(cut_off());
        guard.lost().await;
        let report = host.locks.shutdown(HeldLocks::Release, SECOND / 10).await;
        is_undone(&report, guard.ticket());
    });
}

/// The caller of the release has gone, as by a time-out around it. Nobody else would be told that the lock waits for its lease.
#[test]
fn a_release_that_fails_after_its_caller_has_gone_is_in_the_report() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let ticket = guard.ticket();
        host.network.set_faults(cut_off());
        lab.drops(SECOND / 10, guard.release()).await;
        let report = host.locks.shutdown(HeldLocks::Release, 60 * SECOND).await;
        is_undone(&report, ticket);
    });
}

/// As by a process that was stopped, and ends first of all when it goes on.
#[test]
fn a_hold_that_reached_its_longest_time_unnoticed_is_released_by_the_shutdown() {
    in_lab(async |lab, [host]| {
        let guard = held_for_five_seconds(&host).await;
        let gate = host.held("release", 1, When::Before);
        let ((), report) = tokio::join!(
            biased;
            tokio::time::advance(6 * SECOND),
            shut_down_and_open(lab, &host, HeldLocks::Release, &gate)
        );
        assert!(is_clean(&report), "{report:?}");
        let lost = guard.lost().await.reason;
        assert_is!(lost, LossReason::MaxHold { .. });
        assert!(lab.is_free("a").await);
    });
}

/// The lease is to end the hold then, and nobody waits for longer than the caller wanted.
#[test]
fn a_client_that_goes_while_a_hold_lasts_for_its_shortest_time_leaves_no_warning() {
    let warnings = said_in_lab(Level::WARN, async |lab, [host]| {
        let lock = host.lock().min_hold(60 * SECOND);
        let guard = lock.acquire(RecordWait::NoWait).await.unwrap();
        guard.release().await.unwrap();
        drop((lock, host));
        lab.settle().await;
    });
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn a_lock_that_is_passed_on_during_the_shutdown_is_given_up() {
    for how in [HeldLocks::Release, HeldLocks::Keep] {
        in_lab(async |lab, [host, other]| {
            let (guard, mut calls) = three_behind(lab, &host, 2).await;
            host.meets("renew hold", usize::MAX, Fault::Throttle);
            lab.wait(20 * SECOND).await;
            // With little of the lease left, the hold is renewed first.
            let gate = host.held("renew hold", 1, When::After);
            let releasing = tokio::spawn(guard.release());
            gate.reached(1).await;
            let report = shut_down_and_open(lab, &host, how, &gate).await;
            assert!(is_clean(&report), "{how:?}: {report:?}");
            releasing.await.unwrap().unwrap();
            assert_is!(calls.remove(0).await.unwrap(), Err(Error::ShutDown(_)));
            assert!(other.try_acquire().await.is_some());
        });
    }
}

#[test]
fn a_release_under_way_is_not_told_that_the_lock_was_lost_to_the_shutdown() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let gate = host.held("release", 1, When::Before);
        let releasing = tokio::spawn(guard.release());
        gate.reached(1).await;
        let report = shut_down_and_open(lab, &host, HeldLocks::Release, &gate).await;
        assert!(is_clean(&report), "{report:?}");
        releasing.await.unwrap().unwrap();
    });
}

#[test]
fn a_release_that_could_not_be_done_is_in_the_report() {
    for fault in [
        Fault::Lose(When::Before),
        Fault::Close(When::Before),
        Fault::Refuse("AccessDeniedException"),
    ] {
        in_lab(async |lab, []| {
            let host = lab.host_with(|builder| builder.lease_duration(SECOND));
            let guard = acquire(&host).await;
            host.script(move |_| Some(fault.clone()));
            let report = host.locks.shutdown(HeldLocks::Release, 20 * SECOND).await;
            is_undone(&report, guard.ticket());
        });
    }
}

#[test]
fn what_failed_before_the_shutdown_is_not_in_its_report() {
    in_lab(async |lab, []| {
        let host = lab.host_with(|builder| builder.lease_duration(SECOND));
        let guard = acquire(&host).await;
        host.network.set_faults(cut_off());
        drop(guard);
        lab.wait(5 * SECOND).await;
        let report = host.locks.shutdown(HeldLocks::Release, SECOND).await;
        assert!(is_clean(&report), "{report:?}");
    });
}

#[test]
fn a_waiter_is_told_of_the_shutdown_whatever_the_table_answers() {
    for slots in [1, 4] {
        in_slots(slots, async |lab, hosts: [Host; 3]| {
            let _guard = acquire(&hosts[0]).await;
            let _successor = waits(lab, &hosts[1]).await;
            let waiting = acquires(&hosts[2]);
            lab.wait(SECOND).await;
            hosts[2].network.set_faults(Faults {
                throttles: 1.0,
                ..Faults::default()
            });
            lab.wait(3 * SECOND).await;
            let locks = &hosts[2].locks;
            let report = locks.shutdown(HeldLocks::Release, SECOND).await;
            assert!(matches!(waiting.await.unwrap(), Err(Error::ShutDown(_))));
            assert_eq!(report.unfinished.len(), 1, "{report:?}");
        });
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_hold_is_lost_with_the_runtime_of_its_client() {
    let clients = runtime();
    let guard = clients.block_on(async {
        let dynamodb = Engine::memory().unwrap().client();
        let locks = LockClient::builder(dynamodb).build().unwrap();
        locks.create_table().await.unwrap();
        let lock = locks.fair_lock("a").unwrap();
        lock.acquire(RecordWait::NoWait).await.unwrap()
    });
    let lost = guard.lost();
    clients.shutdown_timeout(SECOND);
    real_time(async {
        assert_eq!(lost.await.reason, LossReason::NoRuntime);
        assert!(!guard.is_held());
        assert_eq!(loss(guard.release().await), LossReason::NoRuntime);
    });
}

/// Starts a call that outlives the runtime of its client.
async fn begins(host: &Host) -> BoxFuture<'static, Result<LockGuard, Error>> {
    let lock = host.lock();
    let mut call = async move { lock.acquire(RecordWait::Infinite).await }.boxed();
    assert!(poll!(&mut call).is_pending());
    call
}

fn are_told_that_the_runtime_is_gone(
    calls: impl IntoIterator<Item = BoxFuture<'static, Result<LockGuard, Error>>>,
) {
    for ended in virtual_time(join_all(calls)) {
        let told = matches!(ended, Err(Error::ShutDown(Closed::NoRuntime)));
        assert!(told, "{ended:?}");
    }
}

#[test]
fn all_who_wait_together_are_told_that_the_runtime_of_their_client_is_gone() {
    for turns in 0..=2 {
        let (guard, calls) = in_lab(async |lab, [host]| {
            let mut guard = acquire(&host).await;
            let mut calls = vec![
                begins(&host).await,
                begins(&host).await,
                begins(&host).await,
            ];
            lab.wait(SECOND).await;
            for call in calls.drain(..turns) {
                guard.release().await.unwrap();
                guard = call.await.unwrap();
            }
            (guard, calls)
        });
        assert!(!guard.is_held());
        are_told_that_the_runtime_is_gone(calls);
    }
}

#[test]
fn one_whom_the_lock_is_passed_on_to_is_told_that_the_runtime_of_its_client_is_gone() {
    let calls = in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let (first, second) = (begins(&host).await, begins(&host).await);
        let third = begins(&host).await;
        lab.wait(SECOND).await;
        guard.release().await.unwrap();
        first.await.unwrap().release().await.unwrap();
        let guard = second.await.unwrap();
        host.meets("renew hold", usize::MAX, Fault::Throttle);
        lab.wait(20 * SECOND).await;
        let gate = host.held("renew hold", 1, When::Before);
        drop(guard);
        gate.reached(1).await;
        [third]
    });
    are_told_that_the_runtime_is_gone(calls);
}

#[test]
fn who_waits_at_the_door_is_told_that_the_runtime_of_its_client_is_gone() {
    let calls = in_lab(async |_, [host]| {
        let gate = host.held("enter", 1, When::Before);
        let first = begins(&host).await;
        gate.reached(1).await;
        [first, begins(&host).await]
    });
    are_told_that_the_runtime_is_gone(calls);
}
