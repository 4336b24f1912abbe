//! What the tests of Apache Curator's recipes for locks, semaphores and leaders (88dee99) assert.
//!
//! These of their tests have no counterpart:
//!
//! - `testReentrant` and 1 more (re-entrancy). Not here: locks are not re-entrant, as those of `TestInterProcessSemaphoreMutex` are
//!   not.
//! - `testPersistentLock` (a lock whose node outlives the session). Differs: `lease_lock` holds a lock without a process:
//!   `lease_lock::a_lease_is_carried_as_text_extended_and_released_by_whoever_has_it`.
//! - `testWithSchema` and 3 more (schemas and access lists of ZooKeeper). Not here: access is granted by IAM.
//! - `testCallbackDontNotify` (a latch that is closed without telling its listener). Differs: a candidate's observer is told of every
//!   term's end.
//! - `testRelativePath` and 2 more (paths and nodes of ZooKeeper). Not here: they say nothing of locks.

use std::ops::ControlFlow::{Break, Continue};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{
    Error, HeldLocks, LeadershipEvent, LockGuard, LossReason, RecordWait, Semaphore, Ticket,
};
use fairlock_testkit::lab::{Host, Lab, acquire, cut_off, waits};
use fairlock_testkit::virtual_time;
use futures::future::join_all;
use futures::poll;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::{LEASE, LONG, MS, SECOND, dies, lock, script, state, try_acquire};

// Locks

/// `testLocker`: a lock that a scope holds is free when the scope has ended.
#[test]
fn locker() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let lock = lock(&host, "a");
        let ran = lock.run(LONG, async |guard| guard.is_held());
        assert!(ran.await.unwrap().into_result().unwrap());
        assert!(lab.is_free("a").await);
    });
}

/// `testWaitingProcessKilledServer`: a holder and a waiter survive an outage of the service, and both have their turns.
#[test]
fn waiting_process_killed_server() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two) = (lab.host(), lab.host());
        let guard = acquire(&one).await;
        let waiting = waits(&lab, &two).await;
        for host in [&one, &two] {
            host.network.set_faults(cut_off());
        }
        lab.wait(LEASE / 2).await;
        for host in [&one, &two] {
            host.network.set_faults(Faults::default());
        }
        lab.wait(LEASE / 2).await;
        assert!(guard.is_held() && !waiting.is_finished());
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
    });
}

/// `testKilledSession`, `testKillSessionThenCloseShouldElectNewLeader`: when the session of the holder is gone, the waiter is granted the lock.
#[test]
fn killed_session() {
    virtual_time(async {
        let lab = Lab::new().await;
        let dead = dies(&lab.host()).await;
        let next = waits(&lab, &lab.host()).await;
        lab.wait(LEASE + SECOND).await;
        assert!(next.await.unwrap().ticket() > dead.ticket());
    });
}

/// `testContainerCleanup`: when all callers have had their turns and the lock was unused for long, nothing of it is left.
#[test]
fn container_cleanup() {
    virtual_time(async {
        let lab = Lab::new().await;
        lab.switch_ttl_on().await;
        let hosts: Vec<_> = (0..10).map(|_| lab.host()).collect();
        let turns = hosts.iter().map(|host| async {
            let guard = lock(host, "a").acquire(LONG).await.unwrap();
            sleep(10 * MS).await;
            guard.release().await.unwrap();
        });
        join_all(turns).await;
        lab.settle().await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        lab.wait(Duration::from_secs(8 * 24 * 3600)).await;
        lab.engine.expire().await.unwrap();
        assert_eq!(lab.items("a").await, [""; 0]);
    });
}

/// `testWithNamespace`: a lock in a namespace is another lock than the one of the same name outside of it.
#[test]
fn with_namespace() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host_with(|builder| builder.namespace("test"));
        let _guard = acquire(&host).await;
        assert!(try_acquire(&host, "a").await.is_none());
        assert!(try_acquire(&lab.host(), "a").await.is_some());
    });
}

