//! The task of a client.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fairlock_protocol::agent::{
    CallId, Client, Clocks, Done, HoldId, HoldView, Input, Lock, Loss, Note, Of, Order, Output,
    Precision, Random, Refusal, Reply, ReplyId, Request, RequestId, Turn, Waiting,
};
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::failure::Failure;
use tokio::sync::mpsc;
use tracing::{Instrument, Span};

use super::carry::{carry, ended};
use super::ground::Ground;
use super::mail::{Caller, Giver, Message, Offered, Outbox, Released, unused};
use super::notes;
use super::record::Record;
use super::view::View;
use super::words;
use crate::agent::notify::Notifications;
use crate::runtime::background::{Open, spawn_here};
use crate::runtime::random_source::RandomSource;
use crate::store::requests::Requests;
use crate::telemetry::HoldTelemetry;
use crate::vocabulary::config::Config;
use crate::vocabulary::name::LockName;

pub(super) struct Driver {
    client: Client,
    record: Record,
    ground: Ground,
    /// What carries notifications, if anything does.
    post: Option<Arc<Notifications>>,
    /// Where answers are put.
    mailbox: Outbox,
    inbox: mpsc::UnboundedReceiver<Message>,
    calls: HashMap<CallId, (Lock, Caller)>,
    /// Where the observers of calls are told how they stand.
    observers: HashMap<CallId, mpsc::UnboundedSender<Box<Waiting>>>,
    orders: HashMap<ReplyId, Ordered>,
    /// What it does that nobody may wait for.
    errands: BTreeMap<u64, Open>,
    last_reply: u64,
    /// The last handle has gone.
    is_deserted: bool,
}

/// An order, until its giver is told what became of it.
struct Ordered {
    to: Giver,
    released: Option<Released>,
}

impl Driver {
    pub(super) fn new(
        client: (Client, Record),
        ground: Ground,
        (mailbox, inbox): (Outbox, mpsc::UnboundedReceiver<Message>),
        post: Option<Arc<Notifications>>,
    ) -> Self {
        let (client, record) = client;
        Driver {
            client,
            record,
            ground,
            post,
            mailbox,
            inbox,
            calls: HashMap::new(),
            observers: HashMap::new(),
            orders: HashMap::new(),
            errands: BTreeMap::new(),
            last_reply: 0,
            is_deserted: false,
        }
    }

    fn config(&self) -> &Config {
        self.ground.requests.store.config()
    }

    fn name(&self, lock: &Lock) -> LockName {
        LockName::of(lock, &self.config().namespace)
    }

    /// Runs until the last handle has gone and nothing is left to do.
    pub(super) async fn runs(mut self) {
        let clock = self.config().clock.clone();
        while !(self.is_deserted && self.client.is_idle()) {
            let due = self.client.next_timeout();
            let is_due = async {
                match due {
                    Some((due, Precision::Close)) => clock.sleep_closely_until(due).await,
                    Some((due, Precision::Coarse)) => clock.sleep_until(due).await,
                    None => pending().await,
                }
            };
            let open = tokio::select! {
                biased;
                Some(message) = self.inbox.recv() => self.takes_in(message),
                () = is_due => {
                    self.turn(self.ground.requests.store.clocks(), None);
                    None
                }
            };
            // Whoever is told that something is done never finds it listed.
            self.lists();
            self.tells();
            self.sends();
            self.lists();
            // What it has just heard of is listed by now.
            drop(open);
        }
    }

    fn takes_in(&mut self, message: Message) -> Option<Open> {
        let (input, open) = match message {
            Message::Call {
                call,
                lock,
                claim,
                caller,
            } => {
                self.calls.insert(call, (lock.clone(), *caller));
                let claim = *claim;
                (Input::Call { call, lock, claim }, None)
            }
            Message::Cancel(call, open) => {
                self.calls.remove(&call);
                self.observers.remove(&call);
                (Input::Cancel(call), Some(open))
            }
            Message::Unobserved(call) => {
                self.refuses(call, Refusal::Unobserved);
                (Input::Cancel(call), None)
            }
            Message::Order {
                hold,
                order,
                to,
                released,
            } => (self.is_ordered(hold, order, Ordered { to, released }), None),
            Message::Answered(input, to) => {
                // Its giver has gone, and what the giver saw may be long ago.
                if to.is_closed() {
                    return None;
                }
                let reply = self.replies_to(Ordered { to, released: None });
                (input(reply), None)
            }
            Message::Told(input) => (input, None),
            Message::Close(input, open) => (input, Some(open)),
            Message::Datagram(datagram, _permit) => (Input::Datagram(datagram), None),
            Message::Turn(lock, to) => {
                self.client.mean_turn(&lock).map(|turn| to.send(turn));
                return None;
            }
            Message::Deserted => {
                self.is_deserted = true;
                return None;
            }
        };
        self.handles(input);
        open
    }

