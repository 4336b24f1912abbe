//! One cell of the matrix played: the line before, the client that is dropped, whoever comes next, and what is left.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; callers' tasks and time"
)]

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Fault, Gate, Request, When};
use fairlock::{FairLock, LockGuard, RecordWait};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fate::{Client, Fate};
use crate::lab::{EPOCH, Host, Lab, acquire, cut_off, waits};
use crate::scene::{Act, Besides, Event, Scene, Who};
use crate::verbs::verb;

const SECOND: Duration = Duration::from_secs(1);
/// The default.
const LEASE: Duration = Duration::from_secs(30);
/// Without waiting for a lease: the grace of a gap, a few time-outs, a look.
const PROMPT: Duration = Duration::from_secs(12);
/// What one lease takes besides: whoever comes later than a death knows of it after the allowance of the common clock.
const A_LOOK: Duration = Duration::from_secs(10);
/// Nothing in a scene happens later.
const MEETS_WITHIN: Duration = Duration::from_secs(120);
/// More than a look along the line reads at once.
const LITTER: u64 = 300;

#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) scene: Scene,
    pub(crate) wait: RecordWait,
    pub(crate) fate: Fate,
    pub(crate) client: Client,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell {
            scene,
            wait,
            fate,
            client,
        } = self;
        let Scene {
            what, verb, act, ..
        } = scene;
        write!(
            f,
            "{act:?}, {wait:?}, {what} ({verb}), {fate}, the client {client:?}"
        )
    }
}

enum Before {
    Holds(LockGuard),
    Waits(JoinHandle<LockGuard>),
}

/// Whoever came before the client, those that live at the front.
struct Stage {
    lab: Lab,
    live: VecDeque<Before>,
    mortals: Vec<(Host, Before)>,
    leaver: Host,
    gate: Gate,
}

type Caller = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Plays the cell, and says how long the next in line waited.
pub(crate) async fn play(cell: Cell) -> Duration {
    let mut stage = Stage::set(cell).await;
    stage.drop_at_gate(cell).await;
    if cell.client == Client::Dies {
        stage.leaver.network.set_faults(cut_off());
    }
    let took = stage.next_is_granted(cell).await;
    let bound = match cell.client {
        Client::Lives => PROMPT,
        Client::IsOvertaken | Client::Dies => LEASE + A_LOOK,
    };
    assert!(took < bound, "the next waited {took:?}: {cell}");
    stage.assert_nothing_is_left(cell).await;
    took
}

fn single(lab: &Lab) -> Host {
    lab.host_with(|builder| builder.seats(1))
}

impl Stage {
    async fn set(cell: Cell) -> Stage {
        let lab = Lab::new().await;
        let mut stage = Stage {
            leaver: single(&lab),
            lab,
            live: VecDeque::new(),
            mortals: Vec::new(),
            gate: Gate::closed(),
        };
        for who in cell.scene.line {
            stage.comes(*who).await;
        }
        stage
    }

    async fn comes(&mut self, who: Who) {
        let host = single(&self.lab);
        match who {
            Who::Gap => return self.draw(1, &host).await,
            Who::Litter => {
                self.draw(LITTER, &host).await;
                return self.void_rows().await;
            }
            Who::Live | Who::Mortal => {}
        }
        let before = if self.live.is_empty() && self.mortals.is_empty() {
            Before::Holds(acquire(&host).await)
        } else {
            Before::Waits(waits(&self.lab, &host).await)
        };
        match who {
            Who::Live => self.live.push_back(before),
            _ => self.mortals.push((host, before)),
        }
    }

    /// Tickets whose drawers never came with a row.
    async fn draw(&self, tickets: u64, host: &Host) {
        if self.live.is_empty() {
            acquire(host).await.release().await.unwrap();
        }
        let update = self.write("fairlock/#lock");
        let update = update
            .update_expression("SET #last = #last + :tickets, drawn_at = :at")
            .expression_attribute_names("#last", "last")
            .expression_attribute_values(":tickets", number(tickets))
            .expression_attribute_values(":at", number(EPOCH.as_millis() as u64));
        update.send().await.unwrap();
    }

