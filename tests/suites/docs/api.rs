//! What the types promise at compile time, and settings that contradict each other.

use std::ops::ControlFlow;
use std::time::Duration;

use fairlock::{
    Change, Clock, Closed, Error, FairLock, Fence, HoldEvent, Item, LeadershipEvent, Lease,
    LeaseLock, LockClient, LockClientBuilder, LockData, LockGuard, LockLost, LockState, MultiLock,
    MultiLockGuard, Participant, RecordWait, RunOutcome, Semaphore, Ticket, UpdateError,
    UpdateOutcome, Version, VersionedTable, VersionedTableBuilder, blocking,
};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{SECOND, in_lab};

fn shared<T: Send + Sync + 'static>() {}
fn sent<T: Send + 'static>(value: T) -> T {
    value
}

#[test]
fn everything_can_be_shared_between_threads() {
    shared::<(LockClient, LockClientBuilder, FairLock, Semaphore)>();
    shared::<(LeaseLock, Lease, LockGuard, Error, HoldEvent, LockState)>();
    shared::<(Participant, LockData, Ticket, Clock, Fence)>();
    shared::<(VersionedTable, VersionedTableBuilder, Change)>();
    shared::<(UpdateOutcome, Version, UpdateError<Error>)>();
    shared::<(RunOutcome<Ticket>, MultiLock, MultiLockGuard, LockLost)>();
    shared::<(Closed, LeadershipEvent, blocking::LockClient)>();
    shared::<(blocking::FairLock, blocking::Semaphore)>();
    shared::<(blocking::LockGuard, blocking::MultiLock)>();
    shared::<(blocking::MultiLockGuard, blocking::LeaseLock)>();
}

/// Never called: the test is that it compiles.
#[expect(dead_code, reason = "checked by the compiler")]
fn futures_can_be_sent(
    lock: FairLock,
    guard: LockGuard,
    locks: LockClient,
    accounts: VersionedTable,
) {
    drop(sent(async move {
        let mut calls = 0;
        // Neither the closure nor its error needs to be `Sync`.
        let count = |_: Option<Item>| {
            calls += 1;
            Err::<Change, _>(std::cell::Cell::new(calls))
        };
        let key = [("id", aws_sdk_dynamodb::types::AttributeValue::Bool(true))];
        accounts.update(key, count).await.is_err()
    }));
    drop(sent(guard.lost()));
    drop(sent(guard.events()));
    drop(sent(lock.watch(SECOND)));
    drop(sent(async move { guard.release().await }));
    drop(sent(async move {
        let _guard = lock.acquire(RecordWait::default()).await?;
        lock.try_acquire().await
    }));
    drop(sent(async move {
        locks.shutdown(fairlock::HeldLocks::Keep, SECOND).await
    }));
}

/// Never called: the test is that it compiles.
#[expect(dead_code, reason = "checked by the compiler")]
fn futures_of_those_who_share_and_of_leases_can_be_sent(
    lock: FairLock,
    permits: Semaphore,
    leases: LeaseLock,
    bytes: Vec<u8>,
) {
    drop(sent(async move {
        let mut guard = lock.acquire_shared(RecordWait::default()).await?;
        drop(lock.try_acquire_shared().await?);
        guard.set_data(&bytes).await?;
        guard.clear_data().await?;
        guard.downgrade().await
    }));
    drop(sent(async move {
        let _guard = permits.acquire_many(2, RecordWait::NoWait).await?;
        permits.try_acquire_many(2).await
    }));
    drop(sent(async move {
        let lease = leases.acquire("one", SECOND).await?;
        let lease = leases.extend(&lease, SECOND).await?;
        drop(leases.find(lease.id()).await?);
        leases.release(&lease).await
    }));
}

async fn step(guard: &LockGuard) -> Ticket {
    tokio::task::yield_now().await;
    guard.ticket()
}

