//! Plays one cell of the matrix: the queue before, the client that is dropped, the next caller, and what is left.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Fault, Gate, Request, When};
use fairlock::{LockGuard, RecordWait};
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::notification::PlaceKey;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::caller::{asks, caller, leases};
use super::fate::{Client, Fate};
use super::scene::{ALL, Act, Besides, Event, Scene, Who};
use fairlock_testkit::datagram_network::{Post, PostBox};
use fairlock_testkit::lab::{EPOCH, Host, Lab, SECOND, acquire, cut_off};
use fairlock_testkit::verbs::verb;

/// The default.
const LEASE: Duration = Duration::from_secs(30);
/// Without waiting for a lease: the join timeout of a gap, a few request time-outs, and a poll.
const PROMPT: Duration = Duration::from_secs(12);
/// What comes on top of one lease. A caller that comes after a death learns of it after the allowance.
const A_LOOK: Duration = Duration::from_secs(10);
/// Nothing in a scene happens later.
const MEETS_WITHIN: Duration = Duration::from_secs(120);
/// What the next caller in the queue writes, where data is written.
const NEXT: &[u8] = b"the next";
/// More rows than one poll of the queue reads.
const SETTLED_ROWS: u64 = 300;

#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) scene: Scene,
    pub(crate) wait: RecordWait,
    pub(crate) fate: Fate,
    pub(crate) client: Client,
    /// The clients notify each other when to poll.
    pub(crate) notifies: bool,
}

/// What a cell showed.
pub(crate) struct Played {
    /// How long the next caller in the queue waited.
    pub(crate) took: Duration,
    /// How many notifications the clients sent each other.
    pub(crate) notifications: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell {
            scene,
            wait,
            fate,
            client,
            notifies,
        } = self;
        let how = if *notifies { "notifying" } else { "polling" };
        let Scene {
            what, verb, act, ..
        } = scene;
        write!(
            f,
            "{act:?}, {wait:?}, {what} ({verb}), {fate}, the client {client:?}, {how}"
        )
    }
}

impl Cell {
    /// How long the next caller in the queue may wait.
    fn bound(&self) -> Duration {
        let Scene {
            act,
            is_asked_again,
            bounds,
            ..
        } = self.scene;
        let kept = SECOND * bounds.min.max(bounds.margin);
        kept + match (act, self.client) {
            (Act::Lease(_), Client::Lives | Client::Dies) if is_asked_again => PROMPT,
            (Act::Lease(_), _) | (_, Client::IsOvertaken | Client::Dies) => LEASE + A_LOOK,
            (_, Client::Lives) => PROMPT,
        }
    }
}

enum Before {
    Holds(LockGuard),
    Waits(JoinHandle<LockGuard>),
}

/// The callers that came before the client. Living ones are in front.
struct Stage {
    lab: Lab,
    live: VecDeque<Before>,
    mortals: Vec<(Host, Option<PostBox>, Before)>,
    leaver: Host,
    gate: Gate,
    /// Carries the notifications, if there are any.
    post: Option<Post>,
    box_of_leaver: Option<PostBox>,
    /// The keys of all places that the client's requests were about.
    places: Arc<Mutex<BTreeSet<PlaceKey>>>,
}

/// Plays the cell to its end.
pub(crate) async fn play(cell: Cell) -> Played {
    let mut stage = Stage::set(cell).await;
    stage.drop_at_gate(cell).await;
    if cell.client == Client::Dies {
        stage.leaver.network.set_faults(cut_off());
        stage.box_of_leaver.iter().for_each(PostBox::dies);
    }
    let took = stage.next_is_granted(cell).await;
    let bound = cell.bound();
    assert!(took < bound, "the next waited {took:?}: {cell}");
    let notifications = stage.post.as_ref().map_or(0, Post::carried);
    stage.assert_nothing_is_left(cell).await;
    stage.assert_no_place_is_registered(cell).await;
    Played {
        took,
        notifications,
    }
}

/// A client that gives one slot, and is notified through this box, if there is one.
pub(crate) fn single(lab: &Lab, box_of_client: Option<PostBox>) -> Host {
    cautious(lab, box_of_client, 0)
}

