//! Locks that several callers hold at one time: shared by readers, or of several permits, in one fair queue with exclusive callers.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "callers' tasks, and helpers of a test that cannot go on has failed the test"
)]

mod downgrades;
mod parts;
mod permits;
mod waves;

use std::time::Duration;

use fairlock::embedded::{Fault, When};
use fairlock::{Error, LockGuard, LossReason, RecordWait, Stage, SweepReport};
use fairlock_testkit::lab::{Host, Lab, acquire, cut_off, waits};
use fairlock_testkit::verbs::meets;
use fairlock_testkit::virtual_time;
use futures::future::join_all;
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);

async fn shares(host: &Host) -> LockGuard {
    let lock = host.locks.fair_lock("a").unwrap();
    lock.acquire_shared(RecordWait::Infinite).await.unwrap()
}

/// Starts waiting to share lock `a`, and lets the caller settle in its place.
async fn waits_to_share(lab: &Lab, host: &Host) -> JoinHandle<LockGuard> {
    let lock = host.locks.fair_lock("a").unwrap();
    let waiting =
        tokio::spawn(async move { lock.acquire_shared(RecordWait::Infinite).await.unwrap() });
    lab.settle().await;
    waiting
}

/// Takes permits of lock `s`, which has five by its callers' word.
pub(crate) async fn takes(host: &Host, permits: u64) -> LockGuard {
    let lock = host.locks.semaphore("s", 5).unwrap();
    let wait = RecordWait::Infinite;
    lock.acquire_many(permits, wait).await.unwrap()
}

/// Starts waiting for permits of lock `s`.
pub(crate) async fn waits_for(lab: &Lab, host: &Host, permits: u64) -> JoinHandle<LockGuard> {
    let lock = host.locks.semaphore("s", 5).unwrap();
    let wait = RecordWait::Infinite;
    let waiting = tokio::spawn(async move { lock.acquire_many(permits, wait).await.unwrap() });
    lab.settle().await;
    waiting
}

async fn requests_of<T>(host: &Host, work: impl Future<Output = T>) -> (T, u64) {
    let before = host.network.counts().requests();
    let done = work.await;
    (done, host.network.counts().requests() - before)
}

#[test]
fn readers_have_the_lock_together_and_a_writer_has_it_alone() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..4).map(|_| lab.host()).collect();
        let first = shares(&hosts[0]).await;
        let second = hosts[1].locks.fair_lock("a").unwrap();
        let second = second.try_acquire_shared().await.unwrap().unwrap();
        assert!(first.is_held() && second.is_held());
        assert_eq!((first.permits(), first.total_permits()), (1, 64));
        let writer = waits(&lab, &hosts[2]).await;
        let late = hosts[3].locks.fair_lock("a").unwrap();
        let refused = late.try_acquire_shared().await.unwrap();
        assert!(refused.is_none(), "a writer waits");
        first.release().await.unwrap();
        lab.settle().await;
        assert!(!writer.is_finished(), "a reader is there still");
        second.release().await.unwrap();
        let writer = writer.await.unwrap();
        assert_eq!((writer.permits(), writer.total_permits()), (64, 64));
        assert!(late.try_acquire_shared().await.unwrap().is_none());
        let reader = waits_to_share(&lab, &hosts[3]).await;
        assert!(!reader.is_finished(), "a writer is there");
        writer.release().await.unwrap();
        reader.await.unwrap().release().await.unwrap();
        lab.settle().await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    });
}

#[test]
fn who_shares_a_lock_that_nobody_waits_for_needs_one_request() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        // A lock that was never used has no item yet. The client looks for it, makes sure that it is missing, and then creates it.
        let (first, requests) = requests_of(&hosts[0], shares(&hosts[0])).await;
        assert_eq!(requests, 3);
        let (second, requests) = requests_of(&hosts[1], shares(&hosts[1])).await;
        assert_eq!(requests, 1, "beside another");
        let (_, requests) = requests_of(&hosts[0], first.release()).await;
        assert_eq!(requests, 1);
        let (_, requests) = requests_of(&hosts[1], second.release()).await;
        assert_eq!(requests, 1);
        let (third, requests) = requests_of(&hosts[2], shares(&hosts[2])).await;
        assert_eq!(requests, 1, "free, and used before");
        third.release().await.unwrap();
    });
}

