//! The runtime of a client stands still while its callers run in another one. Time-outs that were promised to them hold, because the
//! callers count the time themselves.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{Error, HoldEvent, LockClient, LockGuard, LossReason, RecordWait};
use futures::StreamExt;
use futures::future::pending;
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata};
use metrics::{Recorder, SharedString, Unit};
use tokio::sync::oneshot;

use fairlock_testkit::assert_is;
use fairlock_testkit::lab::SECOND;
use fairlock_testkit::real_time;

/// A client whose runtime stands still until it is told to go on.
struct Elsewhere {
    locks: LockClient,
    guards: Vec<LockGuard>,
    /// Dropping this lets the runtime go on.
    stands: Sender<()>,
    thread: JoinHandle<()>,
}

impl Elsewhere {
    /// Starts a client that holds these locks, with a lease of a second.
    fn with(names: &'static [&'static str]) -> Elsewhere {
        let (send, sent) = channel();
        let (stands, goes_on) = channel();
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(async {
                send.send(client(names).await).unwrap();
                // Nothing is ever sent: this ends when the other side is dropped.
                let _ = goes_on.recv();
            });
        });
        let (locks, guards) = sent.recv().unwrap();
        Elsewhere {
            locks,
            guards,
            stands,
            thread,
        }
    }

    fn goes_on(self) {
        drop((self.stands, self.locks, self.guards));
        self.thread.join().unwrap();
    }
}

async fn client(names: &[&str]) -> (LockClient, Vec<LockGuard>) {
    let dynamodb = Engine::memory().unwrap().client();
    let locks = LockClient::builder(dynamodb)
        .lease_duration(SECOND)
        .build()
        .unwrap();
    locks.create_table().await.unwrap();
    let mut guards = Vec::new();
    for name in names {
        let lock = locks.fair_lock(name).unwrap();
        guards.push(lock.acquire(RecordWait::NoWait).await.unwrap());
    }
    (locks, guards)
}

/// If a call waits for the runtime that stands still, the test hangs, and the watchdog ends it.
#[test]
fn a_hold_is_lost_at_its_deadline_though_the_runtime_of_its_client_stands_still() {
    let mut elsewhere = Elsewhere::with(&["a", "b", "c", "d"]);
    real_time(async {
        let events: Vec<_> = elsewhere.guards[0].events().collect().await;
        assert_eq!(
            events,
            [HoldEvent::Granted, HoldEvent::Lost(LossReason::Expired)]
        );
        let lost = elsewhere.guards[1].lost().await;
        assert_eq!(lost.reason, LossReason::Expired);
        let guard = elsewhere.guards.pop().unwrap();
        let ran = guard.run(pending::<()>()).await;
        assert!(ran.is_err_and(|error| matches!(error, Error::Lost { .. })));
        // The release of a lost hold does not wait without end either.
        let guard = elsewhere.guards.pop().unwrap();
        assert_is!(guard.release().await, Err(Error::Lost { .. }));
    });
    elsewhere.goes_on();
}

#[test]
fn calls_end_though_the_runtime_of_their_client_stands_still() {
    let mut elsewhere = Elsewhere::with(&["a"]);
    real_time(async {
        // First, while it holds the lock.
        let guard = elsewhere.guards.pop().unwrap();
        let released = guard.release().await;
        assert_is!(
            released,
            Err(Error::Unavailable {
                verb: "release",
                ..
            })
        );
        let several = elsewhere.locks.multi_lock(["b", "c"]).unwrap();
        let lock = elsewhere.locks.fair_lock("b").unwrap();
        for wait in [
            RecordWait::NoWait,
            RecordWait::Timeout(Duration::from_millis(200)),
        ] {
            let all = several.acquire(wait).await.map(drop);
            let one = lock.acquire(wait).await.map(drop);
            for ended in [all, one] {
                let said = ended.unwrap_err().to_string();
                assert!(said.contains("does not run"), "{wait:?}: {said}");
            }
        }
    });
    elsewhere.goes_on();
}

/// A recorder of metrics that stands still when a renewal is answered. It is called before the renewal is taken in, and once.
struct Stands {
    until: Mutex<Receiver<()>>,
    over: Mutex<Option<oneshot::Sender<()>>>,
}

struct Recorded(Arc<Stands>);

impl HistogramFn for Stands {
    fn record(&self, _: f64) {
        // Nothing is ever sent: this ends when the other side is dropped.
        let _ = self.until.lock().unwrap().recv();
        self.over.lock().unwrap().take().map(|over| over.send(()));
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match key.name() == "fairlock_heartbeat_lag_seconds" {
            true => Histogram::from_arc(Arc::clone(&self.0)),
            false => Histogram::noop(),
        }
    }
}

#[test]
fn a_hold_that_was_lost_does_not_come_back_with_a_renewal_whose_answer_is_taken_in_late() {
    let (send, sent) = channel();
    let (stands, until) = channel();
    let (took, taken_in) = channel();
    let (asked, goes_on) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let (over, is_over) = oneshot::channel();
        let stands = Stands {
            until: Mutex::new(until),
            over: Mutex::new(Some(over)),
        };
        metrics::with_local_recorder(&Recorded(Arc::new(stands)), || {
            runtime.block_on(async {
                send.send(client(&["a"]).await).unwrap();
                // Polled once the task of the hold has taken in the answer.
                is_over.await.unwrap();
                took.send(()).unwrap();
                let _ = goes_on.recv();
            });
        });
    });
    let (_locks, guards) = sent.recv().unwrap();
    let guard = &guards[0];
    real_time(async { assert_eq!(guard.lost().await.reason, LossReason::Expired) });
    drop(stands);
    taken_in.recv().unwrap();
    assert!(!guard.is_held(), "{:?} are left", guard.remaining());
    drop(asked);
    thread.join().unwrap();
}