/// `testReentrantSingleLock` of the mutex and of `TestInterProcessSemaphoreMutex`: ten callers that share a handle hold the lock one at a time.
#[test]
fn ten_callers_of_one_handle() {
    virtual_time(async {
        let lab = Lab::new().await;
        let mutex = lock(&lab.host(), "a");
        let held = AtomicUsize::new(0);
        let turns = (0..10).map(|_| async {
            let guard = mutex.acquire(LONG).await.unwrap();
            assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0);
            sleep(100 * MS).await;
            held.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        });
        join_all(turns).await;
    });
}

/// `test2Clients`: of two clients, one holds the lock and the other one waits, until the first has released it.
#[test]
fn two_clients() {
    virtual_time(async {
        let lab = Lab::new().await;
        let guard = acquire(&lab.host()).await;
        let waiting = waits(&lab, &lab.host()).await;
        lab.wait(SECOND).await;
        assert!(guard.is_held() && !waiting.is_finished());
        guard.release().await.unwrap();
        assert!(waiting.await.unwrap().is_held());
    });
}

/// `testRevoking`: a holder that is asked to give way learns of it, releases the lock, and the caller that asked is granted it.
#[test]
fn revoking() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let guard = acquire(&host).await;
        let held = async {
            let asked = guard.asked_to_yield().await;
            guard.release().await.unwrap();
            asked.reason
        };
        let revokes = async {
            let asked = other.locks.ask_to_yield("a", "maintenance").await;
            assert_eq!(asked.unwrap(), 1);
            lock(&other, "a").acquire(LONG).await.unwrap()
        };
        let (reason, next) = tokio::join!(held, revokes);
        assert_eq!(reason, "maintenance");
        assert!(next.is_held());
    });
}

/// `testNodeDeletedCleanlyWithFaults`, `testAttemptLockFailedException`: an attempt whose requests fail leaves nothing in the way.
#[test]
fn node_deleted_cleanly_with_faults() {
    for fault in [
        Fault::Lose(When::After),
        Fault::Lose(When::Before),
        Fault::Close(When::After),
        Fault::ServerError(When::After),
    ] {
        virtual_time(async {
            let lab = Lab::new().await;
            let host = lab.host();
            script(&host, fault, |_| true);
            let wait = RecordWait::Timeout(5 * SECOND);
            let failed = lock(&host, "a").acquire(wait).await;
            assert!(failed.is_err(), "{failed:?}");
            script(&host, Fault::Throttle, |_| false);
            let next = lock(&lab.host(), "a").acquire(LONG).await.unwrap();
            next.release().await.unwrap();
            assert!(lab.is_free("a").await);
        });
    }
}

// Several locks

/// `testSomeReleasesFail`: if one of several locks cannot be released, the others are released all the same, and the error is returned.
#[test]
fn some_releases_fail() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let locks = host.locks.multi_lock(["our-lock-1", "our-lock-2"]).unwrap();
        let both = locks.acquire(LONG).await.unwrap();
        script(&host, Fault::ServerError(When::Before), |request| {
            request.key("pk") == Some("our-lock-2")
        });
        assert!(both.release().await.is_err());
        assert!(try_acquire(&lab.host(), "our-lock-1").await.is_some());
    });
}

/// `testSomeLocksFailToLock`: if one of several locks cannot be taken, the call keeps none of them, and returns the error.
#[test]
fn some_locks_fail_to_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        script(&host, Fault::Refuse("AccessDeniedException"), |request| {
            request.key("pk") == Some("our-lock-2")
        });
        let locks = host.locks.multi_lock(["our-lock-1", "our-lock-2"]).unwrap();
        let failed = locks.acquire(LONG).await.unwrap_err();
        assert!(matches!(failed, Error::Refused { .. }), "{failed}");
        assert!(lab.is_free("our-lock-1").await);
    });
}

