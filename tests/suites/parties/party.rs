//! A lock that another client holds, one who is heir, and a party of the same client behind it.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "callers' tasks, and helpers of a test that cannot go on has failed the test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::embedded::{Fault, Gate, Network, When};
use fairlock::{Error, FairLock, LockGuard, RecordWait, Ticket, Waiting};
use tokio::task::JoinHandle;

use fairlock_testkit::lab::{Host, Lab, acquire, waits};
use fairlock_testkit::verbs::verb;

const SECOND: Duration = Duration::from_secs(1);

pub(crate) type Call = JoinHandle<Result<LockGuard, Error>>;

/// Where the party stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Seat,
    Row,
}

pub(crate) struct Line {
    pub(crate) lab: Lab,
    pub(crate) other: Host,
    guard: Option<LockGuard>,
    pub(crate) host: Host,
    heir: Option<Call>,
    pub(crate) members: Vec<Call>,
}

/// The party gathers, for the one before it stands at the door.
pub(crate) struct Gathering {
    line: Line,
    door: Gate,
}

impl std::ops::Deref for Gathering {
    type Target = Line;

    fn deref(&self) -> &Line {
        &self.line
    }
}

pub(crate) fn call(host: &Host, wait: RecordWait) -> Call {
    calls(host.locks.fair_lock("a").unwrap(), wait)
}

fn calls(lock: FairLock, wait: RecordWait) -> Call {
    tokio::spawn(async move { lock.acquire(wait).await })
}

pub(crate) async fn granted(call: Call) -> LockGuard {
    call.await.unwrap().unwrap()
}

/// From now on one request of a verb, after so many others of it, is held up.
pub(crate) fn holds_at(network: &Network, what: &'static str, nth: usize, when: When) -> Gate {
    let (gate, met) = (Gate::closed(), AtomicUsize::new(0));
    let held = Fault::Hold(when, gate.clone());
    let _ = network.clone().script(move |request| {
        let stands = verb(request) == what && met.fetch_add(1, Ordering::SeqCst) == nth;
        stands.then(|| held.clone())
    });
    gate
}

impl Line {
    pub(crate) async fn with<const N: usize>(place: Place, waits: [RecordWait; N]) -> Line {
        let line = Line::gathers(place, waits).await.comes().await;
        line.lab.settle().await;
        line
    }

    pub(crate) async fn gathers<const N: usize>(place: Place, waits: [RecordWait; N]) -> Gathering {
        let mut gathering = Gathering::behind_the_door(place).await;
        let host = &gathering.line.host;
        gathering.line.members = waits.map(|wait| call(host, wait)).into();
        gathering.line.lab.settle().await;
        gathering
    }

    /// In a row; each is observed.
    pub(crate) async fn gathers_observed(
        size: usize,
        observer: impl Fn(usize, &Waiting) + Send + Sync + 'static,
    ) -> Gathering {
        let mut gathering = Gathering::behind_the_door(Place::Row).await;
        let observer = Arc::new(observer);
        let observed = |who| {
            let lock = gathering.line.host.locks.fair_lock("a").unwrap();
            let observer = Arc::clone(&observer);
            let lock = lock.observed(move |waiting| observer(who, waiting));
            calls(lock, RecordWait::Infinite)
        };
        gathering.line.members = (0..size).map(observed).collect();
        gathering.line.lab.settle().await;
        gathering
    }

    /// Those before the party have their turns.
    pub(crate) async fn comes_to_the_party(&mut self) {
        self.guard.take().unwrap().release().await.unwrap();
        let heir = granted(self.heir.take().unwrap()).await;
        self.lab.settle().await;
        heir.release().await.unwrap();
    }

    /// All but those who have gone have their turns, one at a time and in order; then nothing is left of them and others
    /// have the lock at once. Says with which tickets.
    pub(crate) async fn turns(mut self, gone: &[usize]) -> Vec<Ticket> {
        let behind = waits(&self.lab, &self.other).await;
        self.comes_to_the_party().await;
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
            let lock = host.locks.fair_lock("a").unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none());
        }
    }

    pub(crate) async fn delete_lock_item(&self) {
        self.lab.delete_lock_item("a").await;
    }
}

impl Gathering {
    async fn behind_the_door(place: Place) -> Gathering {
        let lab = Lab::new().await;
        let seats = match place {
            Place::Seat => 4,
            Place::Row => 1,
        };
        let with_seats = || lab.host_with(|builder| builder.seats(seats));
        let (other, host) = (with_seats(), with_seats());
        let guard = acquire(&other).await;
        let door = holds_at(&host.network, "enter known", 0, When::Before);
        let heir = call(&host, RecordWait::Infinite);
        door.reached(1).await;
        let line = Line {
            lab,
            other,
            guard: Some(guard),
            host,
            heir: Some(heir),
            members: Vec::new(),
        };
        Gathering { line, door }
    }

    /// The door opens. What becomes of the party from here on is up to whoever asks.
    pub(crate) async fn comes(self) -> Line {
        let Gathering { line, door } = self;
        door.open();
        line.lab.wait(SECOND / 100).await;
        line
    }
}
