//! What an operator asks for is dropped at any of its requests, or meets faults there. The lock goes on in any case, asking again has the
//! result, and nothing is left behind.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::embedded::Gate;
use fairlock::{
    BreakOutcome, DeleteOutcome, Error, LockClient, LockGuard, LossReason, Participant, RecordWait,
    ResizeOutcome,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fate::{Client, Fate};
use fairlock_testkit::lab::{Host, Lab, SECOND, cut_off, has_turn};
use fairlock_testkit::verbs::verb;

/// A heartbeat, by which a holder learns what was done to it, and what a waiter takes to poll and to ask again.
const HEARD: Duration = Duration::from_secs(12);
/// A lease, and what comes on top of one.
const WITHIN: Duration = Duration::from_secs(45);
/// How many permits the semaphore has.
const PERMITS: u64 = 3;
const REASON: &str = "it is stuck";

/// What the operator asks for, and the callers that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Of a holder, a successor and a waiter without a slot, who want the lock exclusively.
    Break(usize),
    /// Of a holder of two permits and one of the other, before a caller that waits for one permit.
    BreakShare(usize),
    Ask,
    /// Another permit, where all are taken and a caller waits for one.
    More,
    /// A single permit, where one is taken.
    Fewer,
    /// A lock that nobody has used for two minutes.
    Delete,
}

/// The orders, and each request of theirs.
const ORDERS: &[(Order, &str)] = &[
    (Order::Break(0), "read lock"),
    (Order::Break(0), "break"),
    (Order::Break(1), "break"),
    (Order::Break(2), "void dead"),
    (Order::Break(2), "leave"),
    (Order::BreakShare(0), "break"),
    (Order::BreakShare(1), "break"),
    (Order::Ask, "read lock"),
    (Order::Ask, "ask"),
    (Order::More, "read lock"),
    (Order::More, "change the permits"),
    (Order::More, "admit"),
    (Order::Fewer, "change the permits"),
    (Order::Delete, "read lock"),
    (Order::Delete, "remove lock"),
];

#[derive(Clone, Copy)]
pub(crate) struct Cell {
    order: Order,
    verb: &'static str,
    fate: Fate,
    client: Client,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell {
            order,
            verb,
            fate,
            client,
        } = self;
        write!(f, "{order:?} ({verb}), {fate}, the operator {client:?}")
    }
}

/// The requests that these cells drop.
pub(crate) fn verbs() -> impl Iterator<Item = &'static str> {
    ORDERS.iter().map(|(_, verb)| *verb)
}

pub(crate) fn all(client: Client) -> impl Iterator<Item = Cell> {
    let fates = move |order, verb| {
        Fate::all(client).map(move |fate| Cell {
            order,
            verb,
            fate,
            client,
        })
    };
    ORDERS
        .iter()
        .flat_map(move |(order, verb)| fates(*order, *verb))
}

type Waiting = JoinHandle<LockGuard>;

/// The callers of the lock, in their order.
struct Stage {
    lab: Lab,
    held: Vec<LockGuard>,
    waiting: Vec<Waiting>,
    operator: Host,
    gate: Gate,
}

/// Plays the cell to its end.
pub(crate) async fn play(cell: Cell) {
    let mut stage = Stage::set(cell.order).await;
    let seen = stage.seen(cell.order).await;
    stage.drop_at_gate(cell, seen.as_ref()).await;
    if cell.client == Client::Dies {
        stage.operator.network.set_faults(cut_off());
    }
    let opens = match cell.client {
        Client::IsOvertaken => 25 * SECOND,
        Client::Lives | Client::Dies => SECOND,
    };
    stage.lab.wait(opens).await;
    stage.gate.open();
    stage.lab.wait(3 * SECOND).await;
    stage.asks_again(cell, seen.as_ref()).await;
    stage.lab.wait(HEARD).await;
    stage.is_told(cell, seen.as_ref()).await;
    stage.all_have_their_turn(cell).await;
    stage.nothing_is_left(cell).await;
}