    fn is_ordered(&mut self, hold: HoldId, order: Order, ordered: Ordered) -> Input {
        if ordered.released.is_some() {
            self.ground.views.remove(hold);
        }
        let order = match ordered.to.is_closed() {
            true => order.without_giver(),
            false => order,
        };
        let reply = Some(self.replies_to(ordered));
        Input::Order { hold, order, reply }
    }

    /// What is due by now happens first, so that no panic in it takes the input along.
    fn handles(&mut self, input: Input) {
        let clocks = self.ground.requests.store.clocks();
        self.turn(clocks, None);
        self.turn(clocks, Some(input));
    }

    fn replies_to(&mut self, ordered: Ordered) -> ReplyId {
        self.last_reply += 1;
        let reply = ReplyId(self.last_reply);
        self.orders.insert(reply, ordered);
        reply
    }

    /// A panic ends the agent whose turn it was, and no other.
    fn turn(&mut self, clocks: Clocks, input: Option<Input>) {
        let random = &mut Chance(&self.ground.requests.store.config().random_source);
        let (client, record) = (&mut self.client, &mut self.record);
        let turn = AssertUnwindSafe(|| record.turn(client, input, Turn { clocks, random }));
        if catch_unwind(turn).is_err() {
            tracing::error!("an error in this client ends its part in a lock");
            self.client.buries();
        }
    }

    /// Tells callers what the turn has told.
    fn tells(&mut self) {
        while let Some(output) = self.client.poll_output() {
            self.record.told(&output);
            match output {
                Output::Granted { call, hold, seen } => self.grants(call, hold, seen),
                Output::Refused { call, why } => self.refuses(call, why),
                Output::Waits { call, waiting } => self.observes(call, waiting),
                Output::TakeBack(hold) => self.takes_back(hold),
                Output::View { hold, seen } => {
                    if let Some(view) = self.ground.views.get(hold) {
                        view.sees(seen);
                    }
                }
                Output::Lost { hold, why } => {
                    if let Some(view) = self.ground.views.remove(hold) {
                        view.loses(&why);
                    }
                }
                Output::Done { reply, done } => self.is_done(reply, done),
                Output::Send { to, datagram } => {
                    if let Some(post) = &self.post {
                        post.sends(&to, &datagram);
                    }
                }
                Output::Unfit => {
                    if let Some(post) = &self.post {
                        post.dropped();
                    }
                }
                Output::Undone {
                    lock,
                    ticket,
                    work,
                    failure,
                } => {
                    let name = self.name(&lock);
                    notes::undone(&self.ground.background, &name, (ticket, work), &failure);
                }
                Output::Noted { lock, note } => {
                    let span = match &note {
                        Note::RenewalFailed(hold, ..) => self.span(Of::Hold(*hold)),
                        _ => Span::none(),
                    };
                    span.in_scope(|| notes::tell(self.config(), &self.name(&lock), note));
                }
                Output::Shown { .. } => {}
            }
        }
    }

    fn refuses(&mut self, call: CallId, why: Refusal) {
        self.observers.remove(&call);
        if let Some((_, caller)) = self.calls.remove(&call) {
            let _ = caller.to.send(Err(why));
        }
    }

    /// A caller that has gone drops what it is offered, which gives it back.
    fn grants(&mut self, call: CallId, hold: HoldId, seen: HoldView) {
        self.observers.remove(&call);
        let Some((lock, caller)) = self.calls.remove(&call) else {
            return self.handles(unused(hold));
        };
        let (name, clock) = (self.name(&lock), self.config().clock.clone());
        let telemetry = HoldTelemetry::begin(self.config(), &name, seen.ticket);
        telemetry.granted_to(&caller.origin, clock.now());
        let view = Arc::new(View::new(hold, seen, (name, telemetry), clock));
        self.ground.views.insert(hold, Arc::clone(&view));
        let offered = Offered::new(view, self.mailbox.clone());
        let _ = caller.to.send(Ok(offered));
    }