/// The same with a safety margin, in seconds, on top of its lease.
fn cautious(lab: &Lab, box_of_client: Option<PostBox>, margin: u32) -> Host {
    lab.host_with(|builder| {
        let margin = SECOND * margin;
        let builder = builder.lease_duration(LEASE + margin).safety_margin(margin);
        let builder = builder.successor_slots(1);
        match box_of_client {
            Some(notifier) => builder.notifier(notifier),
            None => builder,
        }
    })
}

impl Stage {
    async fn set(cell: Cell) -> Stage {
        let lab = Lab::new().await;
        let post = cell.notifies.then(|| Post::seeded(1));
        let box_of_leaver = post.as_ref().map(Post::notifier);
        let mut stage = Stage {
            leaver: cautious(&lab, box_of_leaver.clone(), cell.scene.bounds.margin),
            lab,
            live: VecDeque::new(),
            mortals: Vec::new(),
            gate: Gate::closed(),
            post,
            box_of_leaver,
            places: Arc::default(),
        };
        for who in cell.scene.queue {
            stage.comes(*who).await;
        }
        stage
    }

    /// Another client, and the box through which it is notified.
    fn single(&self) -> (Host, Option<PostBox>) {
        let own = self.post.as_ref().map(Post::notifier);
        (single(&self.lab, own.clone()), own)
    }

    async fn comes(&mut self, who: Who) {
        let (host, own) = self.single();
        let (permits, is_mortal) = match who {
            Who::Past => return acquire(&host).await.release().await.unwrap(),
            Who::Gap => return self.draw(1, &host).await,
            Who::SettledRows => {
                self.draw(SETTLED_ROWS, &host).await;
                return self.void_rows().await;
            }
            Who::Live => (ALL, false),
            Who::Mortal => (ALL, true),
            Who::Shares(permits) => (permits, false),
            Who::MortalShares(permits) => (permits, true),
        };
        let locks = host.locks.clone();
        let mut waiting = tokio::spawn(async move {
            let granted = asks(&locks, permits, RecordWait::Infinite).await;
            granted.unwrap()
        });
        let before = match timeout(SECOND, &mut waiting).await {
            Ok(granted) => Before::Holds(granted.unwrap()),
            Err(_) => Before::Waits(waiting),
        };
        match is_mortal {
            true => self.mortals.push((host, own, before)),
            false => self.live.push_back(before),
        }
    }

    /// Draws tickets for which no row is ever put.
    async fn draw(&self, tickets: u64, host: &Host) {
        if self.live.is_empty() {
            acquire(host).await.release().await.unwrap();
        }
        let update = self.write("fairlock/#lock");
        let update = update
            .update_expression("SET #last = #last + :tickets, drawn_at = :at, drawn_on_host = :at")
            .expression_attribute_names("#last", "last")
            .expression_attribute_values(":tickets", number(tickets))
            .expression_attribute_values(":at", number(EPOCH.as_millis() as u64));
        update.send().await.unwrap();
    }

