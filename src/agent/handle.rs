//! What callers have of a driver: its mailbox, and their holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlock_protocol::agent::{
    CallId, Claim, Done, Input, Lock, Loss, Order, Refusal, Terms, Wait,
};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::ticket::Ticket;
use tokio::sync::{mpsc, oneshot};

use super::driver::Driver;
use super::mail::{Giver, Message, Offered, Outbox};
use super::post::Post;
use super::view::{JustEnded, View};
use crate::config::SHARERS;
use crate::notify::Notifier;
use crate::requests::Requests;
use crate::runtime::background::Background;
use crate::runtime::clock::Clock;
use crate::wait::RecordWait;

/// A client that is a value, and is driven.
#[derive(Debug)]
pub struct Driven(Arc<Mailbox>);

#[derive(Debug)]
pub(super) struct Mailbox {
    messages: Outbox,
    clock: Clock,
    calls: AtomicU64,
}

impl Mailbox {
    /// A driver that has gone leaves no view that is held, so nothing is lost with a message to it.
    fn puts(&self, message: Message) {
        let _ = self.messages.send(message);
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.puts(Message::Deserted);
    }
}

impl Driven {
    pub(crate) fn new(
        requests: Requests,
        background: &Background,
        notifier: Option<Arc<dyn Notifier>>,
    ) -> Self {
        let (messages, inbox) = mpsc::unbounded_channel();
        let post = notifier.map(Post);
        let address = post.as_ref().map(|post| post.0.address().into());
        let terms = Arc::new(terms(&requests, address));
        let clock = requests.store.config().clock.clone();
        if let Some(post) = post.clone() {
            background.spawn_unlisted(post.listens(messages.clone()));
        }
        let driver = Driver::new(terms, requests, (messages.clone(), inbox), post);
        background.spawn_unlisted(driver.runs());
        let calls = AtomicU64::new(0);
        Driven(Arc::new(Mailbox {
            messages,
            clock,
            calls,
        }))
    }

    /// Asks for a lock, for as long as `wait` says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives back what the call has in the table.
    ///
    /// # Errors
    ///
    /// Why the caller does not get the lock.
    pub async fn acquire(
        &self,
        name: &str,
        wait: RecordWait,
        claim: Claim,
    ) -> Result<Held, Refusal> {
        let lock = Lock {
            name: name.into(),
            permits: SHARERS,
        };
        let wait = match wait {
            RecordWait::NoWait => Wait::No,
            RecordWait::Timeout(span) => Wait::Until(self.0.clock.now() + span),
            RecordWait::Infinite => Wait::Forever,
        };
        let Offered { view, .. } = &self.asks(lock, Claim { wait, ..claim }).await?;
        if !view.takes() {
            return Err(Refusal::Untaken);
        }
        self.0.puts(Message::Told(Input::Taken(view.hold)));
        Ok(Held {
            view: Arc::clone(view),
            mailbox: Arc::clone(&self.0),
            is_given_back: false,
        })
    }

    async fn asks(&self, lock: Lock, claim: Claim) -> Result<Offered, Refusal> {
        let call = CallId(self.0.calls.fetch_add(1, Ordering::Relaxed));
        let (to, answer) = oneshot::channel();
        let mut asking = Asking {
            mailbox: &self.0,
            call: Some(call),
        };
        self.0.puts(Message::Call {
            call,
            lock,
            claim: Box::new(claim),
            to,
        });
        let answer = answer.await;
        asking.call = None;
        answer.unwrap_or(Err(Refusal::NoRuntime))
    }
}

/// A call that is not answered. Dropped, it is cancelled.
struct Asking<'a> {
    mailbox: &'a Mailbox,
    call: Option<CallId>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.mailbox.puts(Message::Cancel(call));
        }
    }
}

/// A lock that is held. Dropped, it is given back.
#[derive(Debug)]
pub struct Held {
    view: Arc<View>,
    mailbox: Arc<Mailbox>,
    is_given_back: bool,
}

impl Held {
    /// Its fencing token.
    pub fn ticket(&self) -> Ticket {
        self.view.ticket
    }

    /// Whether its owner may still believe that it holds the lock.
    pub fn is_held(&self) -> bool {
        let is_held = self.view.is_held();
        is_held.unwrap_or_else(|JustEnded| {
            self.has_expired();
            false
        })
    }

    fn has_expired(&self) {
        let expired = Input::Expired(self.view.hold);
        self.mailbox.puts(Message::Told(expired));
    }

    /// Waits until it is lost. Cancel safe.
    pub async fn lost(&self) -> Loss {
        if let Err(JustEnded) = self.view.ends().await {
            self.has_expired();
        }
        self.view.loss()
    }

    /// Gives it back, and waits for what becomes of that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only stops the waiting.
    ///
    /// # Errors
    ///
    /// The release failed, or was not answered in time.
    pub async fn release(mut self) -> Result<Done, Failure> {
        let (to, answer) = oneshot::channel();
        self.gives_back(Some(to));
        let answer = answer.await;
        answer.unwrap_or(Ok(Done::Lost(Loss::NoRuntime)))
    }

    /// Once: a hold that was lost is also given back, since its caller is done with it.
    fn gives_back(&mut self, to: Option<Giver>) {
        if std::mem::replace(&mut self.is_given_back, true) {
            return;
        }
        self.view.gives_back();
        let (hold, order) = (self.view.hold, Order::Release { is_unused: false });
        self.mailbox.puts(Message::Order { hold, order, to });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gives_back(None);
    }
}

/// The settings of the client, as the value goes by them.
fn terms(requests: &Requests, address: Option<Arc<str>>) -> Terms {
    let config = requests.store.config();
    Terms {
        owner: config.owner.as_str().into(),
        address,
        lease: config.lease,
        margin: config.safety_margin,
        heartbeat: config.heartbeat,
        request_timeout: config.request_timeout,
        join_timeout: config.join_timeout,
        retention: config.idle_retention,
        slots: config.successor_slots,
        filled_slots: config.filled_slots,
    }
}
