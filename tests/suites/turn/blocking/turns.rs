//! Turns: each noun of the module, alone and between threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::blocking::LockClient;
use fairlock::embedded::Engine;
use fairlock::{Error, Lease, RecordWait};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::keyed_tables::{OF_LOCKS, create_table};
use fairlock_testkit::{blocking, real_time};

use super::{LONG, MS, Table, lock};

#[test]
fn a_program_without_a_runtime_has_its_turn() {
    blocking(|| {
        let table = Table::new();
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
fn threads_of_several_clients_hold_a_lock_one_at_a_time_in_the_order_of_their_tickets() {
    blocking(|| {
        let table = Table::new();
        let clients = [(); 4].map(|()| table.client());
        let (is_held, turns) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for locks in clients.iter().chain(&clients) {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let guard = lock(locks).acquire(RecordWait::Infinite).unwrap();
                        assert!(!is_held.swap(true, Ordering::SeqCst), "two held it");
                        turns.lock().unwrap().push(guard.ticket());
                        assert!(is_held.swap(false, Ordering::SeqCst));
                        guard.release().unwrap();
                    }
                });
            }
        });
        let turns = turns.into_inner().unwrap();
        assert_eq!(turns.len(), 40);
        assert!(turns.is_sorted_by(|one, next| one < next), "{turns:?}");
    });
}

