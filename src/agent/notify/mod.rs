//! Notifications between the clients of a lock, which say when to poll. What they say is never believed.

mod notifier;
#[cfg(feature = "udp")]
mod udp;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::telemetry::{self, Notice};
use crate::vocabulary::error::Invalid;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::notification::{Kind, Notification, PlaceKey, is_address};

pub use notifier::Notifier;
#[cfg(feature = "udp")]
pub use udp::UdpNotifier;

/// The places of one client that can be notified, and the way to notify others.
#[derive(Debug)]
pub(crate) struct Notifications {
    notifier: Arc<dyn Notifier>,
    address: Arc<str>,
    sent: AtomicU64,
    received: AtomicU64,
    dropped: AtomicU64,
}

impl Notifications {
    /// The notifications that a notifier carries. Fails if other clients could not be told its address.
    pub(crate) fn new(notifier: Arc<dyn Notifier>) -> Result<Self, Invalid> {
        let address = notifier.address();
        if !is_address(&address) {
            let rule = "must have 1 to 128 bytes, and no control characters";
            return Err(Invalid::text("address of the notifier", &address, rule));
        }
        Ok(Notifications {
            notifier,
            address: address.into(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
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
}