    async fn void_rows(&self) {
        let last = self.last().await;
        for ticket in last - LITTER + 1..=last {
            self.set_row_void(&format!("fairlock/{ticket:038}")).await;
        }
    }

    async fn last(&self) -> u64 {
        let get = self.lab.engine.client().get_item().table_name("locks");
        let get = get.key("pk", text("a")).key("sk", text("fairlock/#lock"));
        let item = get.send().await.unwrap().item.unwrap();
        item["last"].as_n().unwrap().parse().unwrap()
    }

    fn write(
        &self,
        sort_key: &str,
    ) -> aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder {
        let update = self.lab.engine.client().update_item().table_name("locks");
        update.key("pk", text("a")).key("sk", text(sort_key))
    }

    async fn set_row_void(&self, sort_key: &str) {
        let update = self.write(sort_key).update_expression("SET #state = :void");
        let update = update.expression_attribute_names("#state", "state");
        let update = update.expression_attribute_values(":void", text("void"));
        update.send().await.unwrap();
    }

    /// From now on the first request of the scene's verb stands at the gate. Those before it may be lost.
    fn close_gate(&self, cell: Cell) {
        let (fault, met) = (cell.fate.fault(&self.gate), AtomicUsize::new(0));
        let (what, besides) = (cell.scene.verb, cell.scene.besides);
        let until = Instant::now() + 20 * SECOND;
        let together = cell.scene.act == Act::AcquireTogether;
        let _ = self.leaver.network.clone().script(move |request| {
            let sent = verb(request);
            assert!(!together || sent != "draw" || tickets(request) == "2");
            let stands = sent == what && met.fetch_add(1, Ordering::SeqCst) == 0;
            if stands {
                return Some(fault.clone());
            }
            match besides {
                Besides::Throttled(verb) if sent == verb && Instant::now() < until => {
                    Some(Fault::Throttle)
                }
                Besides::Late(verb) if sent == verb => Some(late()),
                Besides::Unanswered(verb) if sent == verb => Some(unanswered()),
                _ => None,
            }
        });
    }

    /// What the client's caller does.
    fn caller(&self, cell: Cell) -> Caller {
        let lock = self.leaver.locks.fair_lock("a").unwrap();
        let Cell { scene, wait, .. } = cell;
        Box::pin(async move {
            tokio::time::sleep(SECOND * scene.comes).await;
            if scene.act == Act::AcquireTogether {
                // The one before them, who is at the door, and the other one.
                let takes_turn = || tokio::spawn(takes_turn(lock.clone()));
                drop((takes_turn(), takes_turn()));
                tokio::task::yield_now().await;
            }
            let guard = lock.acquire(wait).await;
            match scene.act {
                Act::Hold => {
                    let _guard = guard.unwrap();
                    std::future::pending().await
                }
                Act::Release => guard.unwrap().release().await.unwrap(),
                Act::DropGuard => {
                    drop(guard.unwrap());
                    std::future::pending().await
                }
                _ => drop(guard),
            }
        })
    }

    /// Brings the client to its request, and drops what its caller awaits there, or has dropped it before.
    async fn drop_at_gate(&mut self, cell: Cell) {
        self.close_gate(cell);
        let (mut caller, gate) = (self.caller(cell), self.gate.clone());
        let dropped = match cell.scene.act {
            Act::Leave(after) => SECOND * after + SECOND / 20,
            _ => MEETS_WITHIN,
        };
        let goes = Instant::now() + dropped;
        tokio::select! {
            biased;
            () = gate.reached(1) => {}
            () = &mut caller => {}
            () = self.events(cell.scene.events) => {}
            () = tokio::time::sleep_until(goes) => {}
        }
        drop(caller);
        let met = tokio::time::timeout(MEETS_WITHIN - dropped, gate.reached(1)).await;
        assert!(met.is_ok(), "the gate was never met: {cell}");
    }

    /// What happens besides, each at its second. Never ends.
    async fn events(&mut self, events: &[(u64, Event)]) {
        let started = Instant::now();
        for (at, event) in events {
            tokio::time::sleep_until(started + Duration::from_millis(*at)).await;
            match event {
                Event::Release => self.first_releases().await,
                Event::Die => {
                    let hosts = self.mortals.iter().map(|(host, _)| host);
                    hosts.for_each(|host| host.network.set_faults(cut_off()));
                }
                Event::Void => {
                    let rows = self.lab.items("a").await;
                    self.set_row_void(rows.last().unwrap()).await;
                }
                Event::Seat => self.seat_the_void().await,
            }
        }
        std::future::pending().await
    }

