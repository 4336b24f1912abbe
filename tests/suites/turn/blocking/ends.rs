//! The end of a client: no thread and no lock is left behind, whichever handle goes last and wherever it goes.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use fairlock::blocking::{LockClient, LockGuard};
use fairlock::embedded::{Exchange, Network, When};
use fairlock::{Closed, Error, HeldLocks, LossReason, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::real_time;
use fairlock_testkit::verbs::held;
use tokio::sync::oneshot;

use super::{LONG, Table, lock, on_table};

/// Tells when the thread that it is in ends.
struct Leaves(Sender<()>);

impl Drop for Leaves {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

thread_local! {
    static LEAVES: RefCell<Option<Leaves>> = const { RefCell::new(None) };
}

/// Tells when the client's thread, in which a request of this network was answered, has ended.
fn end_of_thread(network: &Network) -> Receiver<()> {
    let (tell, told) = channel();
    let _ = network.clone().observe(move |_: &Exchange<'_>| {
        if thread::current().name() == Some("fairlock") {
            LEAVES.with_borrow_mut(|leaves| {
                leaves.get_or_insert_with(|| Leaves(tell.clone()));
            });
        }
    });
    told
}

/// A client that has had a turn, so that its thread has sent a request.
fn used(table: &Table) -> (LockClient, Receiver<()>, Network) {
    let (locks, network) = table.host();
    let ended = end_of_thread(&network);
    drop(lock(&locks).acquire(RecordWait::NoWait).unwrap());
    let guard = lock(&locks).acquire(RecordWait::Timeout(LONG));
    guard.unwrap().release().unwrap();
    (locks, ended, network)
}

#[test]
fn the_thread_ends_with_the_last_handle_whichever_it_is() {
    on_table(|table, []| {
        let lasts: [fn(LockClient) -> Box<dyn std::any::Any>; 6] = [
            |locks| Box::new(locks.clone()),
            |locks| Box::new(lock(&locks)),
            |locks| Box::new(lock(&locks).acquire(RecordWait::NoWait).unwrap()),
            |locks| Box::new(locks.semaphore("p", 2).unwrap()),
            |locks| Box::new(locks.lease_lock("l").unwrap()),
            |locks| {
                let both = locks.multi_lock(["a", "b"]).unwrap();
                Box::new(both.acquire(RecordWait::NoWait).unwrap())
            },
        ];
        for last in lasts {
            let (locks, ended, _) = used(table);
            let last = last(locks);
            assert_eq!(ended.try_recv(), Err(TryRecvError::Empty));
            // It waits for the thread.
            drop(last);
            assert_eq!(ended.try_recv(), Ok(()));
            assert!(table.is_free());
        }
    });
}

#[test]
fn the_last_handle_waits_for_the_release_of_a_guard_that_was_dropped() {
    on_table(|table, []| {
        let (locks, _ended, network) = used(table);
        let gate = held(&network, "release", 1, When::Before);
        let guard = lock(&locks).acquire(RecordWait::NoWait).unwrap();
        let (tell, told) = channel();
        let dropping = thread::spawn(move || {
            drop(guard);
            drop(locks);
            tell.send(()).unwrap();
        });
        let onlooker = table.client();
        onlooker.block_on(gate.reached(1)).unwrap();
        assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
        gate.open();
        dropping.join().unwrap();
        told.recv().unwrap();
        assert!(lock(&onlooker).try_acquire().unwrap().is_some());
    });
}

#[test]
fn a_thread_whose_last_handle_is_dropped_in_async_code_ends_by_itself() {
    on_table(|table, []| {
        let (locks, ended, _) = used(table);
        let guard = lock(&locks).acquire(RecordWait::NoWait).unwrap();
        real_time(async move { drop((guard, locks)) });
        ended.recv_timeout(LONG).unwrap();
        assert!(table.is_free());
    });
}

#[test]
fn a_thread_whose_last_handle_is_dropped_in_itself_ends_too() {
    on_table(|table, []| {
        let (locks, ended, _) = used(table);
        let guard = lock(&locks).acquire(RecordWait::NoWait).unwrap();
        let (go, goes) = oneshot::channel::<()>();
        let last = locks.clone();
        // A task in the client's own runtime, as that of an observer is.
        let task = async move {
            drop(goes.await);
            drop((guard, last));
        };
        let spawned = locks.block_on(async { drop(tokio::spawn(task)) });
        spawned.unwrap();
        drop(locks);
        assert_eq!(ended.try_recv(), Err(TryRecvError::Empty));
        drop(go);
        ended.recv_timeout(LONG).unwrap();
        assert!(table.is_free());
    });
}

#[test]
fn a_program_that_returns_early_or_panics_leaves_no_lock_held() {
    on_table(|table, []| {
        let fails = |locks: LockClient| -> Result<(), Error> {
            let _guard = lock(&locks).acquire(RecordWait::NoWait)?;
            locks.fair_lock("").map(drop)
        };
        assert!(fails(table.client()).is_err());
        assert!(table.is_free());
        let locks = table.client();
        let panics = move || {
            let _guard: LockGuard = lock(&locks).acquire(RecordWait::NoWait).unwrap();
            panic!("planted");
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(table.is_free());
    });
}

#[test]
fn a_shutdown_ends_the_waits_of_other_threads_and_keeps_or_releases() {
    on_table(|table, [one, two]| {
        let guard = lock(&one).acquire(RecordWait::NoWait).unwrap();
        let waits = lock(&two);
        let waiting = thread::spawn(move || waits.acquire(RecordWait::Infinite).map(drop));
        while lock(&one).inspect().unwrap().waiting == 0 {
            thread::yield_now();
        }
        let report = two.shutdown(HeldLocks::Release, LONG).unwrap();
        assert!(report.unfinished.is_empty() && report.held.is_empty());
        let ended = waiting.join().unwrap();
        assert!(matches!(ended, Err(Error::ShutDown(Closed::ShutDown))));
        assert_eq!(lock(&one).inspect().unwrap().waiting, 0);

        let report = one.shutdown(HeldLocks::Keep, LONG).unwrap();
        assert_eq!(report.held, [("a".to_owned(), guard.ticket())]);
        guard.check().unwrap();
        assert!(!table.is_free());
        let refused = lock(&one).try_acquire();
        assert!(matches!(refused, Err(Error::ShutDown(Closed::ShutDown))));
        one.shutdown(HeldLocks::Release, LONG).unwrap();
        assert_eq!(guard.check().unwrap_err().reason, LossReason::ShutDown);
        assert!(table.is_free());
    });
}

#[test]
fn the_async_client_of_a_blocking_one_is_shut_down_with_its_last_handle() {
    on_table(|table, [locks]| {
        let lock = locks.as_async().fair_lock("a").unwrap();
        let guard = locks.block_on(lock.acquire(RecordWait::NoWait));
        let guard = guard.unwrap().unwrap();
        drop(locks);
        assert!(!guard.is_held());
        let refused = real_time(async move { lock.try_acquire().await.map(drop) });
        assert_is!(refused, Err(Error::ShutDown(_)));
        assert!(table.is_free());
    });
}