/// Never called: the test is that it compiles. The work borrows the guard and its surroundings across an await.
#[expect(dead_code, reason = "checked by the compiler")]
fn work_under_locks_can_be_sent(lock: FairLock, guard: LockGuard, locks: LockClient) {
    let wait = RecordWait::default();
    let candidate = sent(lock.candidate());
    drop(sent(async move {
        let tickets = [guard.ticket()];
        guard.run(async { tickets.len() }).await
    }));
    drop(sent(async move {
        let mut done = Vec::new();
        let ran = lock.run(wait, async |guard| done.push(step(guard).await));
        ran.await?.into_result()
    }));
    drop(sent(async move {
        let mut done = Vec::new();
        let candidate = candidate.until(std::future::pending());
        let led = candidate.lead(async move |guard| {
            done.push(step(guard).await);
            tokio::task::yield_now().await;
            ControlFlow::<usize>::Break(done.len())
        });
        led.await
    }));
    drop(sent(async move {
        let several = locks.multi_lock(["a", "b"])?;
        let ran = several.run(wait, async |guard| {
            step(&guard.guards()[0]).await;
            step(&guard.guards()[1]).await
        });
        drop(ran.await?);
        let guard = several.acquire(wait).await?;
        drop(sent(guard.lost()));
        guard.run(async {}).await?.into_result()
    }));
}

fn dynamodb() -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest());
    aws_sdk_dynamodb::Client::from_conf(config.build())
}

#[test]
fn a_client_built_outside_of_a_runtime_says_so() {
    let built = LockClient::builder(dynamodb()).build();
    assert!(is_invalid(&built.unwrap_err(), "inside a tokio runtime"));
}

#[test]
fn settings_that_do_not_go_together_are_refused_with_both_values() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let builder = || LockClient::builder(dynamodb());
    let refused = builder()
        .lease_duration(SECOND)
        .heartbeat_interval(SECOND)
        .build()
        .unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("980ms") && text.contains("heartbeat"),
        "{text}"
    );
    let refused = builder().key_names("id", "id", "ttl").build().unwrap_err();
    let rule = "sort key \"id\" must not be the partition key too";
    assert!(is_invalid(&refused, rule), "{refused}");
    assert!(builder().key_names("id", "range", "ttl").build().is_ok());
}

fn refused() -> Error {
    let denied = std::io::Error::other("AccessDeniedException: not for you");
    let (table, verb) = ("locks".to_owned(), "enter");
    let source = std::sync::Arc::new(denied);
    Error::Refused {
        table,
        verb,
        source,
    }
}

/// All that a reporter writes about an error, as `{:#}` of `anyhow` does.
fn reported(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let causes = causes.map(|cause| format!(": {cause}"));
    error.to_string() + &causes.collect::<String>()
}

#[test]
fn a_reporter_tells_no_cause_twice() {
    let waited = SECOND;
    let Error::Refused {
        table,
        verb,
        source,
    } = refused()
    else {
        panic!("it is a refusal")
    };
    let silent = Error::Unavailable {
        table,
        verb,
        waited,
        source,
    };
    let of_an_update = UpdateError::<Error>::Table(refused());
    for told in [
        reported(&refused()),
        reported(&silent),
        reported(&of_an_update),
        reported(&LockClient::builder(dynamodb()).build().unwrap_err()),
    ] {
        let last = told.rsplit(": ").next().unwrap();
        assert_eq!(told.matches(last).count(), 1, "{told}");
    }
    assert!(reported(&refused()).ends_with("AccessDeniedException: not for you"));
}

#[test]
fn a_span_is_a_wait_and_none_at_all_is_not_to_wait() {
    for span in [SECOND, Duration::MAX] {
        assert_eq!(RecordWait::from(span), RecordWait::Timeout(span));
    }
    assert_eq!(RecordWait::from(Duration::ZERO), RecordWait::NoWait);
}

#[cfg(feature = "serde")]
#[test]
fn a_ticket_is_a_number_to_serde() {
    let ticket = Ticket::new(u64::MAX);
    let text = serde_json::to_string(&ticket).unwrap();
    assert_eq!(text, u64::MAX.to_string());
    assert_eq!(serde_json::from_str::<Ticket>(&text).unwrap(), ticket);
    for text in ["-1", "\"7\"", "1.5", "null"] {
        assert!(serde_json::from_str::<Ticket>(text).is_err(), "{text}");
    }
}

/// Ten thousand tasks that wait shall fit into 60 MB, and each is mostly the future of its call.
#[test]
fn a_call_that_waits_reserves_little_memory() {
    in_lab(async |_, [host]| {
        let lock = host.lock();
        let semaphore = host.locks.semaphore("s", 3).unwrap();
        let wait = RecordWait::Infinite;
        for (what, size) in [
            ("acquire", size_of_val(&lock.acquire(wait))),
            ("acquire_shared", size_of_val(&lock.acquire_shared(wait))),
            ("a permit", size_of_val(&semaphore.acquire(wait))),
        ] {
            println!("{what}: {size} bytes");
            assert!(size <= 1280, "{what} reserves {size} bytes");
        }
    });
}
