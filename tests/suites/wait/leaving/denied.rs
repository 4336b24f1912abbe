//! A policy denies clients the actions that only cleaning needs. Turns go on, for as many requests as ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairlock::embedded::Fault;
use fairlock::{HeldLocks, RecordWait};
use futures::future::join_all;

use fairlock_testkit::effort::sized;
use fairlock_testkit::lab::{Host, Lab, SECOND};
use fairlock_testkit::virtual_time;

const CLIENTS: usize = 12;
const TURNS: usize = 5;
/// Each client tries a denied action once, or twice if it cleans at two places at that moment.
const MAX_TRIES: u64 = 2 * CLIENTS as u64;

/// Clients whose requests of some operations are denied while `is_denied` is set.
struct Crowd {
    lab: Lab,
    hosts: Vec<Host>,
    is_denied: Arc<AtomicBool>,
}

impl Crowd {
    async fn denied(operations: &'static [&'static str]) -> Crowd {
        let lab = Lab::new().await;
        let hosts = lab.hosts_with_slots(CLIENTS, 1);
        let is_denied = Arc::new(AtomicBool::new(true));
        for host in &hosts {
            let is_denied = Arc::clone(&is_denied);
            host.script(move |request| {
                let denied = operations.contains(&request.operation());
                let denied = denied && is_denied.load(Ordering::SeqCst);
                denied.then_some(Fault::Refuse("AccessDeniedException"))
            });
        }
        Crowd {
            lab,
            hosts,
            is_denied,
        }
    }

    /// Each client takes some turns. Returns how many requests that took in total.
    async fn round(&self) -> u64 {
        let before = self.requests();
        let turns = self.hosts.iter().map(async |host| {
            let lock = host.lock();
            for _ in 0..TURNS {
                let turn = lock.acquire(RecordWait::Infinite).await.unwrap();
                turn.release().await.unwrap();
            }
        });
        join_all(turns).await;
        self.lab.settle().await;
        self.requests() - before
    }

    fn requests(&self) -> u64 {
        let hosts = self.hosts.iter();
        hosts.map(|host| host.network.counts().requests()).sum()
    }

    fn of(&self, operation: &str) -> u64 {
        let hosts = self.hosts.iter();
        hosts.map(|host| host.network.counts().of(operation)).sum()
    }
}

#[test]
fn without_batches_rows_are_deleted_one_by_one_and_nothing_is_left() {
    virtual_time(async {
        let crowd = Crowd::denied(&["BatchWriteItem"]).await;
        let first = crowd.round().await;
        for _ in 1..sized(5, 20) {
            let requests = crowd.round().await;
            assert!(requests < first * 5 / 4, "{first}, then {requests}");
            assert!(crowd.lab.items("a").await.len() < 10);
        }
        assert!(crowd.of("BatchWriteItem") <= MAX_TRIES);
        let report = crowd.hosts[0].locks.shutdown(HeldLocks::Keep, SECOND).await;
        assert_eq!((report.rows_left, report.unfinished.len()), (0, 0));
    });
}

#[test]
fn without_deletions_turns_take_no_more_requests_the_more_rows_are_left() {
    virtual_time(async {
        let crowd = Crowd::denied(&["BatchWriteItem", "DeleteItem"]).await;
        let mut rounds = Vec::new();
        let last = sized(6, 19);
        for _ in 0..=last {
            rounds.push(crowd.round().await);
        }
        // A poll of the queue takes two pages: the lock item with some of the rows that are left, and the rows behind the slots.
        assert!(rounds[last] < rounds[0] * 2, "{rounds:?}");
        assert!(rounds[last] < rounds[4] * 5 / 4, "{rounds:?}");
        assert!(crowd.of("BatchWriteItem") <= MAX_TRIES);
        assert!(crowd.of("DeleteItem") <= MAX_TRIES);
        let settled_rows = crowd.lab.items("a").await.len() as u64 - 1;
        assert!(settled_rows > sized(150, 500), "{settled_rows}");
        let mut left = 0;
        for host in &crowd.hosts {
            left += host.locks.shutdown(HeldLocks::Keep, SECOND).await.rows_left;
        }
        assert!(left >= settled_rows, "{left} of {settled_rows}");
    });
}

#[test]
fn a_policy_that_was_mended_is_noticed_within_minutes() {
    virtual_time(async {
        let crowd = Crowd::denied(&["BatchWriteItem", "DeleteItem"]).await;
        for _ in 0..3 {
            crowd.round().await;
        }
        let (tried, left) = (crowd.of("BatchWriteItem"), crowd.lab.items("a").await.len());
        crowd.is_denied.store(false, Ordering::SeqCst);
        crowd.round().await;
        assert!(crowd.of("BatchWriteItem") <= tried + 1, "not at each turn");
        crowd.lab.wait(600 * SECOND).await;
        for _ in 0..3 {
            crowd.round().await;
        }
        let items = crowd.lab.items("a").await.len();
        assert!(items < left / 4, "{items} of {left}");
    });
}