impl Stage {
    async fn set(order: Order) -> Stage {
        let lab = Lab::new().await;
        let hosts = lab.hosts_with_slots(4, 1);
        let operator = lab.host_with(|builder| builder.owner("ops@desk"));
        let mut stage = Stage {
            lab,
            held: Vec::new(),
            waiting: Vec::new(),
            operator,
            gate: Gate::closed(),
        };
        let wanted: &[u64] = match order {
            Order::Break(_) | Order::Ask => &[PERMITS, PERMITS, PERMITS],
            Order::BreakShare(_) | Order::More => &[2, 1, 1],
            Order::Fewer => &[1],
            Order::Delete => &[],
        };
        for (host, permits) in hosts.iter().zip(wanted) {
            let mut asked = asks(&host.locks, *permits);
            match timeout(SECOND, &mut asked).await {
                Ok(guard) => stage.held.push(guard.unwrap()),
                Err(_) => stage.waiting.push(asked),
            }
        }
        if order == Order::Delete {
            has_turn(asks(&hosts[0].locks, 1)).await;
            stage.lab.wait(120 * SECOND).await;
        }
        stage
    }

    /// The place that the order is about, as an operator sees it.
    async fn seen(&self, order: Order) -> Option<Participant> {
        let locks = self.lab.host().locks;
        let state = locks.fair_lock("a").unwrap().inspect().await.unwrap();
        let places = state.holder.into_iter().chain(state.sharers);
        let mut places = places.chain(state.queue);
        match order {
            Order::Break(place) => places.nth(place),
            // Sharers are told in any order.
            Order::BreakShare(place) => places.find(|it| it.permits == [2, 1][place]),
            Order::Ask | Order::More | Order::Fewer | Order::Delete => None,
        }
    }

    async fn drop_at_gate(&self, cell: Cell, seen: Option<&Participant>) {
        let (fault, met) = (cell.fate.fault(&self.gate), AtomicUsize::new(0));
        let what = cell.verb;
        self.operator.script(move |request| {
            let stands = verb(request) == what && met.fetch_add(1, Ordering::SeqCst) == 0;
            stands.then(|| fault.clone())
        });
        let (locks, gate) = (self.operator.locks.clone(), self.gate.clone());
        let order = orders(&locks, cell.order, seen);
        tokio::select! {
            biased;
            () = gate.reached(1) => {}
            done = order => drop(done),
        }
        // What a finished order has left to do comes to the gate later.
        let met = timeout(SECOND, self.gate.reached(1)).await;
        assert!(met.is_ok(), "the gate was never met: {cell}");
    }

    /// Another operator asks for the same. It cannot know whether the first order was done.
    async fn asks_again(&self, cell: Cell, seen: Option<&Participant>) {
        let locks = self
            .lab
            .host_with(|builder| builder.owner("ops@desk"))
            .locks;
        match cell.order {
            Order::Break(_) | Order::BreakShare(_) => {
                while let Some(again) = self.seen(cell.order).await
                    && seen.is_some_and(|seen| seen.ticket == again.ticket)
                {
                    // Its owner may renew the place between the look and the break.
                    let done = orders(&locks, cell.order, Some(&again)).await.unwrap();
                    let is_broken = matches!(done, Done::Broken(BreakOutcome::Broken { .. }));
                    let is_renewed = matches!(done, Done::Broken(BreakOutcome::Changed));
                    assert!(is_broken || is_renewed, "{done:?}: {cell}");
                }
            }
            Order::Ask => {
                let asked = orders(&locks, cell.order, None).await.unwrap();
                assert!(matches!(asked, Done::Asked(1)), "{asked:?}: {cell}");
            }
            Order::More | Order::Fewer => {
                let resized = orders(&locks, cell.order, None).await.unwrap();
                let is_done = matches!(resized, Done::Resized(ResizeOutcome::Resized { .. }));
                assert!(is_done, "{resized:?}: {cell}");
            }
            Order::Delete => {
                let deleted = orders(&locks, cell.order, None).await.unwrap();
                let is_done = matches!(
                    deleted,
                    Done::Deleted(DeleteOutcome::Deleted | DeleteOutcome::NotThere)
                );
                assert!(is_done, "{deleted:?}: {cell}");
            }
        }
    }

