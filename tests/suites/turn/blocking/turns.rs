//! Turns: each noun of the module, alone and between threads.

use std::thread;
use std::time::Duration;

use fairlock::blocking::LockClient;
use fairlock::embedded::Engine;
use fairlock::{Error, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::{blocking, real_time};

use super::{LONG, lock, on_table};
use fairlock_testkit::lab::MS;

#[test]
fn a_program_without_a_runtime_has_its_turn() {
    on_table(|table, []| {
        let (locks, network) = table.host();
        let guard = lock(&locks).acquire(RecordWait::default()).unwrap();
        assert_eq!((guard.name(), guard.permits()), ("a", 64));
        assert!(guard.is_held() && !guard.in_danger() && guard.remaining() > Duration::ZERO);
        guard.check().unwrap();
        assert_eq!(guard.as_async().ticket(), guard.ticket());
        let state = lock(&locks).inspect().unwrap();
        assert_eq!(state.holder.unwrap().ticket, guard.ticket());
        let before = network.counts().requests();
        guard.release().unwrap();
        assert_eq!(network.counts().requests(), before + 1);
        assert!(table.is_free());
    });
}

#[test]
fn a_caller_that_blocks_and_one_that_awaits_stand_in_one_queue() {
    on_table(|table, [locks]| {
        let guard = lock(&locks).acquire(RecordWait::NoWait).unwrap();
        let first = guard.ticket();
        let next = thread::scope(|scope| {
            let awaiting = scope.spawn(|| {
                real_time(async {
                    let locks = table.builder().build().unwrap();
                    let lock = locks.fair_lock("a").unwrap();
                    let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
                    let ticket = guard.ticket();
                    guard.release().await.unwrap();
                    ticket
                })
            });
            while lock(&locks).inspect().unwrap().waiting == 0 {
                thread::yield_now();
            }
            guard.release().unwrap();
            awaiting.join().unwrap()
        });
        assert!(first < next);
    });
}

#[test]
fn waits_shares_data_and_fences_are_those_of_the_async_handle() {
    on_table(|_, [one, two]| {
        let mut guard = lock(&one).acquire(RecordWait::default()).unwrap();
        assert_eq!(guard.fence("fence").ticket(), guard.ticket());
        guard.set_data("page 42").unwrap();
        for wait in [RecordWait::NoWait, RecordWait::Timeout(50 * MS)] {
            let refused = lock(&two).acquire(wait);
            assert!(matches!(refused, Err(Error::NotGranted { .. })));
        }
        assert_eq!(lock(&two).inspect().unwrap().waiting, 0);
        assert!(lock(&two).try_acquire_shared().unwrap().is_none());
        guard.downgrade().unwrap();
        let reads = lock(&two).try_acquire_shared().unwrap().unwrap();
        assert_eq!(*reads.data().unwrap().bytes, *b"page 42");
        guard.release().unwrap();
        let also = lock(&one).acquire_shared(RecordWait::default()).unwrap();
        assert_eq!((reads.permits(), also.permits()), (1, 1));
        assert!(lock(&two).try_acquire().unwrap().is_none());
        reads.release().unwrap();
        also.release().unwrap();
        let guard = lock(&two).acquire(RecordWait::NoWait).unwrap();
        guard.clear_data().unwrap();
        assert_eq!(guard.data(), None);
        guard.release().unwrap();
        let report = one.block_on(one.as_async().check_table()).unwrap();
        assert!(report.unwrap().is_usable());
    });
}

#[test]
fn permits_several_locks_and_leases_are_those_of_the_async_handle() {
    on_table(|table, [one, two]| {
        let exports = one.semaphore("exports", 3).unwrap();
        assert_eq!((exports.name(), exports.permits()), ("exports", 3));
        let permits = exports.acquire_many(2, RecordWait::default()).unwrap();
        let last = exports.acquire(RecordWait::NoWait).unwrap();
        assert!(exports.try_acquire().unwrap().is_none());
        last.release().unwrap();
        assert!(exports.try_acquire_many(2).unwrap().is_none());
        permits.release().unwrap();
        let ran = exports.run(RecordWait::default(), |permit| permit.permits());
        assert_eq!(ran.unwrap().into_result().unwrap(), 1);

        let accounts = one.multi_lock(["b", "a", "b"]).unwrap();
        assert!(accounts.names().eq(["a", "b"]));
        let other = two.fair_lock("b").unwrap().try_acquire().unwrap().unwrap();
        assert!(accounts.try_acquire().unwrap().is_none());
        other.release().unwrap();
        let both = accounts.acquire(RecordWait::default()).unwrap();
        both.check().unwrap();
        assert!(both.remaining() > Duration::ZERO && both.guards().len() == 2);
        let ticket = both.ticket("a").unwrap();
        both.release().unwrap();
        let ran = accounts.run(RecordWait::default(), |both| both.ticket("a").unwrap());
        assert!(ran.unwrap().into_result().unwrap() > ticket);

        let (leases, minute) = (two.lease_lock("a").unwrap(), 60_000 * MS);
        let lease = one.lease_lock("a").unwrap().acquire("job", minute).unwrap();
        assert_eq!(leases.find("job").unwrap().as_ref(), Some(&lease));
        let longer = leases.extend(&lease, 2 * minute).unwrap();
        assert!(longer.expires_at() > lease.expires_at());
        leases.release(&longer).unwrap();
        assert!(table.is_free());
    });
}

#[test]
fn work_runs_in_the_callers_thread_and_the_lock_is_released_also_by_a_panic() {
    on_table(|table, [locks]| {
        let here = thread::current().id();
        let ran = lock(&locks).run(RecordWait::default(), |guard| {
            assert!(lock(&table.client()).try_acquire().unwrap().is_none());
            (thread::current().id(), guard.ticket())
        });
        let (there, ticket) = ran.unwrap().into_result().unwrap();
        assert_eq!(here, there);
        let panics = || lock(&locks).run(RecordWait::default(), |_| panic!("planted"));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
        assert!(ended.is_err());
        let guard = lock(&locks).acquire(RecordWait::Timeout(LONG)).unwrap();
        assert!(guard.ticket() > ticket);
        guard.release().unwrap();
    });
}

#[test]
fn settings_are_those_of_the_async_handle() {
    on_table(|_, [one, two]| {
        let named = lock(&one).with(|lock| lock.attributes([("job", "4711")]));
        let guard = named.acquire(RecordWait::default()).unwrap();
        let holder = lock(&two).inspect().unwrap().holder.unwrap();
        assert_eq!(holder.attributes["job"], "4711");
        let refused = lock(&two).with(|lock| lock.max_waiters(0));
        let refused = refused.acquire(RecordWait::Infinite);
        assert!(is_invalid(&refused.unwrap_err(), "max_waiters(0)"));
        guard.release().unwrap();
    });
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    blocking(|| {
        let engine = Engine::memory().unwrap();
        let builder = || fairlock::LockClient::builder(engine.client());
        let wrong = || builder().lease_duration(MS).heartbeat_interval(MS);
        let refused = LockClient::new(wrong()).unwrap_err();
        assert_is!(refused, Error::Invalid(_));
        let refused = LockClient::connect(async { wrong() }).unwrap_err();
        assert_is!(refused, Error::Invalid(_));
        let locks = LockClient::connect(async {
            // As loading the settings of the SDK does, it waits for something in the background.
            tokio::time::sleep(MS).await;
            builder()
        });
        locks.unwrap().create_table().unwrap();
    });
}
