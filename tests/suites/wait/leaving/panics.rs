//! A transport that panics: its request has no answer, and a departure to which that happens ends alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fairlock::embedded::Network;
use fairlock::{Error, HeldLocks, LockClient, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{Lab, SECOND, acquire, in_lab, waits};
use fairlock_testkit::verbs::verb;

/// A client whose transport panics at each request of a verb.
fn panics_at(lab: &Lab, what: &'static str) -> LockClient {
    let network = Network::to(&lab.engine).script(move |request| {
        assert!(verb(request) != what, "the transport's own panic");
        None
    });
    let builder = LockClient::builder(network.client()).table("locks");
    builder.clock(lab.clock.clone()).build().unwrap()
}

/// A caller whose time has ended learns just that.
#[test]
fn a_caller_whose_departure_panics_is_told_what_it_would_be_told_without() {
    in_lab(async |lab, []| {
        let guard = acquire(&lab.host()).await;
        let locks = panics_at(lab, "give up");
        let lock = locks.fair_lock("a").unwrap();
        let refused = lock.acquire(RecordWait::Timeout(SECOND)).await;
        assert_is!(refused, Err(Error::NotGranted { .. }));
        // The next caller waits for the place that was not left, and for no longer than its lease.
        let next = waits(lab, &lab.host()).await;
        guard.release().await.unwrap();
        next.await.unwrap().release().await.unwrap();
    });
}

/// A shutdown reports the place that was not left.
#[test]
fn a_departure_that_panics_in_a_shutdown_is_reported() {
    in_lab(async |lab, []| {
        let _guard = acquire(&lab.host()).await;
        let locks = panics_at(lab, "give up");
        let lock = locks.fair_lock("a").unwrap();
        let (refused, report) = tokio::join!(lock.acquire(RecordWait::Infinite), async {
            lab.settle().await;
            locks.shutdown(HeldLocks::Release, 5 * SECOND).await
        });
        assert!(refused.is_err());
        assert_eq!(report.unfinished.len(), 1, "{report:?}");
    });
}

#[test]
fn a_transport_that_panics_is_told_as_such_and_one_panic_ends_neither_a_wait_nor_a_hold() {
    in_lab(async |lab, []| {
        let (host, once) = (lab.host(), AtomicBool::new(true));
        host.script(move |request| {
            let is_first = verb(request) == "renew hold" && once.swap(false, Ordering::SeqCst);
            assert!(!is_first, "the transport's own panic");
            None
        });
        let guard = acquire(&host).await;
        lab.wait(60 * SECOND).await;
        assert!(guard.is_held());
        for what in ["enter known", "read lock"] {
            let locks = panics_at(lab, what);
            let lock = locks.fair_lock("a").unwrap();
            let told = Arc::new(Mutex::new(String::new()));
            let noted = Arc::clone(&told);
            let lock = lock.observed(move |waiting| {
                if let Some(outage) = &waiting.outage {
                    noted.lock().unwrap().clone_from(&outage.cause);
                }
            });
            let refused = lock.acquire(RecordWait::Timeout(5 * SECOND)).await;
            assert!(refused.is_err());
            let told = told.lock().unwrap();
            assert!(told.contains("panicked"), "{what}: {told}");
        }
    });
}
