//! Notifiers that lie to their clients.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fairlock::Notifier;
use fairlock_protocol::notification::{Kind, Notification};
use tokio::sync::Notify;

use crate::datagram_network::PostBox;

/// What a client hears in place of the truth, or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Each subscription is confirmed at once, for ever and on behalf of everybody, the dead as well. Nothing else arrives.
    AllIsConfirmed,
    /// The same, but the truth arrives too.
    AllIsConfirmedBesides,
    /// Whenever the client subscribes, it hears that the place before its own is releasing. The truth arrives too.
    AllRelease,
    /// Whenever the client subscribes, it hears that the table has changed. It hears no confirmation.
    AllChanges,
}

/// All lies.
pub const LIES: [Lie; 4] = [
    Lie::AllIsConfirmed,
    Lie::AllIsConfirmedBesides,
    Lie::AllRelease,
    Lie::AllChanges,
];

impl Lie {
    /// What is told to a client that sends this.
    fn tells(self, sent: &[u8]) -> Option<Vec<u8>> {
        let Kind::Subscribe { from, .. } = Notification::read(sent)?.kind else {
            return None;
        };
        let kind = match self {
            Lie::AllIsConfirmed | Lie::AllIsConfirmedBesides => Kind::Confirm,
            Lie::AllRelease => Kind::Releasing,
            Lie::AllChanges => Kind::Changed,
        };
        Some(Notification { to: from, kind }.datagram())
    }

    fn lets_through(self, arrived: &[u8]) -> bool {
        let kind = Notification::read(arrived).map(|notification| notification.kind);
        match self {
            Lie::AllIsConfirmed => false,
            Lie::AllIsConfirmedBesides | Lie::AllRelease => true,
            Lie::AllChanges => kind != Some(Kind::Confirm),
        }
    }
}

/// The notifier of one client, which tells it lies.
#[derive(Debug)]
pub struct Liar {
    own: PostBox,
    lie: Lie,
    /// How many lies it and others have told.
    told: Arc<AtomicU64>,
    next: Mutex<VecDeque<Vec<u8>>>,
    grown: Notify,
}

impl Liar {
    /// A notifier that tells this lie, and counts how often.
    pub fn new(own: PostBox, lie: Lie, told: Arc<AtomicU64>) -> Self {
        Liar {
            own,
            lie,
            told,
            next: Mutex::default(),
            grown: Notify::new(),
        }
    }

    fn take(&self) -> Option<Vec<u8>> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.pop_front()
    }
}

impl Notifier for Liar {
    fn address(&self) -> String {
        self.own.address()
    }

    fn send(&self, address: &str, datagram: &[u8]) {
        if let Some(lie) = self.lie.tells(datagram) {
            self.told.fetch_add(1, Ordering::Relaxed);
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            next.push_back(lie);
            self.grown.notify_one();
        }
        self.own.send(address, datagram);
    }

    fn receive(&self) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + '_>> {
        Box::pin(async {
            // Each turn of the loop is an arrival, or a lie.
            loop {
                if let Some(lie) = self.take() {
                    return lie;
                }
                tokio::select! {
                    biased;
                    () = self.grown.notified() => {}
                    arrived = self.own.receive() => {
                        if self.lie.lets_through(&arrived) {
                            return arrived;
                        }
                    }
                }
            }
        })
    }
}
