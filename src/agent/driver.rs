//! The task of a client.

use std::collections::HashMap;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fairlock_protocol::agent::{
    CallId, Client, Clocks, HoldId, HoldView, Input, Loss, Order, Output, Precision, Random,
    Refusal, Reply, ReplyId, Request, RequestId, Terms, Turn,
};
use fairlock_protocol::entry::Nonce;
use tokio::sync::mpsc;

use super::carry::{carry, ended};
use super::mail::{Caller, Giver, Message, Offered, Outbox, unused};
use super::post::Post;
use super::record::Record;
use super::view::View;
use crate::requests::Requests;
use crate::runtime::background::spawn_here;
use crate::runtime::random_source::RandomSource;

pub(super) struct Driver {
    client: Client,
    record: Record,
    requests: Requests,
    /// What carries notifications, if anything does.
    post: Option<Post>,
    /// Where answers are put.
    mailbox: Outbox,
    inbox: mpsc::UnboundedReceiver<Message>,
    calls: HashMap<CallId, Caller>,
    views: HashMap<HoldId, Arc<View>>,
    replies: HashMap<ReplyId, Giver>,
    last_reply: u64,
    /// The last handle has gone.
    is_deserted: bool,
}

impl Driver {
    pub(super) fn new(
        terms: Arc<Terms>,
        requests: Requests,
        (mailbox, inbox): (Outbox, mpsc::UnboundedReceiver<Message>),
        post: Option<Post>,
    ) -> Self {
        Driver {
            record: Record::begins(&terms),
            client: Client::new(terms),
            requests,
            post,
            mailbox,
            inbox,
            calls: HashMap::new(),
            views: HashMap::new(),
            replies: HashMap::new(),
            last_reply: 0,
            is_deserted: false,
        }
    }

    /// Runs until the last handle has gone and nothing is left to do.
    pub(super) async fn runs(mut self) {
        let clock = self.requests.store.config().clock.clone();
        while !(self.is_deserted && self.client.is_idle()) {
            let due = self.client.next_timeout();
            let is_due = async {
                match due {
                    Some((due, Precision::Close)) => clock.sleep_closely_until(due).await,
                    Some((due, Precision::Coarse)) => clock.sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(message) = self.inbox.recv() => self.takes_in(message),
                () = is_due => {
                    self.turn(self.requests.store.clocks(), None);
                }
            }
            self.tells();
            self.sends();
        }
    }

    fn takes_in(&mut self, message: Message) {
        let input = match message {
            Message::Call {
                call,
                lock,
                claim,
                to,
            } => {
                self.calls.insert(call, to);
                let claim = *claim;
                Input::Call { call, lock, claim }
            }
            Message::Cancel(call) => {
                self.calls.remove(&call);
                Input::Cancel(call)
            }
            Message::Order { hold, order, to } => {
                if let Order::Release { .. } = order {
                    self.views.remove(&hold);
                }
                let reply = to.map(|to| self.replies_to(to));
                Input::Order { hold, order, reply }
            }
            Message::Told(input) => input,
            Message::Datagram(datagram, _permit) => Input::Datagram(datagram),
            Message::Deserted => {
                self.is_deserted = true;
                return;
            }
        };
        self.handles(input);
    }

    /// What is due by now happens first, so that no panic in it takes the input along.
    fn handles(&mut self, input: Input) {
        let clocks = self.requests.store.clocks();
        self.turn(clocks, None);
        self.turn(clocks, Some(input));
    }

    fn replies_to(&mut self, to: Giver) -> ReplyId {
        self.last_reply += 1;
        let reply = ReplyId(self.last_reply);
        self.replies.insert(reply, to);
        reply
    }

    /// A panic ends the agent whose turn it was, and no other.
    fn turn(&mut self, clocks: Clocks, input: Option<Input>) {
        let random = &mut Chance(&self.requests.store.config().random_source);
        let (client, record) = (&mut self.client, &mut self.record);
        let turn = AssertUnwindSafe(|| record.turn(client, input, Turn { clocks, random }));
        if catch_unwind(turn).is_err() {
            self.client.buries();
        }
    }

    /// Tells callers what the turn has told.
    fn tells(&mut self) {
        while let Some(output) = self.client.poll_output() {
            self.record.told(&output);
            match output {
                Output::Granted { call, hold, seen } => self.grants(call, hold, seen),
                Output::Refused { call, why } => {
                    if let Some(to) = self.calls.remove(&call) {
                        let _ = to.send(Err(why));
                    }
                }
                Output::TakeBack(hold) => self.takes_back(hold),
                Output::View { hold, seen } => {
                    if let Some(view) = self.views.get(&hold) {
                        view.sees(seen);
                    }
                }
                Output::Lost { hold, why } => {
                    if let Some(view) = self.views.remove(&hold) {
                        view.loses(why);
                    }
                }
                Output::Done { reply, done } => {
                    if let Some(to) = self.replies.remove(&reply) {
                        let _ = to.send(done);
                    }
                }
                Output::Send { to, datagram } => {
                    if let Some(post) = &self.post {
                        post.sends(&to, &datagram);
                    }
                }
                Output::Undone { .. } | Output::Shown { .. } => {}
            }
        }
    }

    /// A caller that has gone drops what it is offered, which gives it back.
    fn grants(&mut self, call: CallId, hold: HoldId, seen: HoldView) {
        let clock = self.requests.store.config().clock.clone();
        let view = Arc::new(View::new(hold, seen, clock));
        self.views.insert(hold, Arc::clone(&view));
        let offered = Offered::new(view, self.mailbox.clone());
        if let Some(to) = self.calls.remove(&call) {
            let _ = to.send(Ok(offered));
        }
    }

    fn takes_back(&mut self, hold: HoldId) {
        let view = self.views.get(&hold);
        let input = match view.is_some_and(|view| !view.takes_back()) {
            true => Input::Taken(hold),
            false => {
                self.views.remove(&hold);
                unused(hold)
            }
        };
        self.handles(input);
    }

    fn patient(&self, patience: u32) -> Requests {
        match patience {
            1 => self.requests.clone(),
            more => self.requests.with_more_time(more),
        }
    }

    /// Each request is a task of its own, so that none waits for another.
    fn sends(&mut self) {
        while let Some(asked) = self.client.poll_request() {
            self.record.asked(&asked);
            let (id, request) = asked;
            let Request {
                lock,
                what,
                patience,
                ..
            } = request;
            let (requests, mailbox) = (self.patient(patience), self.mailbox.clone());
            spawn_here(async move {
                let mut sent = Sent {
                    request: id,
                    verb: what.verb(),
                    mailbox,
                    reply: None,
                };
                sent.reply = Some(carry(&requests, &lock, what).await);
            });
        }
    }
}

/// Without its task nothing renews a lease, and nobody is told.
impl Drop for Driver {
    fn drop(&mut self) {
        for view in self.views.values() {
            view.loses(Loss::NoRuntime);
        }
        for (_, to) in self.calls.drain() {
            let _ = to.send(Err(Refusal::NoRuntime));
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
