//! Notifications between the clients of a lock, which say when to poll. What they say is never believed.

mod notifier;
mod registration;
#[cfg(feature = "udp")]
mod udp;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::error::Invalid;
use crate::runtime::clock::Clock;
use crate::telemetry::{self, Notice};
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::notification::{Kind, Notification, PlaceKey, is_address};

pub use notifier::Notifier;
use registration::Inbox;
pub(crate) use registration::{News, Registration};
#[cfg(feature = "udp")]
pub use udp::UdpNotifier;

/// The places of one client that can be notified, and the way to notify others.
#[derive(Debug)]
pub(crate) struct Notifications {
    notifier: Arc<dyn Notifier>,
    address: Arc<str>,
    clock: Clock,
    places: Mutex<HashMap<PlaceKey, Arc<Inbox>>>,
    is_listening: AtomicBool,
    /// Cancelled when the client is gone: then nobody listens any more.
    ended: CancellationToken,
    sent: AtomicU64,
    received: AtomicU64,
    dropped: AtomicU64,
}

impl Notifications {
    /// The notifications that a notifier carries. Fails if other clients could not be told its address.
    pub(crate) fn new(notifier: Arc<dyn Notifier>, clock: Clock) -> Result<Self, Invalid> {
        let address = notifier.address();
        if !is_address(&address) {
            let rule = "must have 1 to 128 bytes, and no control characters";
            return Err(Invalid::text("address of the notifier", &address, rule));
        }
        Ok(Notifications {
            notifier,
            address: address.into(),
            clock,
            places: Mutex::default(),
            is_listening: AtomicBool::new(false),
            ended: CancellationToken::new(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Registers the place of an attempt, until the registration is dropped or closed.
    pub(crate) fn register(self: &Arc<Self>, nonce: Nonce) -> Registration {
        let (key, inbox) = (PlaceKey::of(nonce), Arc::<Inbox>::default());
        self.places().insert(key, Arc::clone(&inbox));
        Registration::new(Arc::clone(self), key, inbox)
    }

    pub(crate) fn notifier(&self) -> &dyn Notifier {
        &*self.notifier
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// How many datagrams were given to the notifier, how many it received, and how many of these were for no place of this client.
    pub(crate) fn counts(&self) -> [u64; 3] {
        // `Relaxed` is enough for numbers that only tests read.
        [&self.sent, &self.received, &self.dropped].map(|count| count.load(Ordering::Relaxed))
    }

    /// Notifies the place of an entry that something that concerns it has changed, if it can be notified.
    pub(crate) fn tell_change(&self, entry: &Entry) {
        if let Some(address) = &entry.address {
            self.send(address, PlaceKey::of(entry.nonce), Kind::Changed);
        }
    }

    /// A panic of the caller's own notifier loses the datagram. It must end no hold, and no task that a place is leaving in.
    fn send(&self, address: &str, to: PlaceKey, kind: Kind) {
        self.sends(address, &Notification { to, kind }.datagram());
    }

    /// Sends a datagram. A panic of the notifier loses it.
    pub(crate) fn sends(&self, address: &str, datagram: &[u8]) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        telemetry::notified(Notice::Sent);
        let sends = AssertUnwindSafe(|| self.notifier.send(address, datagram));
        if catch_unwind(sends).is_err() {
            tracing::warn!(address, "the notifier panicked: the notification is lost");
        }
    }

    /// Takes in what arrived. Whatever does not fit a place of this client is counted, and answered by nothing.
    pub(crate) fn received(&self) {
        self.received.fetch_add(1, Ordering::Relaxed);
        telemetry::notified(Notice::Received);
    }

    /// What was received fits no place.
    pub(crate) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        telemetry::notified(Notice::Dropped);
    }

    fn receive(&self, datagram: &[u8]) {
        self.received();
        let known = Notification::read(datagram).and_then(|notification| {
            let inbox = self.places().get(&notification.to).cloned()?;
            Some((inbox, notification.kind))
        });
        match known {
            Some((inbox, kind)) => {
                if let Some((address, from)) = inbox.receive(kind, self.clock.now()) {
                    self.send(&address, from, Kind::Confirm);
                }
            }
            None => self.dropped(),
        }
    }

    /// The work of listening, if no task does it yet. The task ends with the client.
    pub(crate) fn listens(self: &Arc<Self>) -> Option<impl Future<Output = ()> + Send + 'static> {
        if self.is_listening.swap(true, Ordering::Relaxed) {
            return None;
        }
        let listening = Listening {
            of: Arc::downgrade(self),
        };
        let (notifier, ended) = (Arc::clone(&self.notifier), self.ended.clone());
        Some(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                ran = AssertUnwindSafe(listening.run(&*notifier)).catch_unwind() => if ran.is_err() {
                    tracing::warn!("the notifier panicked: nothing is received until a place listens again");
                }
            }
        })
    }

    fn places(&self) -> MutexGuard<'_, HashMap<PlaceKey, Arc<Inbox>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// The task that listens. When it ends, the next place that is registered starts another one.
struct Listening {
    of: Weak<Notifications>,
}

impl Listening {
    /// Ends with the client. Each pass of the loop takes in one datagram.
    async fn run(&self, notifier: &dyn Notifier) {
        loop {
            let datagram = notifier.receive().await;
            let Some(notifications) = self.of.upgrade() else {
                return;
            };
            notifications.receive(&datagram);
            // A notifier that always has another datagram must not keep other tasks from running.
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(notifications) = self.of.upgrade() {
            notifications.is_listening.store(false, Ordering::Relaxed);
        }
    }
}