// Readers and writers

/// `testGetParticipantNodes` of the read-write lock: the readers that hold the lock and the writers that wait are all shown.
#[test]
fn get_participants_of_readers_and_writers() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let mut readers = Vec::new();
        for _ in 0..20 {
            readers.push(lock(&host, "a").acquire_shared(LONG).await.unwrap());
        }
        let mut writers = Vec::new();
        for _ in 0..8 {
            writers.push(waits(&lab, &host).await);
        }
        let state = state(&lab.host()).await;
        assert_eq!(1 + state.sharers.len(), 20);
        assert_eq!(state.waiting, 8);
        drop(readers);
        for writer in writers {
            writer.await.unwrap().release().await.unwrap();
        }
    });
}

/// `testThatUpgradingIsDisallowed`: a reader that asks for the lock alone is not granted it.
#[test]
fn that_upgrading_is_disallowed() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let reads = lock(&host, "a").acquire_shared(LONG).await.unwrap();
        let writes = lock(&host, "a");
        let writes = writes.acquire(RecordWait::Timeout(5 * SECOND)).await;
        assert!(matches!(writes, Err(Error::NotGranted { .. })));
        reads.release().await.unwrap();
    });
}

/// `testThatDowngradingRespectsThreads`: while a writer holds the lock and does not downgrade, no other caller shares it.
#[test]
fn that_downgrading_respects_others() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let _writes = acquire(&host).await;
        let reads = lock(&host, "a");
        let reads = reads.acquire_shared(RecordWait::Timeout(5 * SECOND)).await;
        assert!(matches!(reads, Err(Error::NotGranted { .. })));
    });
}

/// `testDowngrading`: a writer becomes a reader, and readers share the lock with it. `testContendingDowngrading`: a writer that waits is not
/// let in by that.
#[test]
fn downgrading() {
    virtual_time(async {
        let lab = Lab::new().await;
        let mut guard = acquire(&lab.host()).await;
        guard.downgrade().await.unwrap();
        let reader = lock(&lab.host(), "a").try_acquire_shared().await.unwrap();
        reader.unwrap().release().await.unwrap();
        let writer = waits(&lab, &lab.host()).await;
        lab.wait(2 * LEASE).await;
        assert!(!writer.is_finished());
        guard.release().await.unwrap();
        writer.await.unwrap().release().await.unwrap();
    });
}

/// `testBasic` of the read-write lock: readers share the lock, a writer has it alone, over many turns.
#[test]
fn readers_and_writers() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..8).map(|_| lab.host()).collect();
        let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let turns = hosts.iter().enumerate().map(|(number, host)| {
            let (lock, held, most) = (lock(host, "a"), &held, &most);
            async move {
                for turn in 0..20 {
                    let writes = (number * 7 + turn * 3) % 10 == 0;
                    let guard = match writes {
                        true => lock.acquire(LONG).await.unwrap(),
                        false => lock.acquire_shared(LONG).await.unwrap(),
                    };
                    let now = 1 + held.fetch_add(1, Ordering::SeqCst);
                    most.fetch_max(now, Ordering::SeqCst);
                    assert!(!writes || now == 1, "{now}");
                    sleep((1 + (number + turn) as u32 % 9) * MS).await;
                    held.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            }
        });
        join_all(turns).await;
        assert!(most.into_inner() > 1);
    });
}

/// `testSetNodeData`: what a writer says of itself stands with its place, as it was when it was said.
#[test]
fn set_node_data() {
    virtual_time(async {
        let lab = Lab::new().await;
        let mut said = vec![("node", "1234".to_owned())];
        let named = lock(&lab.host(), "a").attributes(said.clone());
        said[0].1 = "5234".to_owned();
        let _guard = named.acquire(LONG).await.unwrap();
        let holder = state(&lab.host()).await.holder.unwrap();
        assert_eq!(holder.attributes["node"], "1234");
    });
}

