//! What comes into the mailbox of a driver, and a grant on its way out.

use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::{CallId, Claim, Done, HoldId, Input, Lock, Order, Refusal, ReplyId};
use fairlock_protocol::failure::Failure;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::view::View;
use crate::runtime::background::Open;
use crate::telemetry::Origin;
use crate::vocabulary::state::WaitObserver;

/// Where the answer to a call goes.
pub(super) struct Caller {
    pub(super) to: oneshot::Sender<Result<Offered, Refusal>>,
    pub(super) observer: Option<WaitObserver>,
    pub(super) origin: Origin,
}

/// Where the outcome of an order goes.
pub(super) type Giver = oneshot::Sender<Result<Done, Failure>>;

/// What comes into the mailbox.
pub(super) enum Message {
    /// A caller asks for a lock.
    Call {
        call: CallId,
        lock: Lock,
        claim: Box<Claim>,
        caller: Box<Caller>,
    },
    /// The caller of this call has gone. Until the client has heard of that, it has work to do.
    Cancel(CallId, Open),
    /// The observer of this call panicked.
    Unobserved(CallId),
    /// A holder wants something, and may wait for what becomes of it.
    Order {
        hold: HoldId,
        order: Order,
        to: Giver,
        released: Option<Released>,
    },
    /// What the value is told, and answers to its giver.
    Answered(Box<dyn FnOnce(ReplyId) -> Input + Send>, Giver),
    /// What the value is told as it is.
    Told(Input),
    /// A caller asks how long a turn takes.
    Turn(Lock, oneshot::Sender<Duration>),
    /// The client is shut down. Until it has heard of that, it has work to do.
    Close(Input, Open),
    /// Something came to the client's address. Others wait until it is taken in.
    Datagram(Box<[u8]>, OwnedSemaphorePermit),
    /// The last handle has gone.
    Deserted,
}

/// A hold that is released, which is work to be done from the moment at which it was given back.
pub(super) struct Released {
    pub(super) view: Arc<View>,
    pub(super) open: Open,
}

/// The mailbox, from outside.
pub(super) type Outbox = mpsc::UnboundedSender<Message>;

/// A grant on its way to its caller. Dropped before that takes it, it is given back.
pub(super) struct Offered {
    pub(super) view: Arc<View>,
    mailbox: Outbox,
}

impl Offered {
    pub(super) fn new(view: Arc<View>, mailbox: Outbox) -> Self {
        Offered { view, mailbox }
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        if self.view.takes_back() {
            let _ = self.mailbox.send(Message::Told(unused(self.view.hold)));
        }
    }
}

/// The order that ends a hold under which no work was done.
pub(super) fn unused(hold: HoldId) -> Input {
    Input::Order {
        hold,
        order: Order::Release { is_unused: true },
        reply: None,
    }
}