    /// A holder has learnt what was done to it, by whom and why, and no other holder has lost anything.
    async fn is_told(&self, cell: Cell, seen: Option<&Participant>) {
        for guard in &self.held {
            let is_broken = seen.is_some_and(|seen| seen.ticket == guard.ticket());
            assert_eq!(guard.is_held(), !is_broken, "{}: {cell}", guard.ticket());
            if is_broken {
                let (by, reason) = ("ops@desk".to_owned(), REASON.to_owned());
                let lost = guard.lost().await.reason;
                assert_eq!(lost, LossReason::Broken { by, reason }, "{cell}");
            }
        }
        if cell.order == Order::Ask {
            let asked = self.held[0].yield_requested().unwrap();
            assert_eq!(asked.reason, REASON, "{cell}");
        }
        let more = matches!(
            cell.order,
            Order::More | Order::BreakShare(_) | Order::Break(0)
        );
        let has_turn = self.waiting.first().is_some_and(JoinHandle::is_finished);
        assert_eq!(has_turn, more, "the first that waits: {cell}");
    }

    /// The holders release, if they have not lost the lock, and each waiter has its turn.
    async fn all_have_their_turn(&mut self, cell: Cell) {
        for guard in self.held.drain(..) {
            let _ = guard.release().await;
        }
        // A waiter that was broken stands at the end of the queue.
        for waiting in futures::future::join_all(self.waiting.drain(..).map(takes_turn)).await {
            assert!(waiting.is_ok(), "a waiter has no turn: {cell}");
        }
    }

    async fn nothing_is_left(&self, cell: Cell) {
        let host = self.lab.host();
        let free = host.locks.semaphore("a", PERMITS).unwrap();
        let guard = free.try_acquire_many(PERMITS).await.unwrap();
        assert!(guard.is_some(), "the lock is not free: {cell}");
        guard.unwrap().release().await.unwrap();
        let lock = host.lock();
        self.lab.settle().await;
        lock.sweep().await.unwrap();
        assert_eq!(self.lab.items("a").await, ["fairlock/#lock"], "{cell}");
        let state = lock.inspect().await.unwrap();
        let is_free = state.holder.is_none() && state.sharers.is_empty() && state.queue.is_empty();
        assert!(is_free, "not free: {state:?}: {cell}");
    }
}

async fn takes_turn(waiting: Waiting) -> Result<(), tokio::time::error::Elapsed> {
    let guard = timeout(3 * WITHIN, waiting).await?.unwrap();
    guard.release().await.unwrap();
    Ok(())
}

fn asks(locks: &LockClient, permits: u64) -> Waiting {
    let lock = locks.semaphore("a", PERMITS).unwrap();
    tokio::spawn(async move {
        let granted = lock.acquire_many(permits, RecordWait::Infinite).await;
        granted.unwrap()
    })
}

#[derive(Debug)]
enum Done {
    Broken(BreakOutcome),
    Asked(usize),
    Resized(ResizeOutcome),
    Deleted(DeleteOutcome),
}

async fn orders(
    locks: &LockClient,
    order: Order,
    seen: Option<&Participant>,
) -> Result<Done, Error> {
    Ok(match order {
        Order::Break(_) | Order::BreakShare(_) => {
            Done::Broken(locks.break_hold("a", seen.unwrap(), REASON).await?)
        }
        Order::Ask => Done::Asked(locks.ask_to_yield("a", REASON).await?),
        Order::More => Done::Resized(locks.resize("a", PERMITS + 1).await?),
        Order::Fewer => Done::Resized(locks.resize("a", 1).await?),
        Order::Delete => Done::Deleted(locks.delete_lock("a").await?),
    })
}