/// `testLockPath`: when the session of a writer is gone, a reader shares the lock, and the writer is told.
#[test]
fn lock_path() {
    virtual_time(async {
        let lab = Lab::new().await;
        let dead = dies(&lab.host()).await;
        let reader = lock(&lab.host(), "a").acquire_shared(LONG).await.unwrap();
        assert!(reader.is_held() && !dead.is_held());
        assert!(matches!(
            dead.lost().await.reason,
            LossReason::Unreachable { .. }
        ));
    });
}

// Semaphores

fn semaphore(host: &Host, permits: u64) -> Semaphore {
    host.locks.semaphore("test", permits).unwrap()
}

/// `testSimple`, `testSimple2`: as many permits are granted as there are, the next caller is refused when its wait ends, and a permit that is
/// released is granted again.
#[test]
fn simple() {
    for permits in [1, 3] {
        virtual_time(async {
            let lab = Lab::new().await;
            let host = lab.host();
            let mut leases = Vec::new();
            for _ in 0..permits {
                leases.push(semaphore(&host, permits).acquire(LONG).await.unwrap());
            }
            let wait = RecordWait::Timeout(5 * SECOND);
            let refused = semaphore(&host, permits).acquire(wait).await;
            assert!(matches!(refused, Err(Error::NotGranted { .. })));
            leases.remove(0).release().await.unwrap();
            leases.push(semaphore(&host, permits).acquire(wait).await.unwrap());
        });
    }
}

/// `testThreads`: ten callers of a semaphore with one permit all have their turns.
#[test]
fn threads() {
    virtual_time(async {
        let lab = Lab::new().await;
        let one = semaphore(&lab.host(), 1);
        let turns = (0..10).map(|_| async {
            let permit = one.acquire(LONG).await.unwrap();
            sleep(MS).await;
            permit.release().await.unwrap();
        });
        join_all(turns).await;
    });
}

/// `testRelease1AtATime`: ten clients share five permits: five are in use at one time, and never more.
#[test]
fn release_1_at_a_time() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..10).map(|_| lab.host()).collect();
        let (active, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let turns = hosts.iter().map(|host| async {
            let permit = semaphore(host, 5).acquire(LONG).await.unwrap();
            let now = 1 + active.fetch_add(1, Ordering::SeqCst);
            most.fetch_max(now, Ordering::SeqCst);
            sleep(SECOND).await;
            active.fetch_sub(1, Ordering::SeqCst);
            permit.release().await.unwrap();
        });
        join_all(turns).await;
        assert_eq!(most.into_inner(), 5);
    });
}

/// `testReleaseInChunks`: a hundred callers share eleven permits, which are given back some at a time: never more are in use.
#[test]
fn release_in_chunks() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let (active, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let turns = (0..100u32).map(|number| {
            let (permits, active, most) = (semaphore(&host, 11), &active, &most);
            async move {
                let permit = permits.acquire(LONG).await.unwrap();
                most.fetch_max(1 + active.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                sleep(number % 5 * 20 * MS + MS).await;
                active.fetch_sub(1, Ordering::SeqCst);
                permit.release().await.unwrap();
            }
        });
        join_all(turns).await;
        assert_eq!(active.into_inner(), 0);
        assert!((1..=11).contains(&most.into_inner()));
    });
}

/// `testThreadedLeaseIncrease`: callers wait for a semaphore that is too small for all, and hold it together when it has grown.
#[test]
fn threaded_lease_increase() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, operator) = (lab.host(), lab.host());
        let begun = AtomicUsize::new(0);
        let turns = (0..10).map(|_| {
            let (permits, begun) = (semaphore(&host, 5), &begun);
            async move {
                let permit = permits.acquire(LONG).await.unwrap();
                begun.fetch_add(1, Ordering::SeqCst);
                sleep(20 * SECOND).await;
                permit.release().await.unwrap();
            }
        });
        let grows = async {
            sleep(5 * SECOND).await;
            assert_eq!(begun.load(Ordering::SeqCst), 5);
            let name = semaphore(&host, 5).name().to_owned();
            operator.locks.resize(name, 10).await.unwrap();
            sleep(5 * SECOND).await;
            assert_eq!(begun.load(Ordering::SeqCst), 10);
        };
        tokio::join!(join_all(turns), grows);
    });
}