    /// A seat write decided on an older look arrives while the client leaves.
    async fn seat_the_void(&self) {
        let rows = self.lab.items("a").await;
        let get = self.lab.engine.client().get_item().table_name("locks");
        let get = get
            .key("pk", text("a"))
            .key("sk", text(rows.last().unwrap()));
        let row = get.send().await.unwrap().item.unwrap();
        let entry = row["entry"].clone();
        let seat = self.write("fairlock/#lock");
        let seat = seat
            .update_expression("SET seated = :ticket, heirs = list_append(heirs, :found)")
            .expression_attribute_values(":ticket", entry.as_m().unwrap()["ticket"].clone())
            .expression_attribute_values(":found", AttributeValue::L(vec![entry]));
        seat.send().await.unwrap();
    }

    async fn first_releases(&mut self) {
        let guard = match self.live.pop_front() {
            Some(Before::Holds(guard)) => guard,
            Some(Before::Waits(waiting)) => waiting.await.unwrap(),
            None => return,
        };
        guard.release().await.unwrap();
    }

    /// Somebody comes next, and waits until all before are over. How long, once they were told to be.
    async fn next_is_granted(&mut self, cell: Cell) -> Duration {
        let has_lock = matches!(cell.scene.act, Act::Hold | Act::Release | Act::DropGuard);
        let (host, mut started) = (single(&self.lab), Instant::now());
        let mut next = None;
        if has_lock || !self.live.is_empty() {
            next = Some(self.next(&host));
        }
        let opens = match cell.client {
            Client::IsOvertaken => 25 * SECOND,
            Client::Lives | Client::Dies => SECOND,
        };
        self.lab.wait(opens).await;
        self.gate.open();
        self.lab.wait(3 * SECOND).await;
        if !has_lock {
            started = Instant::now();
        }
        let next = next.unwrap_or_else(|| self.next(&host));
        while !self.live.is_empty() {
            self.first_releases().await;
        }
        let (guard, granted) = next.await.unwrap();
        guard.release().await.unwrap();
        granted.saturating_duration_since(started)
    }

    fn next(&self, host: &Host) -> JoinHandle<(LockGuard, Instant)> {
        let lock = host.locks.fair_lock("a").unwrap();
        tokio::spawn(async move {
            let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
            (guard, Instant::now())
        })
    }

    /// When the dead are, by DynamoDB's clock, the lock is free, and after a sweep nothing but one item.
    async fn assert_nothing_is_left(&self, cell: Cell) {
        self.lab.wait(60 * SECOND).await;
        let last = single(&self.lab);
        let lock = last.locks.fair_lock("a").unwrap();
        let guard = lock.try_acquire().await.unwrap();
        assert!(guard.is_some(), "the lock is not free: {cell}");
        guard.unwrap().release().await.unwrap();
        self.lab.settle().await;
        lock.sweep().await.unwrap();
        let left = self.lab.items("a").await;
        assert_eq!(left, ["fairlock/#lock"], "left behind: {cell}");
        let state = lock.inspect().await.unwrap();
        let is_free = state.holder.is_none() && state.line.is_empty();
        assert!(is_free, "not free: {state:?}: {cell}");
    }
}

/// Of a client that may die: then there is no turn.
async fn takes_turn(lock: FairLock) {
    if let Ok(guard) = lock.acquire(RecordWait::Infinite).await {
        let _ = guard.release().await;
    }
}

fn late() -> Fault {
    Fault::Delay(When::Before, Duration::from_millis(1_800))
}

/// It takes its time, so that its caller can go while it is under way.
fn unanswered() -> Fault {
    Fault::Lose(When::After).and(Fault::Delay(When::Before, SECOND / 10))
}

/// How many are drawn.
fn tickets(request: &Request) -> String {
    let values = &request.body()["ExpressionAttributeValues"];
    values[":tickets"]["N"].as_str().unwrap().to_owned()
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
