//! The tests of other locks, played on this one: each behaviour that their suites assert and fairlock claims, under their names.
//! Each test names theirs, and each file says which of theirs have no counterpart, and why. `docs/features.md` has what differs.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod curator;
mod etcd;
mod go;
mod java;

use std::time::Duration;

use fairlock::embedded::{Fault, Request};
use fairlock::{Error, FairLock, LockGuard, LockState, LossReason, Participant, RecordWait};
use fairlock_testkit::lab::{Host, cut_off};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// The default lease, and the longest time after it for which a waiter may not have noticed its end.
const LEASE: Duration = Duration::from_secs(30);
/// No wait of these tests is longer.
const LONG: RecordWait = RecordWait::Timeout(Duration::from_secs(300));

fn lock(host: &Host, name: &str) -> FairLock {
    host.locks.fair_lock(name).unwrap()
}

async fn state(host: &Host) -> LockState {
    lock(host, "a").inspect().await.unwrap()
}

async fn holder(host: &Host) -> Option<Participant> {
    state(host).await.holder
}

/// The data on lock `a`, as a caller sees it that does not hold the lock.
async fn data(host: &Host) -> Option<Vec<u8>> {
    Some(state(host).await.data?.bytes.to_vec())
}

/// The data that a holder finds.
fn found(guard: &LockGuard) -> Option<Vec<u8>> {
    Some(guard.data()?.bytes.to_vec())
}

async fn try_acquire(host: &Host, name: &str) -> Option<LockGuard> {
    lock(host, name).try_acquire().await.unwrap()
}

/// A holder of lock `a` that dies: nothing that it sends arrives any more.
async fn dies(host: &Host) -> LockGuard {
    let guard = lock(host, "a").acquire(RecordWait::NoWait).await.unwrap();
    // The first renewal gives the entry a date.
    tokio::time::sleep(2 * SECOND).await;
    host.network.set_faults(cut_off());
    guard
}

/// Why a hold or a lease was lost, as its end told.
fn why_lost<T: std::fmt::Debug>(ended: Result<T, Error>) -> LossReason {
    match ended {
        Err(Error::Lost { reason, .. }) => reason,
        other => panic!("not lost: {other:?}"),
    }
}

/// Lets requests meet a fault for as long as `meets` says so.
fn script(host: &Host, fault: Fault, meets: impl Fn(&Request) -> bool + Send + Sync + 'static) {
    let network = host.network.clone();
    let _ = network.script(move |request| meets(request).then(|| fault.clone()));
}

/// The tests of a source that name none of theirs in the comment above.
fn nameless(source: &str) -> Vec<&str> {
    let lines: Vec<_> = source.lines().collect();
    let tests = lines.windows(3).filter(|lines| lines[1] == "#[test]");
    let nameless = tests.filter(|lines| !lines[0].starts_with("///"));
    nameless.map(|lines| lines[2]).collect()
}

#[test]
fn each_test_says_whose_behaviour_it_plays() {
    let sources = [
        include_str!("curator.rs"),
        include_str!("etcd.rs"),
        include_str!("go.rs"),
        include_str!("java.rs"),
    ];
    for source in sources {
        assert_eq!(nameless(source), [""; 0]);
    }
    let planted = "}\n\n#[test]\nfn of_nobody() {";
    assert_eq!(nameless(planted), ["fn of_nobody() {"]);
}