/// `testMaxPerSession`: ten clients take several permits at once, again and again, and never more are in use than there are.
#[test]
fn max_per_session() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..10).map(|_| lab.host()).collect();
        let (used, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let turns = hosts.iter().enumerate().map(|(number, host)| {
            let (permits, used, most) = (semaphore(host, 30), &used, &most);
            async move {
                for turn in 0..10 {
                    let many = 1 + (number as u64 * 13 + turn * 7) % 30;
                    let taken = permits.acquire_many(many, LONG).await.unwrap();
                    let now = many + used.fetch_add(many, Ordering::SeqCst);
                    most.fetch_max(now, Ordering::SeqCst);
                    sleep(5 * MS).await;
                    used.fetch_sub(many, Ordering::SeqCst);
                    taken.release().await.unwrap();
                }
            }
        });
        join_all(turns).await;
        assert!((1..=30).contains(&most.into_inner()));
    });
}

/// `testClientClose`: a client that is closed gives its permits back.
#[test]
fn client_close() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two) = (lab.host(), lab.host());
        let permit = semaphore(&one, 1).acquire(LONG).await.unwrap();
        one.locks.shutdown(HeldLocks::Release, LEASE).await;
        assert!(!permit.is_held());
        assert!(semaphore(&two, 1).try_acquire().await.unwrap().is_some());
    });
}

/// `testGetParticipantNodes` of the semaphore: every holder of a permit is shown.
#[test]
fn get_participants_of_a_semaphore() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let mut permits = Vec::new();
        for _ in 0..3 {
            permits.push(semaphore(&host, 3).acquire(LONG).await.unwrap());
        }
        let state = lock(&lab.host(), "test").inspect().await.unwrap();
        let mut shown: Vec<_> = { state.sharers.iter().chain(&state.holder) }
            .map(|one| one.ticket)
            .collect();
        shown.sort();
        assert_eq!(
            shown,
            permits.iter().map(LockGuard::ticket).collect::<Vec<_>>()
        );
    });
}

/// `testNoOrphanedNodes`: a waiter whose place was deleted under it asks again, is granted a permit, and leaves nothing behind.
#[test]
fn no_orphaned_nodes() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other, ops) = (lab.host(), lab.host(), lab.host());
        let permit = semaphore(&host, 1).acquire(LONG).await.unwrap();
        let waits = semaphore(&other, 1);
        let mut waiting = pin!(waits.acquire(LONG));
        assert!(poll!(&mut waiting).is_pending());
        lab.settle().await;
        let queue = lock(&ops, "test").inspect().await.unwrap().queue;
        ops.locks.break_hold("test", &queue[0], "").await.unwrap();
        permit.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        lab.settle().await;
        let state = lock(&ops, "test").inspect().await.unwrap();
        assert!(state.holder.is_none() && state.queue.is_empty());
        assert!(semaphore(&host, 1).try_acquire().await.unwrap().is_some());
    });
}

/// `testInterruptAcquire`: a caller that stops waiting leaves nothing in the queue, and the next caller is granted the permit.
#[test]
fn interrupt_acquire() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let permit = semaphore(&host, 1).acquire(LONG).await.unwrap();
        {
            let waits = semaphore(&other, 1);
            let mut waiting = pin!(waits.acquire(RecordWait::Infinite));
            assert!(poll!(&mut waiting).is_pending());
            lab.settle().await;
            assert_eq!(lock(&host, "test").inspect().await.unwrap().waiting, 1);
        }
        lab.settle().await;
        assert_eq!(lock(&host, "test").inspect().await.unwrap().waiting, 0);
        permit.release().await.unwrap();
        assert!(
            semaphore(&lab.host(), 1)
                .try_acquire()
                .await
                .unwrap()
                .is_some()
        );
    });
}

