//! Where a call may block, and where it is refused: nothing blocks a task, and nothing panics.

use std::task::{Context, Poll, Waker};

use fairlock::blocking::{FairLock, LockClient, LockGuard};
use fairlock::embedded::When;
use fairlock::{Error, HeldLocks, RecordWait};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::verbs::held;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, block_in_place, coop, spawn_blocking};

use super::{LONG, lock, on_table};
use fairlock_testkit::lab::MS;

/// Runtimes of each kind, with timers.
fn runtimes() -> [Runtime; 2] {
    let mut kinds = [Builder::new_current_thread(), Builder::new_multi_thread()];
    kinds[1].worker_threads(1);
    kinds.map(|mut kind| kind.enable_all().build().unwrap())
}

/// Whether a call was refused, with words that say what to do.
fn is_refused<T>(called: Result<T, Error>) -> bool {
    let refused = |error: Error| {
        let told = ["a blocking call stops the tasks", "await", "spawn_blocking"];
        told.iter().all(|words| is_invalid(&error, words))
    };
    called.is_err_and(refused)
}

/// What each blocking call of the module returns here: whether it is refused.
fn all_calls(locks: &LockClient, mut guard: LockGuard) -> Vec<bool> {
    let (lock, wait) = (lock(locks), RecordWait::Infinite);
    let (permits, both) = (
        locks.semaphore("p", 2).unwrap(),
        locks.multi_lock(["b", "c"]),
    );
    let (both, leases) = (both.unwrap(), locks.lease_lock("l").unwrap());
    let connected = LockClient::connect(async { unreachable!("it is refused before") });
    vec![
        is_refused(connected),
        is_refused(locks.create_table()),
        is_refused(locks.block_on(async {})),
        is_refused(locks.shutdown(HeldLocks::Release, LONG)),
        is_refused(lock.acquire(wait)),
        is_refused(lock.acquire_shared(wait)),
        is_refused(lock.try_acquire()),
        is_refused(lock.try_acquire_shared()),
        is_refused(lock.run(wait, |_| unreachable!("it is refused before"))),
        is_refused(lock.inspect()),
        is_refused(permits.acquire(wait)),
        is_refused(permits.try_acquire()),
        is_refused(both.acquire(wait)),
        is_refused(both.try_acquire()),
        is_refused(leases.acquire("id", LONG)),
        is_refused(leases.find("id")),
        is_refused(guard.wait_lost(LONG)),
        is_refused(guard.set_data("no")),
        is_refused(guard.clear_data()),
        is_refused(guard.downgrade()),
        // It goes on in the background.
        is_refused(guard.release()),
    ]
}

#[test]
fn a_call_in_async_code_is_refused_sends_nothing_and_a_release_goes_on_in_the_background() {
    on_table(|table, []| {
        for runtime in runtimes() {
            let (locks, network) = table.host();
            let guard = lock(&locks).acquire(RecordWait::NoWait).unwrap();
            let before = network.counts().requests();
            let calls = locks.clone();
            let refused = runtime.block_on(async move {
                let task = async move { all_calls(&calls, guard) };
                tokio::spawn(task).await.unwrap()
            });
            assert!(refused.iter().all(|is_refused| *is_refused), "{refused:?}");
            let next = lock(&table.client()).acquire(RecordWait::Timeout(LONG));
            next.unwrap().release().unwrap();
            assert_eq!(network.counts().requests(), before + 1, "the release only");
        }
    });
}

#[test]
fn every_future_that_tokio_polls_is_recognised_and_loses_none_of_its_steps() {
    on_table(|_, [locks]| {
        let is_refused = || is_refused(locks.block_on(async {}));
        for runtime in runtimes() {
            runtime.block_on(async {
                assert!(is_refused());
                let local = LocalSet::new();
                assert!(local.run_until(async { is_refused() }).await);
                assert!(coop::has_budget_remaining());
                // Also a future that has used its steps up.
                let mut context = Context::from_waker(Waker::noop());
                while let Poll::Ready(step) = coop::poll_proceed(&mut context) {
                    step.made_progress();
                }
                assert!(is_refused());
                assert!(!coop::has_budget_remaining());
            });
            let inside = runtime.enter();
            assert!(
                !is_refused(),
                "a thread that entered a runtime polls nothing"
            );
            drop(inside);
        }
    });
}

#[test]
fn threads_for_blocking_work_may_block() {
    on_table(|table, []| {
        let turn = |locks: &LockClient| lock(locks).acquire(RecordWait::NoWait)?.release();
        for runtime in runtimes() {
            let locks = table.client();
            runtime.block_on(async move {
                let turn = spawn_blocking(move || turn(&locks)).await;
                turn.unwrap().unwrap();
            });
        }
        let [_, threads] = runtimes();
        let locks = table.client();
        let task = async move {
            block_in_place(|| turn(&locks)).unwrap();
            assert!(is_refused(turn(&locks)));
        };
        threads.block_on(threads.spawn(task)).unwrap();
    });
}

#[test]
fn an_observer_runs_in_the_clients_thread_where_nothing_may_block() {
    on_table(|_, [one, two]| {
        let guard = lock(&one).acquire(RecordWait::NoWait).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let calls = two.clone();
        let waits = lock(&two).with(|lock| {
            lock.observed(move |_| {
                let _ = tell.send(is_refused(calls.block_on(async {})));
            })
        });
        let waiting = std::thread::spawn(move || waits.acquire(RecordWait::Timeout(LONG)));
        assert!(told.recv_timeout(LONG).unwrap());
        guard.release().unwrap();
        waiting.join().unwrap().unwrap().release().unwrap();
    });
}

#[test]
fn a_client_is_made_in_async_code_and_used_in_threads_for_blocking_work() {
    on_table(|table, []| {
        for runtime in runtimes() {
            runtime.block_on(async {
                let refused = LockClient::new(table.builder().lease_duration(MS));
                assert!(refused.is_err(), "and its thread ends");
                let locks = LockClient::new(table.builder()).unwrap();
                let turn = move || lock(&locks).acquire(RecordWait::NoWait)?.release();
                spawn_blocking(turn).await.unwrap().unwrap();
            });
        }
    });
}

#[test]
fn handles_that_are_dropped_in_async_code_wait_for_nothing_and_their_locks_are_released() {
    on_table(|table, []| {
        for runtime in runtimes() {
            let (locks, network) = table.host();
            let gate = held(&network, "release", 1, When::Before);
            let guard = lock(&locks).acquire(RecordWait::NoWait).unwrap();
            let other: FairLock = lock(&locks);
            runtime.block_on(async {
                drop(guard);
                drop(locks);
                // The last handle. The release is at the gate, which no thread opens before this has returned.
                drop(other);
                gate.reached(1).await;
                gate.open();
            });
            let next = lock(&table.client()).acquire(RecordWait::Timeout(LONG));
            next.unwrap().release().unwrap();
        }
    });
}