#[test]
fn a_reader_does_not_pass_a_writer_that_waits_and_readers_behind_it_come_in_together() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..5).map(|_| lab.host()).collect();
        let first = shares(&hosts[0]).await;
        let writer = waits(&lab, &hosts[1]).await;
        let mut readers = Vec::new();
        for host in &hosts[2..] {
            readers.push(waits_to_share(&lab, host).await);
        }
        assert!(readers.iter().all(|reader| !reader.is_finished()));
        first.release().await.unwrap();
        let writer = writer.await.unwrap();
        lab.settle().await;
        assert!(readers.iter().all(|reader| !reader.is_finished()));
        let ticket = writer.ticket();
        writer.release().await.unwrap();
        let readers: Vec<_> = join_all(readers)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert!(readers.iter().all(LockGuard::is_held));
        assert!(readers.iter().all(|reader| reader.ticket() > ticket));
        let state = hosts[0]
            .locks
            .fair_lock("a")
            .unwrap()
            .inspect()
            .await
            .unwrap();
        let holders = state.holder.iter().chain(&state.sharers);
        let shown: Vec<_> = holders
            .map(|holder| (holder.ticket, holder.stage))
            .collect();
        let held: Vec<_> = readers
            .iter()
            .map(|it| (it.ticket(), Stage::Holder))
            .collect();
        assert_eq!((shown, state.waiting), (held, 0));
        for reader in readers {
            reader.release().await.unwrap();
        }
    });
}

#[test]
fn the_tickets_of_readers_are_between_those_of_writers() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let writer = acquire(&hosts[0]).await;
        let before = writer.ticket();
        writer.release().await.unwrap();
        let readers = join_all(hosts.iter().map(shares)).await;
        let mut tickets: Vec<_> = readers.iter().map(LockGuard::ticket).collect();
        for reader in readers {
            reader.release().await.unwrap();
        }
        let writer = acquire(&hosts[1]).await;
        tickets.sort();
        tickets.dedup();
        assert_eq!(tickets.len(), 3, "each has its own");
        assert!(before < tickets[0] && tickets[2] < writer.ticket());
    });
}

#[test]
fn a_dead_reader_is_evicted_and_the_living_one_is_not() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..4).map(|_| lab.host()).collect();
        // The dead readers are the one at the holder's place, and one beside it.
        let (dead, alive, also_dead) = (
            shares(&hosts[0]).await,
            shares(&hosts[1]).await,
            shares(&hosts[2]).await,
        );
        let writer = waits(&lab, &hosts[3]).await;
        let _ = hosts[0].network.clone().faults(cut_off());
        let _ = hosts[2].network.clone().faults(cut_off());
        lab.wait(90 * SECOND).await;
        assert!(!dead.is_held() && !also_dead.is_held());
        assert!(alive.is_held() && !writer.is_finished());
        let state = hosts[1]
            .locks
            .fair_lock("a")
            .unwrap()
            .inspect()
            .await
            .unwrap();
        assert_eq!(state.holder.unwrap().ticket, alive.ticket());
        assert_eq!(state.sharers, []);
        alive.release().await.unwrap();
        assert!(writer.await.unwrap().is_held());
    });
}

#[test]
fn a_reader_that_lost_its_place_is_told_so() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let _first = shares(&hosts[0]).await;
        let second = shares(&hosts[1]).await;
        let _writer = waits(&lab, &hosts[2]).await;
        let network = hosts[1].network.clone().faults(cut_off());
        lab.wait(90 * SECOND).await;
        let _ = network.faults(fairlock::embedded::Faults::default());
        let reason = second.lost().await.reason;
        assert!(matches!(reason, LossReason::Unreachable { .. }), "{reason}");
        let refused = second.release().await.unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }), "{refused}");
    });
}

