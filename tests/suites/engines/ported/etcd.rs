//! What the tests of etcd's package `client/v3/concurrency` and of its lock recipes (c34dc7e) assert.
//!
//! These of their tests have no counterpart:
//!
//! - `TestMutexSessionRelock` (a session is granted its own lock again). Not here: locks are not re-entrant.
//! - `TestElectionSessionRecampaign` and 2 more (a session that leads already campaigns again, also from another process). Differs: a
//!   term belongs to one guard. A leader changes its value by `set_data`, and a process that starts again stands in the queue.
//! - `TestCurlV3LockOperations` and 4 more (the same over HTTP). Not here: there is no server. Programs in other languages use the
//!   command.
//! - `ExampleSTM_apply` and 1 more (transactions over many keys). Not here: `VersionedTable` changes one item. `TransactWriteItems`
//!   changes up to 100.
//! - `TestBarrierSingleNode` and 11 more (barriers and queues). Not here: fairlock has neither.

use std::ops::ControlFlow::Break;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::{Closed, Error, HeldLocks, LockClient, LockGuard, LossReason, RecordWait};
use fairlock_testkit::lab::{Host, Lab, acquire, cut_off, waits};
use fairlock_testkit::virtual_time;
use futures::future::{join_all, ready};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::oneshot;

use super::{LEASE, LONG, SECOND, lock, state, try_acquire, why_lost};

/// `TestMutexLockSessionExpired`: a waiter whose session is closed gets an error, and is never granted the lock.
#[test]
fn mutex_lock_session_expired() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two) = (lab.host(), lab.host());
        let guard = acquire(&one).await;
        let waits = lock(&two, "a");
        let (ended, _) = tokio::join!(waits.acquire(RecordWait::Infinite), async {
            lab.settle().await;
            two.locks.shutdown(HeldLocks::Release, LEASE).await
        });
        assert!(matches!(ended, Err(Error::ShutDown(Closed::ShutDown))));
        guard.release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

/// `TestMutexUnlock`: a release of what is released is an error. A guard cannot be released twice, so this is a lease.
#[test]
fn mutex_unlock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let leases = lab.host().locks.lease_lock("a").unwrap();
        let lease = leases.acquire("s1", 60 * SECOND).await.unwrap();
        leases.release(&lease).await.unwrap();
        assert_eq!(why_lost(leases.release(&lease).await), LossReason::Released);
    });
}

/// `TestSessionOptions`, `TestSessionCtx`: the end of a session is told to every listener of its holds, and ends what depends on it.
#[test]
fn session_ctx() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let (lost, work) = (guard.lost(), guard.run(std::future::pending::<()>()));
        let (report, lost, work) =
            tokio::join!(host.locks.shutdown(HeldLocks::Release, LEASE), lost, work);
        assert!(report.unfinished.is_empty());
        assert_eq!(lost.reason, LossReason::ShutDown);
        assert_eq!(why_lost(work), LossReason::ShutDown);
    });
}

/// `TestSessionTTLOptions`: the lease that was set is the lease of the hold.
#[test]
fn session_ttl_options() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host_with(|builder| builder.lease_duration(90 * SECOND));
        let guard = acquire(&host).await;
        let shown = state(&lab.host()).await.holder.unwrap();
        assert_eq!(shown.lease, 90 * SECOND);
        assert!(guard.remaining() > 70 * SECOND && guard.remaining() < 90 * SECOND);
    });
}

/// Five callers that wait have their turns, and never meet another.
async fn five_waiters(hosts: &[Host]) {
    let held = AtomicUsize::new(0);
    let turns = (0..5).map(|number| {
        let (lock, held) = (lock(&hosts[number % hosts.len()], "a"), &held);
        async move {
            let guard = lock.acquire(LONG).await.unwrap();
            assert_eq!(
                held.fetch_add(1, Ordering::SeqCst),
                0,
                "followers did not wait"
            );
            tokio::time::sleep(SECOND).await;
            held.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        }
    });
    join_all(turns).await;
}

/// `TestMutexLockSingleNode`, `TestMutexLockMultiNode`: five callers of one client, and of several, have the lock one at a time.
#[test]
fn mutex_lock() {
    for clients in [1, 3] {
        virtual_time(async {
            let lab = Lab::new().await;
            let hosts: Vec<_> = (0..clients).map(|_| lab.host()).collect();
            five_waiters(&hosts).await;
            assert!(lab.is_free("a").await);
        });
    }
}