#[test]
fn a_caller_that_blocks_and_one_that_awaits_stand_in_one_queue() {
    blocking(|| {
        let table = Table::new();
        let locks = table.client();
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
fn a_wait_ends_in_time_and_leaves_the_queue() {
    blocking(|| {
        let table = Table::new();
        let (one, two) = (table.client(), table.client());
        let guard = lock(&one).acquire(RecordWait::NoWait).unwrap();
        let waits = lock(&two);
        for wait in [RecordWait::NoWait, RecordWait::Timeout(50 * MS)] {
            let refused = waits.acquire(wait).unwrap_err();
            let Error::NotGranted { holder, .. } = refused else {
                panic!("{refused}")
            };
            assert_eq!(holder.unwrap().ticket, guard.ticket());
        }
        assert!(waits.try_acquire().unwrap().is_none());
        assert_eq!(waits.inspect().unwrap().waiting, 0);
        let zero = waits.acquire(RecordWait::Timeout(Duration::ZERO));
        assert!(is_invalid(&zero.unwrap_err(), "say RecordWait::NoWait"));
        guard.release().unwrap();
        waits.try_acquire().unwrap().unwrap().release().unwrap();
    });
}

#[test]
fn readers_share_and_a_writer_that_downgrades_lets_them_in() {
    blocking(|| {
        let table = Table::new();
        let (one, two) = (table.client(), table.client());
        let reads = lock(&one).acquire_shared(RecordWait::default()).unwrap();
        let also = lock(&two).try_acquire_shared().unwrap().unwrap();
        assert!(lock(&two).try_acquire().unwrap().is_none());
        reads.release().unwrap();
        also.release().unwrap();
        let mut writes = lock(&one).acquire(RecordWait::default()).unwrap();
        assert!(lock(&two).try_acquire_shared().unwrap().is_none());
        writes.downgrade().unwrap();
        assert_eq!(writes.permits(), 1);
        let reads = lock(&two).try_acquire_shared().unwrap().unwrap();
        writes.release().unwrap();
        reads.release().unwrap();
    });
}

#[test]
fn permits_are_held_by_as_many_as_there_are() {
    blocking(|| {
        let table = Table::new();
        let locks = table.client();
        let exports = locks.semaphore("exports", 3).unwrap();
        assert_eq!((exports.name(), exports.permits()), ("exports", 3));
        let two = exports.acquire_many(2, RecordWait::default()).unwrap();
        let one = exports.acquire(RecordWait::NoWait).unwrap();
        assert!(exports.try_acquire().unwrap().is_none());
        two.release().unwrap();
        assert!(exports.try_acquire_many(3).unwrap().is_none());
        exports
            .try_acquire_many(2)
            .unwrap()
            .unwrap()
            .release()
            .unwrap();
        one.release().unwrap();
        let ran = exports.run(RecordWait::default(), |permit| permit.permits());
        assert_eq!(ran.unwrap().into_result().unwrap(), 1);
        assert!(exports.acquire_many(4, RecordWait::NoWait).is_err());
    });
}

#[test]
fn several_locks_are_held_all_or_none() {
    blocking(|| {
        let table = Table::new();
        let (one, two) = (table.client(), table.client());
        let accounts = one.multi_lock(["b", "a", "b"]).unwrap();
        assert!(accounts.names().eq(["a", "b"]));
        let other = two.fair_lock("b").unwrap().try_acquire().unwrap().unwrap();
        assert!(accounts.try_acquire().unwrap().is_none());
        assert!(lock(&two).inspect().unwrap().holder.is_none());
        other.release().unwrap();
        let both = accounts.acquire(RecordWait::default()).unwrap();
        both.check().unwrap();
        assert!(both.remaining() > Duration::ZERO && both.guards().len() == 2);
        assert!(lock(&two).try_acquire().unwrap().is_none());
        let ticket = both.ticket("a").unwrap();
        both.release().unwrap();
        let ran = accounts.run(RecordWait::default(), |both| both.ticket("a").unwrap());
        assert!(ran.unwrap().into_result().unwrap() > ticket);
        assert!(two.multi_lock([""; 0]).is_err());
    });
}

#[test]
fn a_lease_goes_from_client_to_client_as_text() {
    blocking(|| {
        let table = Table::new();
        let (one, two) = (table.client(), table.client());
        let lease = one.lease_lock("a").unwrap().acquire("job", 60_000 * MS);
        let carried: Lease = lease.unwrap().to_string().parse().unwrap();
        let leases = two.lease_lock("a").unwrap();
        let found = leases.find("job").unwrap().unwrap();
        assert_eq!(found, carried);
        let longer = leases.extend(&found, 120_000 * MS).unwrap();
        assert!(longer.expires_at() > found.expires_at());
        assert!(lock(&two).try_acquire().unwrap().is_none());
        leases.release(&longer).unwrap();
        assert!(table.is_free());
    });
}

#[test]
fn data_goes_from_holder_to_holder() {
    blocking(|| {
        let table = Table::new();
        let locks = table.client();
        let guard = lock(&locks).acquire(RecordWait::default()).unwrap();
        guard.set_data("page 42").unwrap();
        guard.release().unwrap();
        let guard = lock(&locks).acquire(RecordWait::default()).unwrap();
        assert_eq!(*guard.data().unwrap().bytes, *b"page 42");
        guard.clear_data().unwrap();
        assert_eq!(guard.data(), None);
        guard.release().unwrap();
    });
}

#[test]
fn a_write_of_the_callers_own_is_fenced() {
    blocking(|| {
        let table = Table::new();
        let (locks, dynamodb) = (table.client(), table.0.client());
        let of_reports = create_table(&dynamodb, "reports", &OF_LOCKS);
        locks.block_on(of_reports).unwrap();
        let put = |lines: &str| {
            let put = dynamodb.put_item().table_name("reports");
            let put = put.item("pk", AttributeValue::S("nightly".into()));
            let put = put.item("sk", AttributeValue::S("one".into()));
            put.item("lines", AttributeValue::N(lines.into()))
        };
        let stale = lock(&locks).acquire(RecordWait::default()).unwrap();
        let late = stale.fence("fence").on(put("1"));
        stale.release().unwrap();
        let guard = lock(&locks).acquire(RecordWait::default()).unwrap();
        let sent = locks.block_on(guard.fence("fence").on(put("2")).send());
        sent.unwrap().unwrap();
        assert!(locks.block_on(late.send()).unwrap().is_err());
        guard.release().unwrap();
    });
}

#[test]
fn work_runs_in_the_callers_thread_and_the_lock_is_released_also_by_a_panic() {
    blocking(|| {
        let table = Table::new();
        let locks = table.client();
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
    blocking(|| {
        let table = Table::new();
        let (one, two) = (table.client(), table.client());
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
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        let refused = LockClient::connect(async { wrong() }).unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        let locks = LockClient::connect(async {
            // As loading the settings of the SDK does, it waits for something in the background.
            tokio::time::sleep(MS).await;
            builder()
        });
        locks.unwrap().create_table().unwrap();
    });
}

#[test]
fn any_other_call_of_the_async_client_can_be_waited_for() {
    blocking(|| {
        let table = Table::new();
        let locks = table.client();
        let report = locks.block_on(locks.as_async().check_table()).unwrap();
        assert!(report.unwrap().is_usable());
        let gone = locks.block_on(locks.as_async().delete_lock("a")).unwrap();
        assert_eq!(gone.unwrap(), fairlock::DeleteOutcome::NotThere);
    });
}

/// The settings of the async handles hold for blocking calls too.
#[test]
fn a_thread_that_would_wait_for_itself_is_refused_at_once() {
    blocking(|| {
        let table = Table::new();
        let (locks, network) = table.host();
        let lock = lock(&locks).with(|lock| lock.deny_self_wait());
        let held = lock.acquire(RecordWait::Infinite).unwrap();
        let before = network.counts().requests();
        let refused = lock.acquire(RecordWait::Infinite).map(drop).unwrap_err();
        let told = refused.to_string();
        assert!(
            matches!(&refused, Error::NotGranted { holder: Some(holder), .. } if holder.is_this_process),
            "{told}"
        );
        assert!(lock.try_acquire().unwrap().is_none());
        let both = locks.multi_lock(["a", "b"]).unwrap();
        let both = both.with(|locks| locks.deny_self_wait());
        assert!(both.try_acquire().unwrap().is_none());
        assert_eq!(network.counts().requests(), before);
        held.release().unwrap();
        both.acquire(RecordWait::default())
            .unwrap()
            .release()
            .unwrap();
        assert!(table.is_free());
    });
}
