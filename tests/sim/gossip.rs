//! What hosts hear by notifications, and waiters that believe it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use fairlock::Notifier;
use fairlock_protocol::notification::{Kind, Notification};
use serde_json::Value;

/// What one host has heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    is_confirmed: bool,
    /// A release was told since the table showed the place before.
    is_releasing: bool,
    renewals: u64,
}

/// The notifier of one host, overheard.
#[derive(Debug)]
pub(crate) struct Overheard<T> {
    pub(crate) own: T,
    pub(crate) heard: Arc<Mutex<Heard>>,
}

impl<T: Notifier> Notifier for Overheard<T> {
    fn address(&self) -> String {
        self.own.address()
    }

    fn send(&self, address: &str, datagram: &[u8]) {
        self.own.send(address, datagram);
    }

    fn receive(&self) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + '_>> {
        Box::pin(async {
            let arrived = self.own.receive().await;
            let mut heard = self.heard.lock().unwrap();
            match Notification::read(&arrived).map(|notification| notification.kind) {
                Some(Kind::Confirm) => heard.is_confirmed = true,
                Some(Kind::Releasing) => heard.is_releasing = true,
                Some(Kind::Changed | Kind::Subscribe { .. }) | None => {}
            }
            drop(heard);
            arrived
        })
    }
}

/// What a waiter wrongly believes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Believes {
    /// A place that was confirmed has renewed.
    Confirmations,
    /// A place that is releasing has released.
    Releases,
}

impl Believes {
    /// Makes an answer show what the host believes. `own` is its address.
    pub(crate) fn show(self, answer: &mut Value, own: &str, heard: &mut Heard) {
        for shown in ["/Item/slots/L", "/Attributes/slots/L"] {
            let Some(slots) = answer.pointer_mut(shown).and_then(Value::as_array_mut) else {
                continue;
            };
            let place = slots
                .iter()
                .position(|slot| slot["M"]["address"]["S"] == own);
            match (self, place) {
                (Believes::Confirmations, Some(own)) if heard.is_confirmed => {
                    for before in &mut slots[..own] {
                        heard.renewals += 1;
                        renew(&mut before["M"], heard.renewals);
                    }
                }
                (Believes::Releases, Some(1)) if heard.is_releasing => {
                    heard.is_releasing = false;
                    slots.remove(0);
                }
                _ => {}
            }
        }
    }
}

/// A beat that no client wrote, and a date to come.
fn renew(entry: &mut Value, renewals: u64) {
    const BEYOND: u64 = 1_000_000_000;
    const DAY_MS: u64 = 24 * 3_600_000;
    let date = entry["renewed_at"]["N"].as_str();
    if let Some(date) = date.and_then(|date| date.parse::<u64>().ok()) {
        entry["renewed_at"]["N"] = (date + DAY_MS).to_string().into();
    }
    entry["beat"]["N"] = (BEYOND + renewals).to_string().into();
}