/// `TestMutexTryLockSingleNode`, `TestMutexTryLockMultiNode`, `ExampleMutex_TryLock`: of five callers that do not wait, one is granted the
/// lock, and the others are refused.
#[test]
fn mutex_try_lock() {
    for clients in [1, 3] {
        virtual_time(async {
            let lab = Lab::new().await;
            let hosts: Vec<_> = (0..clients).map(|_| lab.host()).collect();
            let calls = (0..5).map(|number| try_acquire(&hosts[number % clients], "a"));
            let granted = join_all(calls).await;
            assert_eq!(granted.iter().flatten().count(), 1);
        });
    }
}

/// `TestMutexWaitsOnCurrentHolder`: when a waiter in the middle of the queue goes away, the one behind it goes on waiting for the holder, and
/// is granted the lock when the holder releases it.
#[test]
fn mutex_waits_on_current_holder() {
    for is_closed in [true, false] {
        virtual_time(async {
            let lab = Lab::new().await;
            let (first, victim) = (lab.host(), lab.host());
            let guard = acquire(&first).await;
            let gone = waits_until_closed(&lab, &victim).await;
            let next = waits(&lab, &lab.host()).await;
            assert_eq!(state(&first).await.waiting, 2);
            match is_closed {
                true => drop(victim.locks.shutdown(HeldLocks::Release, LEASE).await),
                false => victim.network.set_faults(cut_off()),
            }
            lab.wait(2 * LEASE).await;
            assert!(!next.is_finished(), "before the first owner unlocked");
            guard.release().await.unwrap();
            lab.wait(2 * SECOND).await;
            assert!(next.is_finished());
            gone.abort();
        });
    }
}

/// Waits in the queue with a client that is about to go away.
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, not the client's"
)]
async fn waits_until_closed(lab: &Lab, host: &Host) -> tokio::task::JoinHandle<()> {
    let lock = lock(host, "a");
    let waiting = tokio::spawn(async move { drop(lock.acquire(RecordWait::Infinite).await) });
    lab.settle().await;
    waiting
}

/// `TestRWMutexSingleNode`, `TestRWMutexMultiNode`: readers and writers of one client, and of several, never hold the lock together, and all
/// have their turns.
#[test]
fn rw_mutex() {
    for clients in [1, 3] {
        virtual_time(async {
            let lab = Lab::new().await;
            let hosts: Vec<_> = (0..clients).map(|_| lab.host()).collect();
            let (readers, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let turns = (0..10).map(|number| {
                let lock = lock(&hosts[number % clients], "a");
                let (readers, writers) = (&readers, &writers);
                async move {
                    let is_reader = number % 3 > 0;
                    let (mine, others) = match is_reader {
                        true => (readers, writers),
                        false => (writers, readers),
                    };
                    let guard = match is_reader {
                        true => lock.acquire_shared(LONG).await.unwrap(),
                        false => lock.acquire(LONG).await.unwrap(),
                    };
                    let before = mine.fetch_add(1, Ordering::SeqCst);
                    assert!(is_reader || before == 0, "writers did not wait");
                    assert_eq!(others.load(Ordering::SeqCst), 0, "did not wait");
                    tokio::time::sleep(SECOND).await;
                    mine.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            });
            join_all(turns).await;
        });
    }
}

/// The values of the leaders that a follower sees, each once. What the leader before has left is not the next one's value.
fn observed(locks: &LockClient) -> impl Stream<Item = String> + use<> {
    let states = locks.fair_lock("a").unwrap().watch(SECOND / 10);
    let mut before = None;
    states.filter_map(move |state| {
        let state = state.unwrap();
        let leader = state.holder.map(|leader| leader.ticket);
        let own = state.data.filter(|data| Some(data.ticket) == leader);
        let value = own.map(|data| String::from_utf8(data.bytes.to_vec()).unwrap());
        let news = value.filter(|value| before.as_ref() != Some(value));
        before = news.clone().or(before.take());
        ready(news)
    })
}

/// `TestElectionWait`, `TestV3ElectionCampaign`: candidates lead one after the other, under growing tokens. Each follower sees each leader
/// that stays for a while, in their order.
#[test]
fn election_wait() {
    virtual_time(async {
        let lab = Lab::new().await;
        let followers = (0..3).map(|_| observed(&lab.host().locks).take(3).collect::<Vec<_>>());
        let leaders = (0..3).map(|number| {
            let host = lab.host();
            async move {
                let candidate = lock(&host, "a").candidate();
                let led = candidate.lead(async |guard| {
                    guard.set_data(format!("electval-{number}")).await.unwrap();
                    tokio::time::sleep(2 * SECOND).await;
                    Break((guard.ticket(), format!("electval-{number}")))
                });
                led.await.unwrap().unwrap()
            }
        });
        let (mut led, seen) = tokio::join!(join_all(leaders), join_all(followers));
        led.sort();
        let led: Vec<_> = led.into_iter().map(|(_, value)| value).collect();
        assert!(seen.iter().all(|seen| *seen == led), "{led:?}: {seen:?}");
    });
}

/// `TestElectionFailover`, `TestV3ElectionObserve`: when the leader's session ends, the next candidate leads, and a follower sees it. So it is
/// when the leader dies without a word.
#[test]
fn election_failover() {
    for is_closed in [true, false] {
        virtual_time(async {
            let lab = Lab::new().await;
            let leader = lab.host();
            let guard = acquire(&leader).await;
            guard.set_data("foo").await.unwrap();
            let mut follower = pin!(observed(&lab.host().locks));
            assert_eq!(follower.next().await.unwrap(), "foo");
            let next = lab.host();
            let (stop, stopped) = oneshot::channel::<()>();
            let candidate = lock(&next, "a")
                .candidate()
                .until(async { drop(stopped.await) });
            let leads = candidate.lead::<()>(async |guard| {
                guard.set_data("bar").await.unwrap();
                std::future::pending().await
            });
            let ends = async {
                match is_closed {
                    true => drop(leader.locks.shutdown(HeldLocks::Release, LEASE).await),
                    false => leader.network.set_faults(cut_off()),
                }
                assert_eq!(follower.next().await.unwrap(), "bar");
                drop(stop);
            };
            let (led, ()) = tokio::join!(leads, ends);
            assert_eq!(led.unwrap(), None);
        });
    }
}

/// `TestElectionOnPrefixOfExistingKey`: a name that begins another name is another lock.
#[test]
fn election_on_prefix_of_existing_key() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let _other = try_acquire(&host, "testa").await.unwrap();
        assert!(try_acquire(&host, "test").await.is_some());
    });
}

