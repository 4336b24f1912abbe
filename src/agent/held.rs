//! A hold in the hands of its caller, and of those who watch it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock_protocol::agent::{Done, Input, LeaseTerm, Order, Work};
use fairlock_protocol::failure::Failure;
use tokio::sync::oneshot;

use super::mail::{Message, Outbox, Released};
use super::notes;
use super::view::{JustEnded, Stand, View};
use crate::runtime::background::Background;
use crate::vocabulary::error::LossReason;

/// A hold, as those see it who watch it.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) view: Arc<View>,
    mailbox: Outbox,
}

/// What became of an order. An error if there is no driver that could carry it out.
pub(crate) type Ordered = oneshot::Receiver<Result<Done, Failure>>;

impl Watch {
    pub(crate) fn is_held(&self) -> bool {
        let is_held = self.view.is_held();
        is_held.unwrap_or_else(|JustEnded| {
            self.has_expired();
            false
        })
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.is_held() {
            true => self.view.remaining(),
            false => Duration::ZERO,
        }
    }

    fn has_expired(&self) {
        let expired = Input::Expired(self.view.hold);
        let _ = self.mailbox.send(Message::Told(expired));
    }

    /// Why it was lost, if it was. Also covers a lease that ran out without any task having noticed.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.is_held();
        self.view.loss()
    }

    /// Waits until it has ended. `None` if it was given back. Cancel safe.
    pub(crate) async fn ended(&self) -> Option<LossReason> {
        if let Err(JustEnded) = self.view.ends().await {
            self.has_expired();
        }
        self.view.loss()
    }

    /// Waits until it has ended, or is in danger, or no longer. Cancel safe.
    pub(crate) async fn news(&self, was_in_danger: bool) -> Stand {
        let stand = self.view.news(was_in_danger).await;
        stand.unwrap_or_else(|JustEnded| {
            self.has_expired();
            self.view.stand()
        })
    }

    pub(crate) fn orders(&self, order: Order) -> Ordered {
        self.sends(order, None)
    }

    /// Its caller counts on so many permits fewer from now on.
    pub(crate) fn frees(&self, permits: u64) -> Ordered {
        self.view.counts_on_fewer(permits);
        self.orders(Order::Free(permits))
    }

    fn sends(&self, order: Order, background: Option<&Arc<Background>>) -> Ordered {
        let (to, done) = oneshot::channel();
        let view = &self.view;
        let released = background.map(|background| Released {
            view: Arc::clone(view),
            open: background.open(notes::job(&view.name, Some(view.ticket), Work::Release)),
        });
        let hold = view.hold;
        let _ = self.mailbox.send(Message::Order {
            hold,
            order,
            to,
            released,
        });
        done
    }
}

/// A lock that is held. Dropped, it is given back.
#[derive(Debug)]
pub(crate) struct Held {
    watch: Watch,
    background: Arc<Background>,
    is_unused: AtomicBool,
    is_given_back: bool,
}

impl Held {
    pub(super) fn new(view: Arc<View>, mailbox: Outbox, background: &Arc<Background>) -> Self {
        Held {
            watch: Watch { view, mailbox },
            background: Arc::clone(background),
            is_unused: AtomicBool::new(false),
            is_given_back: false,
        }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// No work began under it.
    pub(crate) fn was_not_used(&self) {
        self.is_unused.store(true, Ordering::Relaxed);
    }

    /// Gives it back: why it was lost, if it was, and what becomes of it. A hold that was lost is also given back, since its caller is done
    /// with it.
    pub(crate) fn gives_back(&mut self) -> (Option<LossReason>, Ordered) {
        let is_unused = *self.is_unused.get_mut();
        self.ends(Order::Release { is_unused })
    }

    /// The same, and it becomes a lease.
    pub(crate) fn leases_out(&mut self, term: LeaseTerm) -> (Option<LossReason>, Ordered) {
        self.ends(Order::LeaseOut(term))
    }

    fn ends(&mut self, order: Order) -> (Option<LossReason>, Ordered) {
        self.is_given_back = true;
        let lost = self.watch.view.gives_back().unwrap_or_else(|JustEnded| {
            self.watch.has_expired();
            self.watch.view.loss()
        });
        (lost, self.watch.sends(order, Some(&self.background)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_given_back {
            self.gives_back();
        }
    }
}