/// `testAcquireAfterLostServer`, `testCluster`, `testKilledServerWithEnsembleProvider`: after an outage that ends their permits, callers take
/// permits again.
#[test]
fn acquire_after_lost_server() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..4).map(|_| lab.host()).collect();
        let turns = AtomicUsize::new(0);
        let works = hosts.iter().map(|host| async {
            for _ in 0..3 {
                let permit = semaphore(host, 2)
                    .acquire(RecordWait::Infinite)
                    .await
                    .unwrap();
                sleep(20 * SECOND).await;
                turns.fetch_add(1, Ordering::SeqCst);
                // A permit that was lost is not released.
                let _ = permit.release().await;
            }
        });
        let outage = async {
            sleep(10 * SECOND).await;
            hosts
                .iter()
                .for_each(|host| host.network.set_faults(cut_off()));
            sleep(2 * LEASE).await;
            let works = || Faults::default();
            hosts
                .iter()
                .for_each(|host| host.network.set_faults(works()));
        };
        tokio::join!(join_all(works), outage);
        assert_eq!(turns.into_inner(), 12);
        lab.settle().await;
        assert!(
            semaphore(&hosts[0], 2)
                .try_acquire_many(2)
                .await
                .unwrap()
                .is_some()
        );
    });
}

// Leaders

/// A candidate of lock `a` that notes the tickets of its terms, leads for a second each, and stops after `terms`.
async fn leads(host: &Host, terms: usize, led: &Mutex<Vec<(String, Ticket)>>) {
    let mut left = terms;
    let candidate = lock(host, "a").candidate();
    let work = async |guard: &LockGuard| {
        let name = format!("{host:p}");
        led.lock().unwrap().push((name, guard.ticket()));
        sleep(SECOND).await;
        left -= 1;
        if left == 0 { Break(()) } else { Continue(()) }
    };
    candidate.lead(work).await.unwrap();
}

/// `testWaiting`, `testBasic`, `testBasicAlt` of the latch, `test` of the selector with an executor: of many candidates one leads at a time,
/// and every one leads once the leaders before it are gone. `testCallbackSanity`, `testCallbackNotifyLeader`: every term is told.
#[test]
fn leader_latch_basic() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..10).map(|_| lab.host()).collect();
        let (began, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (began, ended) = (std::sync::Arc::new(began), std::sync::Arc::new(ended));
        let candidates = hosts.iter().map(|host| {
            let (began, ended) = (began.clone(), ended.clone());
            let candidate = lock(host, "a")
                .candidate()
                .observed(move |event| match event {
                    LeadershipEvent::Began { .. } => {
                        let others = began.fetch_add(1, Ordering::SeqCst);
                        assert!(others - ended.load(Ordering::SeqCst) <= 1);
                    }
                    LeadershipEvent::Ended { .. } => drop(ended.fetch_add(1, Ordering::SeqCst)),
                    other => panic!("{other:?}"),
                });
            candidate.lead(async |_| {
                sleep(SECOND).await;
                Break(())
            })
        });
        let led = join_all(candidates).await;
        assert!(led.into_iter().all(|led| matches!(led, Ok(Some(())))));
        let told = (began.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
        assert_eq!(told, (10, 10));
    });
}

/// `testAutoRequeue`: a candidate whose term has ended stands again. `testRotatingLeadership`: candidates that give way lead in turn, each
/// before any of them leads again.
#[test]
fn rotating_leadership() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..5).map(|_| lab.host()).collect();
        let led = Mutex::default();
        join_all(hosts.iter().map(|host| leads(host, 3, &led))).await;
        let led = led.into_inner().unwrap();
        assert!(led.is_sorted_by_key(|(_, ticket)| *ticket));
        let names: Vec<_> = led.into_iter().map(|(name, _)| name).collect();
        for round in names.chunks(5) {
            let mut round = round.to_vec();
            round.sort();
            round.dedup();
            assert_eq!(round.len(), 5, "{names:?}");
        }
    });
}