    /// Each observer has a task, so that a slow one keeps nothing else.
    fn observes(&mut self, call: CallId, waiting: Box<Waiting>) {
        let Some((lock, caller)) = self.calls.get(&call) else {
            return;
        };
        let Some(observer) = &caller.observer else {
            return;
        };
        let told = self.observers.entry(call).or_insert_with(|| {
            let (tell, mut told) = mpsc::unbounded_channel::<Box<Waiting>>();
            let (observer, requests) = (Arc::clone(observer), self.ground.requests.clone());
            let name = LockName::of(lock, &requests.store.config().namespace);
            let mailbox = self.mailbox.clone();
            spawn_here(async move {
                while let Some(waiting) = told.recv().await {
                    let waiting = words::waiting(&waiting, &name, requests.store.config());
                    // Unwind safe, because what a panic breaks belongs to the caller. It ends that call alone.
                    if catch_unwind(AssertUnwindSafe(|| observer(&waiting))).is_err() {
                        let _ = mailbox.send(Message::Unobserved(call));
                        return;
                    }
                }
            });
            tell
        });
        let _ = told.send(waiting);
    }

    fn takes_back(&mut self, hold: HoldId) {
        let view = self.ground.views.get(hold);
        let is_taken = view.as_ref().is_some_and(|view| !view.takes_back());
        if is_taken {
            return self.handles(Input::Taken(hold));
        }
        if let Some(view) = self.ground.views.remove(hold) {
            let (lock, ticket) = (&view.name, view.ticket);
            tracing::info!(%lock, %ticket, "granted to a call that was not polled: gives the lock back");
        }
        self.handles(unused(hold));
    }

    fn is_done(&mut self, reply: ReplyId, done: Result<Done, Failure>) {
        let Some(Ordered { to, released }) = self.orders.remove(&reply) else {
            return;
        };
        if let Some(Released { view, open }) = released {
            notes::released(&self.ground.background, &view, &done, to.is_closed());
            // It is done before its giver hears of that.
            drop(open);
        }
        let _ = to.send(done);
    }

    /// Lists what is done that nobody may wait for: a shutdown waits for it.
    fn lists(&mut self) {
        let Some(errands) = self.client.poll_errands() else {
            return;
        };
        let namespace = &self.ground.requests.store.config().namespace;
        let mut listed = BTreeMap::new();
        for (key, errand) in errands {
            let open = self.errands.remove(&key).unwrap_or_else(|| {
                let name = LockName::of(&errand.lock, namespace);
                let job = notes::job(&name, errand.ticket, errand.work);
                self.ground.background.open(job)
            });
            listed.insert(key, open);
        }
        self.errands = listed;
    }

    fn patient(&self, patience: u32) -> Requests {
        match patience {
            1 => self.ground.requests.clone(),
            more => self.ground.requests.with_more_time(more),
        }
    }

    fn span(&self, of: Of) -> Span {
        match of {
            Of::Call(call) => {
                let call = self.calls.get(&call);
                call.map_or_else(Span::none, |(_, caller)| caller.origin.span())
            }
            Of::Hold(hold) => {
                let view = self.ground.views.get(hold);
                view.map_or_else(Span::none, |view| view.telemetry.span())
            }
            Of::Nobody => Span::none(),
        }
    }

    /// Each request is a task of its own, so that none waits for another.
    fn sends(&mut self) {
        while let Some(asked) = self.client.poll_request() {
            self.record.asked(&asked);
            let (id, request) = asked;
            let Request {
                lock,
                of,
                what,
                patience,
            } = request;
            let (requests, mailbox) = (self.patient(patience), self.mailbox.clone());
            let sends = async move {
                let mut sent = Sent {
                    request: id,
                    verb: what.verb(),
                    mailbox,
                    reply: None,
                };
                sent.reply = Some(carry(&requests, &lock, what).await);
            };
            spawn_here(sends.instrument(self.span(of)));
        }
    }
}

/// Without its task nothing renews a lease, and nobody is told.
impl Drop for Driver {
    fn drop(&mut self) {
        for view in self.ground.views.all() {
            view.loses(&Loss::NoRuntime);
        }
        for (_, (_, caller)) in self.calls.drain() {
            let _ = caller.to.send(Err(Refusal::NoRuntime));
        }
    }
}

/// A request under way. When its task ends, its reply goes into the mailbox. A task that ends without one leaves it open what became of it.
struct Sent {
    request: RequestId,
    verb: &'static str,
    mailbox: Outbox,
    reply: Option<Reply>,
}

impl Drop for Sent {
    fn drop(&mut self) {
        let (request, reply) = (self.request, self.reply.take());
        let reply = Box::new(reply.unwrap_or_else(|| ended(self.verb)));
        let answer = Input::Answer { request, reply };
        let _ = self.mailbox.send(Message::Told(answer));
    }
}

/// Chance, as the client of this driver takes it.
struct Chance<'a>(&'a RandomSource);

impl Random for Chance<'_> {
    fn nonce(&mut self) -> Nonce {
        self.0.nonce()
    }

    fn unit(&mut self) -> f64 {
        self.0.unit()
    }
}
