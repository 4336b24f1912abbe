//! Those of one client who ask for a lock at once: they stand in one place, have their turns one after the other, and go
//! away as freely as if each stood alone.
#![cfg(feature = "embedded")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "callers' tasks, and helpers of a test that cannot go on has failed the test"
)]

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/verbs.rs"]
mod verbs;

use std::time::Duration;

use common::virtual_time;
use fairlock::embedded::{Fault, Gate, When};
use fairlock::{Error, LockGuard, RecordWait};
use lab::{Host, Lab, acquire, waits};
use tokio::task::JoinHandle;
use verbs::meets;

const SECOND: Duration = Duration::from_secs(1);

type Call = JoinHandle<Result<LockGuard, Error>>;

fn call(host: &Host, wait: RecordWait) -> Call {
    let lock = host.locks.fair_lock("a").unwrap();
    tokio::spawn(async move { lock.acquire(wait).await })
}

/// A party that gathers while another of its client is at the door: until the gate opens.
struct Gathering {
    gate: Gate,
    first: Call,
}

impl Gathering {
    /// The lock is held by another client. The one at the door sits down, and those after it are to draw or sit.
    async fn at(host: &Host) -> Self {
        let gate = Gate::closed();
        meets(&host.network, "enter", 1, Fault::Hold(When::Before, gate.clone()));
        let first = call(host, RecordWait::Infinite);
        gate.reached(1).await;
        Gathering { gate, first }
    }
}

#[test]
fn who_asks_after_the_last_of_a_party_gave_up_is_not_given_up_with_it() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (holder, host) = (lab.host(), lab.host());
        let guard = acquire(&holder).await;
        let Gathering { gate, first } = Gathering::at(&host).await;
        let impatient = call(&host, RecordWait::Timeout(SECOND));
        // It has given up, and a request of its own might still bring it the lock.
        lab.wait(SECOND + SECOND / 2).await;
        let patient = call(&host, RecordWait::Infinite);
        lab.settle().await;
        gate.open();
        assert!(impatient.await.unwrap().is_err());
        lab.settle().await;
        guard.release().await.unwrap();
        first.await.unwrap().unwrap().release().await.unwrap();
        patient.await.unwrap().unwrap().release().await.unwrap();
    });
}