#[test]
fn a_share_whose_answer_is_lost_is_known_again_with_its_ticket() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let first = shares(&hosts[0]).await;
        let met = meets(&hosts[1].network, "share", 1, Fault::Lose(When::After));
        let second = shares(&hosts[1]).await;
        assert_eq!(met.load(std::sync::atomic::Ordering::SeqCst), 1);
        let third = shares(&hosts[2]).await;
        let tickets = [first.ticket(), second.ticket(), third.ticket()];
        assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
        for guard in [first, second, third] {
            guard.release().await.unwrap();
        }
        lab.settle().await;
        assert!(acquire(&hosts[0]).await.is_held());
    });
}

#[test]
fn every_fault_of_a_release_among_others_leaves_nobody_in_the_way() {
    for when in [When::Before, When::After] {
        virtual_time(async {
            let lab = Lab::new().await;
            let hosts: Vec<_> = (0..4).map(|_| lab.host()).collect();
            let guards = [
                shares(&hosts[0]).await,
                shares(&hosts[1]).await,
                shares(&hosts[2]).await,
            ];
            let writer = waits(&lab, &hosts[3]).await;
            for (guard, host) in guards.into_iter().zip(&hosts) {
                let met = meets(&host.network, "release", 1, Fault::Lose(when));
                guard.release().await.unwrap();
                assert_eq!(met.load(std::sync::atomic::Ordering::SeqCst), 1);
            }
            writer.await.unwrap().release().await.unwrap();
        });
    }
}

#[test]
fn readers_that_release_at_once_hand_off_to_the_writer() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..6).map(|_| lab.host()).collect();
        let readers = join_all(hosts[1..].iter().map(shares)).await;
        let writer = waits(&lab, &hosts[0]).await;
        let released = join_all(readers.into_iter().map(LockGuard::release)).await;
        assert!(released.iter().all(Result::is_ok), "{released:?}");
        writer.await.unwrap().release().await.unwrap();
    });
}

#[test]
fn who_does_not_wait_shares_if_nobody_waits_and_else_leaves_nothing() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let lock = hosts[2].locks.fair_lock("a").unwrap();
        let first = shares(&hosts[0]).await;
        let second = lock.acquire_shared(RecordWait::NoWait).await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        second.release().await.unwrap();
        let writer = waits(&lab, &hosts[1]).await;
        let refused = lock.acquire_shared(RecordWait::NoWait).await.unwrap_err();
        assert!(matches!(refused, Error::NotGranted { .. }), "{refused}");
        first.release().await.unwrap();
        writer.await.unwrap().release().await.unwrap();
        lab.settle().await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    });
}