/// `testInterruptLeadership`, `testLeaderNodeDeleteOnInterrupt`: a leader whose work is told to return stops, and leaves no node behind.
/// `testInterruptLeadershipWithRequeue`: it stands and leads again.
#[test]
fn interrupt_leadership() {
    virtual_time(async {
        let lab = Lab::new().await;
        let candidate = lock(&lab.host(), "a").candidate();
        let resigns = Notify::new();
        let terms = AtomicUsize::new(0);
        let leading = candidate.lead(async |_| {
            if terms.fetch_add(1, Ordering::SeqCst) == 0 {
                resigns.notified().await;
                return Continue(());
            }
            Break(())
        });
        let ends = async {
            lab.settle().await;
            assert_eq!(terms.load(Ordering::SeqCst), 1);
            resigns.notify_waiters();
        };
        let (led, ()) = tokio::join!(leading, ends);
        assert_eq!(led.unwrap(), Some(()));
        assert_eq!(terms.into_inner(), 2);
        assert!(lab.is_free("a").await);
    });
}

/// `testInterruption`, `testClosing`, `testProperCloseWithoutConnectionEstablished`: a candidate that is stopped, leading or not, leaves
/// nothing behind, and another one leads.
#[test]
fn closing() {
    for leads in [true, false] {
        virtual_time(async {
            let lab = Lab::new().await;
            let (host, other) = (lab.host(), lab.host());
            let holder = match leads {
                true => None,
                false => Some(acquire(&other).await),
            };
            let (stop, stopped) = oneshot::channel::<()>();
            let candidate = lock(&host, "a").candidate();
            let candidate = candidate.until(async { drop(stopped.await) });
            let leading = candidate.lead::<()>(async |_| std::future::pending().await);
            let (led, ()) = tokio::join!(leading, async {
                lab.settle().await;
                drop(stop);
            });
            assert_eq!(led.unwrap(), None);
            drop(holder);
            lab.settle().await;
            assert!(lab.is_free("a").await);
        });
    }
}

/// `testLostConnection`, `testErrorPolicies`, `testSessionErrorPolicy`, `testServerDying`, `testWithCircuitBreaker`, `testLostRestart`,
/// `testRestart`, `flappingTest`: a leader that loses its connection for longer than its session stops before another one leads, and one of
/// the candidates leads when the connection is back.
#[test]
fn lost_connection() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let stands = |host: &Host, name: &'static str| {
            let tell = tell.clone();
            let candidate = lock(host, "a").candidate().observed(move |event| {
                let what = match event {
                    LeadershipEvent::Began { .. } => "leads",
                    LeadershipEvent::Lost { .. } => "lost",
                    _ => return,
                };
                tell.send((name, what)).unwrap();
            });
            candidate.lead::<()>(async |_| std::future::pending().await)
        };
        let checks = async {
            assert_eq!(told.recv().await.unwrap(), ("first", "leads"));
            host.network.set_faults(cut_off());
            assert_eq!(told.recv().await.unwrap(), ("first", "lost"));
            assert_eq!(told.recv().await.unwrap(), ("second", "leads"));
            host.network.set_faults(Faults::default());
            other.network.set_faults(cut_off());
            assert_eq!(told.recv().await.unwrap(), ("second", "lost"));
            assert_eq!(told.recv().await.unwrap(), ("first", "leads"));
        };
        let second = async {
            lab.settle().await;
            stands(&other, "second").await
        };
        tokio::select! {
            biased;
            led = stands(&host, "first") => panic!("{led:?}"),
            led = second => panic!("{led:?}"),
            () = checks => {}
        }
    });
}