    async fn void_rows(&self) {
        let last = self.last().await;
        for ticket in last - SETTLED_ROWS + 1..=last {
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

    /// From now on, the first request of the scene's verb is held at the gate. Requests before it may be lost.
    fn close_gate(&self, cell: Cell) {
        let (fault, met) = (cell.fate.fault(&self.gate), AtomicUsize::new(0));
        let (what, besides) = (cell.scene.verb, cell.scene.besides);
        let until = Instant::now() + 20 * SECOND;
        let together = cell.scene.act == Act::AcquireTogether;
        let places = self.places.clone();
        self.leaver.script(move |request| {
            let sent = verb(request);
            note_places(request.body(), &mut places.lock().unwrap());
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

    /// Brings the client to its request, and drops what its caller awaits there, unless that was dropped before.
    async fn drop_at_gate(&mut self, cell: Cell) {
        self.close_gate(cell);
        let (locks, gate) = (self.leaver.locks.clone(), self.gate.clone());
        let mut caller = caller(locks, cell.scene, cell.wait);
        let dropped = match cell.scene.act {
            Act::Leave(after) => SECOND * after + SECOND / 20,
            _ => MEETS_WITHIN,
        };
        let goes = Instant::now() + dropped;
        let mut events = Box::pin(self.events(cell.scene.events));
        tokio::select! {
            biased;
            () = gate.reached(1) => {}
            () = &mut caller => {}
            () = &mut events => {}
            () = tokio::time::sleep_until(goes) => {}
        }
        drop(caller);
        let met = async {
            tokio::select! {
                biased;
                () = gate.reached(1) => {}
                () = &mut events => {}
            }
        };
        let met = timeout(MEETS_WITHIN, met).await;
        assert!(met.is_ok(), "the gate was never met: {cell}");
    }

    /// Runs the scene's other events, each at its time. Never ends.
    async fn events(&mut self, events: &[(u64, Event)]) {
        let started = Instant::now();
        for (at, event) in events {
            tokio::time::sleep_until(started + Duration::from_millis(*at)).await;
            match event {
                Event::Release => self.first_releases().await,
                Event::Die => {
                    for (host, own, _) in &self.mortals {
                        host.network.set_faults(cut_off());
                        own.iter().for_each(PostBox::dies);
                    }
                }
                Event::Void => {
                    let rows = self.lab.items("a").await;
                    self.set_row_void(rows.last().unwrap()).await;
                }
                Event::Fill => self.fill_over_the_void().await,
                Event::Comes(permits) => self.comes(Who::Shares(*permits)).await,
            }
        }
        std::future::pending().await
    }

    /// A write that fills slots, decided on an older snapshot, arrives while the client leaves.
    async fn fill_over_the_void(&self) {
        let rows = self.lab.items("a").await;
        let get = self.lab.engine.client().get_item().table_name("locks");
        let get = get
            .key("pk", text("a"))
            .key("sk", text(rows.last().unwrap()));
        let row = get.send().await.unwrap().item.unwrap();
        let entry = row["entry"].clone();
        let slot = self.write("fairlock/#lock");
        let slot = slot
            .update_expression("SET watermark = :ticket, slots = list_append(slots, :found)")
            .expression_attribute_values(":ticket", entry.as_m().unwrap()["ticket"].clone())
            .expression_attribute_values(":found", AttributeValue::L(vec![entry]));
        slot.send().await.unwrap();
    }

    async fn first_releases(&mut self) {
        let guard = match self.live.pop_front() {
            Some(Before::Holds(guard)) => guard,
            Some(Before::Waits(waiting)) => waiting.await.unwrap(),
            None => return,
        };
        guard.release().await.unwrap();
    }

    /// The next caller comes, and waits until all before it have ended. Returns how long it waited after they were told to end.
    async fn next_is_granted(&mut self, cell: Cell) -> Duration {
        let Scene {
            act,
            is_asked_again,
            ..
        } = cell.scene;
        let ((host, own), mut started) = (self.single(), Instant::now());
        let (mut next, has_lock) = (None, act.has_lock() && !is_asked_again);
        if has_lock || !self.live.is_empty() {
            next = Some(self.next(&host, act));
        }
        let opens = match cell.client {
            Client::IsOvertaken => 25 * SECOND,
            Client::Lives | Client::Dies => SECOND,
        };
        if is_asked_again && cell.client == Client::IsOvertaken {
            self.lease_is_asked_again().await;
        }
        self.lab.wait(opens).await;
        self.gate.open();
        self.lab.wait(3 * SECOND).await;
        if is_asked_again && cell.client != Client::IsOvertaken {
            self.lease_is_asked_again().await;
        }
        if !has_lock {
            started = Instant::now();
        }
        let next = next.unwrap_or_else(|| self.next(&host, act));
        while !self.live.is_empty() {
            assert!(!next.is_finished(), "the next did not wait: {cell}");
            self.first_releases().await;
        }
        let (guard, granted) = next.await.unwrap();
        self.assert_no_place_is_confirmed(cell, own.as_ref()).await;
        guard.release().await.unwrap();
        granted.saturating_duration_since(started)
    }

    fn next(&self, host: &Host, act: Act) -> JoinHandle<(LockGuard, Instant)> {
        let lock = host.lock();
        tokio::spawn(async move {
            let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
            let granted = Instant::now();
            if act.writes_data() {
                guard.set_data(NEXT).await.unwrap();
            }
            (guard, granted)
        })
    }

    /// A caller that knows the name gets the lease, and releases it.
    async fn lease_is_asked_again(&self) {
        let other = self.lab.host().locks;
        let lease = leases(&other).await.unwrap();
        other
            .lease_lock("a")
            .unwrap()
            .release(&lease)
            .await
            .unwrap();
    }

    /// Asks at every client but the next after the places that the leaver's requests were about. Returns the box at which confirmations
    /// arrive. The leaver may have given the next one its slot.
    async fn asks_after_places(&self, next: Option<&PostBox>) -> Option<PostBox> {
        let post = self.post.as_ref()?;
        let places = self.places.lock().unwrap().clone();
        assert!(!places.is_empty(), "the client had no place");
        let asking = post.asks_after(places, next);
        self.lab.wait(SECOND / 1000).await;
        Some(asking)
    }

    /// The next caller has the lock, so all places before its own are gone. The other call of two together may wait behind it: its draw was
    /// held or lost, and it draws again.
    async fn assert_no_place_is_confirmed(&self, cell: Cell, next: Option<&PostBox>) {
        if cell.scene.act == Act::AcquireTogether {
            return;
        }
        let asking = self.asks_after_places(next).await;
        let confirmed = asking.map_or(0, |asking| asking.waiting());
        assert_eq!(confirmed, 0, "places that are gone were confirmed: {cell}");
    }

    /// The leaver knows none of its places any more: whatever comes for one is for nobody.
    async fn assert_no_place_is_registered(&self, cell: Cell) {
        let Some([_, received, dropped]) = self.leaver.locks.notification_counts() else {
            return;
        };
        self.asks_after_places(None).await;
        let after = self.leaver.locks.notification_counts().unwrap();
        let received = after[1] - received;
        let known = received - (after[2] - dropped);
        assert_eq!(known, 0, "places left behind: {cell}");
        let is_deaf = cell.client == Client::Dies;
        assert_eq!(received == 0, is_deaf, "{received} received: {cell}");
    }

    /// After the dead are expired by DynamoDB's clock, the lock is free. After a sweep, only one item is left.
    async fn assert_nothing_is_left(&self, cell: Cell) {
        self.lab.wait(60 * SECOND).await;
        let (last, _) = self.single();
        let lock = last.lock();
        let guard = lock.try_acquire().await.unwrap();
        assert!(guard.is_some(), "the lock is not free: {cell}");
        guard.unwrap().release().await.unwrap();
        self.lab.settle().await;
        lock.sweep().await.unwrap();
        let left = self.lab.items("a").await;
        assert_eq!(left, ["fairlock/#lock"], "left behind: {cell}");
        let state = lock.inspect().await.unwrap();
        let is_free = state.holder.is_none() && state.queue.is_empty();
        assert!(is_free, "not free: {state:?}: {cell}");
        let data = state.data.map(|data| data.bytes.to_vec());
        let expected = cell.scene.act.writes_data().then(|| NEXT.to_vec());
        assert_eq!(
            data, expected,
            "a late write took the next one back: {cell}"
        );
    }
}

/// Adds the keys of all nonces in a request.
fn note_places(body: &Value, places: &mut BTreeSet<PlaceKey>) {
    match body {
        Value::Object(values) => {
            for (name, value) in values {
                let nonce = name.ends_with("nonce").then(|| value["S"].as_str());
                let nonce = nonce.flatten().and_then(Nonce::parse);
                places.extend(nonce.map(PlaceKey::of));
                note_places(value, places);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| note_places(value, places)),
        _ => {}
    }
}

fn late() -> Fault {
    Fault::Delay(When::Before, Duration::from_millis(1_800))
}

/// It takes some time, so that its caller can go while it is under way.
fn unanswered() -> Fault {
    Fault::Lose(When::After).and(Fault::Delay(When::Before, SECOND / 10))
}

/// How many tickets the request draws.
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