#[test]
fn who_does_not_wait_passes_dead_readers_by_the_server_clock() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let _dead = [shares(&hosts[0]).await, shares(&hosts[1]).await];
        // A reader that entered before it knew the date adds it with its first renewal.
        lab.wait(2 * SECOND).await;
        for host in &hosts[..2] {
            let _ = host.network.clone().faults(cut_off());
        }
        let lock = hosts[2].locks.fair_lock("a").unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        lab.wait(45 * SECOND).await;
        assert!(lock.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn as_many_dead_as_can_have_a_lock_and_its_slots_are_passed_by_one_call() {
    for (readers, writers) in [(64, 0), (61, 3)] {
        virtual_time(async {
            let lab = Lab::new().await;
            let (dead, cron) = (lab.host(), lab.host());
            let lock = dead.locks.fair_lock("a").unwrap();
            // The answer tells the time.
            lock.sweep().await.unwrap();
            let mut reading = Vec::new();
            for _ in 0..readers {
                reading.push(lock.try_acquire_shared().await.unwrap().unwrap());
            }
            let mut waiting = Vec::new();
            for _ in 0..writers {
                let writer = lab.host();
                // Otherwise its entry would be its first request, without a date, and it would die before another client adds one.
                writer
                    .locks
                    .fair_lock("other")
                    .unwrap()
                    .sweep()
                    .await
                    .unwrap();
                waiting.push(waits(&lab, &writer).await);
                writer.network.set_faults(cut_off());
            }
            dead.network.set_faults(cut_off());
            lab.wait(120 * SECOND).await;
            let lock = cron.locks.fair_lock("a").unwrap();
            let passed = lock.try_acquire().await.unwrap();
            assert!(passed.is_some(), "{readers} and {writers}");
        });
    }
}

/// The dead are a successor, and waiters that joined behind the slots after others had died.
#[test]
fn who_does_not_wait_passes_the_dead_in_queue_while_readers_live() {
    for behind in [0, 2] {
        virtual_time(async {
            let lab = Lab::new().await;
            let hosts = lab.hosts_with_slots(3, 1);
            let [reader, cron] = [&hosts[0], &hosts[1]];
            let reading = shares(reader).await;
            for _ in 0..=behind {
                let dead = lab.host_with(|builder| builder.successor_slots(1));
                let writer = waits(&lab, &dead).await;
                dead.network.set_faults(cut_off());
                writer.abort();
            }
            let lock = cron.locks.fair_lock("a").unwrap();
            let refused = lock.acquire_shared(RecordWait::NoWait).await;
            assert!(matches!(refused, Err(Error::NotGranted { .. })));
            // The lease of the dead, the allowance, and the grain of dates.
            lab.wait((30 + 10 + 4) * SECOND).await;
            let shared = lock.acquire_shared(RecordWait::NoWait).await.unwrap();
            assert!(shared.is_held() && reading.is_held());
        });
    }
}

#[test]
fn who_does_not_wait_passes_nobody_alive_in_queue() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts = lab.hosts_with_slots(3, 1);
        let reading = shares(&hosts[0]).await;
        let writer = waits(&lab, &hosts[1]).await;
        let dead = lab.host_with(|builder| builder.successor_slots(1));
        let behind = waits(&lab, &dead).await;
        dead.network.set_faults(cut_off());
        behind.abort();
        lab.wait(60 * SECOND).await;
        let lock = hosts[2].locks.fair_lock("a").unwrap();
        let refused = lock.acquire_shared(RecordWait::NoWait).await;
        assert!(matches!(refused, Err(Error::NotGranted { .. })));
        reading.release().await.unwrap();
        assert!(writer.await.unwrap().is_held());
    });
}

#[test]
fn a_sweep_removes_dead_readers_and_no_other() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let (_dead, alive) = (shares(&hosts[0]).await, shares(&hosts[1]).await);
        let _ = hosts[0].network.clone().faults(cut_off());
        lab.wait(45 * SECOND).await;
        let swept = hosts[2]
            .locks
            .fair_lock("a")
            .unwrap()
            .sweep()
            .await
            .unwrap();
        assert_eq!(swept.holders, 1);
        assert!(alive.is_held());
        alive.release().await.unwrap();
        let swept = hosts[2]
            .locks
            .fair_lock("a")
            .unwrap()
            .sweep()
            .await
            .unwrap();
        assert_eq!(swept, SweepReport::default());
    });
}

#[test]
fn a_reader_that_stops_waiting_leaves_nothing() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let writer = acquire(&hosts[0]).await;
        let reader = waits_to_share(&lab, &hosts[1]).await;
        reader.abort();
        lab.settle().await;
        let lock = hosts[2].locks.fair_lock("a").unwrap();
        let late = lock.acquire_shared(RecordWait::Timeout(SECOND)).await;
        assert!(matches!(late, Err(Error::NotGranted { .. })), "{late:?}");
        lab.settle().await;
        assert_eq!(lock.inspect().await.unwrap().waiting, 0);
        writer.release().await.unwrap();
        assert!(acquire(&hosts[1]).await.is_held());
    });
}