/// `testSessionInterruptionDoNotCauseBrainSplit`, `testGetChildrenHitsNoNode`, `testResettingOfLeadershipAfterConcurrentLeadershipChange`,
/// `testLeadershipElectionWhenNodeDisappearsAfterChildrenAreRetrieved`, `testRaceAtStateChanged`: an interruption that is shorter than a
/// session ends no term, and never makes two leaders.
#[test]
fn session_interruption_do_not_cause_brain_split() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let leading = AtomicUsize::new(0);
        let terms = AtomicUsize::new(0);
        let stands = async |host: &Host| {
            let candidate = lock(host, "a").candidate();
            let led = candidate.lead::<()>(async |_| {
                terms.fetch_add(1, Ordering::SeqCst);
                assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two leaders");
                std::future::pending().await
            });
            led.await
        };
        let interrupts = async {
            lab.settle().await;
            for _ in 0..5 {
                for host in [&host, &other] {
                    host.network.set_faults(cut_off());
                    lab.wait(LEASE / 3).await;
                    host.network.set_faults(Faults::default());
                    lab.wait(LEASE / 3).await;
                }
            }
        };
        tokio::select! {
            biased;
            led = stands(&host) => panic!("{led:?}"),
            led = stands(&other) => panic!("{led:?}"),
            () = interrupts => {}
        }
        assert_eq!(terms.into_inner(), 1);
    });
}

/// `testWatchedNodeDeletedOnReconnect`, `testCorrectWatching`, `testResetRace`, `testCreateDeleteRace`: a candidate whose place was deleted
/// stands again, with one place.
#[test]
fn watched_node_deleted() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, ops) = (lab.host(), lab.host());
        let guard = acquire(&lab.host()).await;
        let waiting = waits(&lab, &host).await;
        for _ in 0..3 {
            let queue = state(&ops).await.queue;
            assert_eq!(queue.len(), 1);
            ops.locks.break_hold("a", &queue[0], "").await.unwrap();
            lab.wait(LEASE).await;
        }
        assert_eq!(state(&ops).await.waiting, 1);
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

/// `testNoServerAtStart`: candidates that stand while nothing answers lead when the service is there, one at a time and in the order in
/// which they come to it.
#[test]
fn no_server_at_start() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..5).map(|_| lab.host()).collect();
        hosts
            .iter()
            .for_each(|host| host.network.set_faults(cut_off()));
        let led = Mutex::new(Vec::new());
        let serves = async {
            lab.wait(2 * LEASE).await;
            assert!(led.lock().unwrap().is_empty(), "elected by nothing");
            let works = || Faults::default();
            hosts
                .iter()
                .for_each(|host| host.network.set_faults(works()));
        };
        let all = join_all(hosts.iter().map(|host| leads(host, 1, &led)));
        tokio::join!(all, serves);
        let led = led.lock().unwrap();
        assert_eq!(led.len(), 5);
        assert!(led.is_sorted_by_key(|(_, ticket)| *ticket));
    });
}

/// `testId`, `testBasic` of the participants: all candidates are shown by their names, and one of them is the leader.
/// `testUncreatedPathGetLeader`: before any of them came, there is none.
#[test]
fn leader_selector_participants() {
    virtual_time(async {
        let lab = Lab::new().await;
        let ops = lab.host();
        assert!(state(&ops).await.holder.is_none());
        let named = |name| lab.host_with(|builder| builder.owner(name));
        let leader = acquire(&named("A is A")).await;
        let waiting = [
            waits(&lab, &named("B")).await,
            waits(&lab, &named("C")).await,
        ];
        let state = state(&ops).await;
        assert_eq!(state.holder.unwrap().owner, "A is A");
        let names: Vec<_> = state.queue.into_iter().map(|one| one.owner).collect();
        assert_eq!(names, ["B", "C"]);
        waiting.iter().for_each(|waiting| waiting.abort());
        drop(leader);
    });
}