/// `TestElectionObserveCompacted`: a follower that comes late sees the leader of now.
#[test]
fn election_observe_compacted() {
    virtual_time(async {
        let lab = Lab::new().await;
        let guard = acquire(&lab.host()).await;
        guard.set_data("abc").await.unwrap();
        lab.wait(10 * LEASE).await;
        let mut follower = pin!(observed(&lab.host().locks));
        assert_eq!(follower.next().await.unwrap(), "abc");
    });
}

/// `TestElectionObserveFreshResponsesOnProclaim`: a follower sees each value that the leader proclaims, each as a state of its own.
#[test]
fn election_observe_fresh_responses_on_proclaim() {
    virtual_time(async {
        let lab = Lab::new().await;
        let guard = acquire(&lab.host()).await;
        guard.set_data("abc").await.unwrap();
        let mut follower = pin!(observed(&lab.host().locks));
        let mut seen = vec![follower.next().await.unwrap()];
        for value in ["def", "ghi"] {
            guard.set_data(value).await.unwrap();
            seen.push(follower.next().await.unwrap());
        }
        assert_eq!(seen, ["abc", "def", "ghi"]);
        lab.wait(3 * LEASE).await;
        let more = follower.next().now_or_never();
        assert!(more.is_none(), "renewals are no news");
    });
}

/// `TestV3LockLockWaiter`: a waiter is granted the lock when the holder releases it and not before, under a larger token.
#[test]
fn v3_lock_lock_waiter() {
    virtual_time(async {
        let lab = Lab::new().await;
        let guard = acquire(&lab.host()).await;
        let waiting = waits(&lab, &lab.host()).await;
        lab.wait(2 * LEASE).await;
        assert!(!waiting.is_finished(), "locked before unlock");
        let first = guard.ticket();
        guard.release().await.unwrap();
        assert!(waiting.await.unwrap().ticket() > first);
    });
}

/// `TestElectionWithAuthEnabled`: campaigns of several clients whose leases end by themselves all come to an end.
#[test]
fn election_with_sessions_that_end_by_themselves() {
    virtual_time(async {
        let lab = Lab::new().await;
        for _ in 0..3 {
            let dead = dies_behind(&lab).await;
            assert!(!dead.is_held());
        }
    });
}

/// A holder that was granted the lock of the dead holder before it, and that dies too.
async fn dies_behind(lab: &Lab) -> LockGuard {
    let host = lab.host();
    let guard = lock(&host, "a").acquire(LONG).await.unwrap();
    lab.wait(2 * SECOND).await;
    host.network.set_faults(cut_off());
    drop(guard.lost().await);
    guard
}

/// `ExampleMutex_Lock`: the second client has the lock when the first one has released it. `ExampleElection_Campaign`: the first to campaign
/// leads first.
#[test]
fn example_mutex_lock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let first = acquire(&lab.host()).await;
        let second = waits(&lab, &lab.host()).await;
        let before = first.ticket();
        first.release().await.unwrap();
        let second = second.await.unwrap();
        assert!(second.ticket() > before && second.is_held());
    });
}
