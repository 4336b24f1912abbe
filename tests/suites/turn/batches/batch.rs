//! A lock that another client holds, a successor, and a batch of the successor's client behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::embedded::{Fault, Gate, Network, When};
use fairlock::{Error, FairLock, LockGuard, RecordWait, Ticket, Waiting};
use tokio::task::JoinHandle;

use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, waits};
use fairlock_testkit::verbs::verb;

pub(crate) type Call = JoinHandle<Result<LockGuard, Error>>;

/// Where the batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Slot,
    Row,
}

pub(crate) struct BatchQueue {
    pub(crate) lab: Lab,
    pub(crate) other: Host,
    guard: Option<LockGuard>,
    pub(crate) host: Host,
    successor: Option<Call>,
    pub(crate) members: Vec<Call>,
}

/// The batch gathers while the call before it is in the doorway.
pub(crate) struct Gathering {
    queue: BatchQueue,
    door: Gate,
}

impl std::ops::Deref for Gathering {
    type Target = BatchQueue;

    fn deref(&self) -> &BatchQueue {
        &self.queue
    }
}

pub(crate) fn call(host: &Host, wait: RecordWait) -> Call {
    calls(host.lock(), wait)
}

fn calls(lock: FairLock, wait: RecordWait) -> Call {
    tokio::spawn(async move { lock.acquire(wait).await })
}

pub(crate) async fn granted(call: Call) -> LockGuard {
    call.await.unwrap().unwrap()
}

/// From now on, request number `nth` of this verb, counted from zero, is held up.
pub(crate) fn holds_at(network: &Network, what: &'static str, nth: usize, when: When) -> Gate {
    let (gate, met) = (Gate::closed(), AtomicUsize::new(0));
    let held = Fault::Hold(when, gate.clone());
    let _ = network.clone().script(move |request| {
        let stands = verb(request) == what && met.fetch_add(1, Ordering::SeqCst) == nth;
        stands.then(|| held.clone())
    });
    gate
}

impl BatchQueue {
    pub(crate) async fn with<const N: usize>(place: Place, waits: [RecordWait; N]) -> BatchQueue {
        let queue = BatchQueue::gathers(place, waits).await.comes().await;
        queue.lab.settle().await;
        queue
    }

    pub(crate) async fn gathers<const N: usize>(place: Place, waits: [RecordWait; N]) -> Gathering {
        let mut gathering = Gathering::behind_the_door(place).await;
        let host = &gathering.queue.host;
        gathering.queue.members = waits.map(|wait| call(host, wait)).into();
        gathering.queue.lab.settle().await;
        gathering
    }

    /// The batch waits in a row, and each call is observed.
    pub(crate) async fn gathers_observed(
        size: usize,
        observer: impl Fn(usize, &Waiting) + Send + Sync + 'static,
    ) -> Gathering {
        let mut gathering = Gathering::behind_the_door(Place::Row).await;
        let observer = Arc::new(observer);
        let observed = |who| {
            let lock = gathering.queue.host.lock();
            let observer = Arc::clone(&observer);
            let lock = lock.observed(move |waiting| observer(who, waiting));
            calls(lock, RecordWait::Infinite)
        };
        gathering.queue.members = (0..size).map(observed).collect();
        gathering.queue.lab.settle().await;
        gathering
    }

    /// The calls before the batch have their turns.
    pub(crate) async fn comes_to_the_batch(&mut self) {
        self.guard.take().unwrap().release().await.unwrap();
        let successor = granted(self.successor.take().unwrap()).await;
        self.lab.settle().await;
        successor.release().await.unwrap();
    }

    /// The calls before the batch have their turns, and then its first call.
    pub(crate) async fn first(&mut self) -> LockGuard {
        self.comes_to_the_batch().await;
        granted(self.members.remove(0)).await
    }

    /// All calls except `gone` have their turns, one at a time and in order. Then nothing is left of them, and another client gets the lock
    /// at once. Returns the tickets.
    pub(crate) async fn turns(mut self, gone: &[usize]) -> Vec<Ticket> {
        let behind = waits(&self.lab, &self.other).await;
        self.comes_to_the_batch().await;
        let mut tickets = Vec::new();
        let members = self.members.into_iter().enumerate();
        let mut there = members.filter(|(who, _)| !gone.contains(who)).peekable();
        while let Some((_, member)) = there.next() {
            let guard = granted(member).await;
            self.lab.settle().await;
            assert!(there.peek().is_none_or(|(_, next)| !next.is_finished()));
            assert!(guard.is_held() && !behind.is_finished());
            tickets.push(guard.ticket());
            guard.release().await.unwrap();
        }
        self.lab.settle().await;
        assert!(behind.is_finished(), "others wait for nobody");
        let last = behind.await.unwrap();
        tickets.push(last.ticket());
        assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
        tickets.pop();
        last.release().await.unwrap();
        self.lab.settle().await;
        assert_eq!(self.lab.items("a").await, ["fairlock/#lock"]);
        tickets
    }

    pub(crate) async fn refuses_those_who_do_not_wait(&self) {
        for host in [&self.host, &self.other] {
            assert!(host.try_acquire().await.is_none());
        }
    }

    pub(crate) async fn delete_lock_item(&self) {
        self.lab.delete_lock_item("a").await;
    }
}

impl Gathering {
    async fn behind_the_door(place: Place) -> Gathering {
        let lab = Lab::new().await;
        let slots = match place {
            Place::Slot => 4,
            Place::Row => 1,
        };
        let with_slots = || lab.host_with(|builder| builder.successor_slots(slots));
        let (other, host) = (with_slots(), with_slots());
        let guard = acquire(&other).await;
        let door = holds_at(&host.network, "enter known", 0, When::Before);
        let successor = call(&host, RecordWait::Infinite);
        door.reached(1).await;
        let queue = BatchQueue {
            lab,
            other,
            guard: Some(guard),
            host,
            successor: Some(successor),
            members: Vec::new(),
        };
        Gathering { queue, door }
    }

    /// Lets the batch out of the doorway. From here on the test decides what becomes of it.
    pub(crate) async fn comes(self) -> BatchQueue {
        let Gathering { queue, door } = self;
        door.open();
        queue.lab.wait(SECOND / 100).await;
        queue
    }
}
