//! What was sent for the turns, counted at the transport.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fairlock::embedded::{Exchange, Network, Outcome};
use serde::{Deserialize, Serialize};

use crate::verb;

/// Requests by operation and verb.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic(BTreeMap<String, BTreeMap<String, Sent>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) requests: u64,
    /// Answered with an error, such as a condition that failed.
    pub(crate) refused: u64,
    /// Never answered.
    pub(crate) unanswered: u64,
    /// Items written.
    pub(crate) writes: u64,
}

/// Counts what passes a network. Cheap to clone; the clones count together.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<Mutex<Traffic>>);

impl Counter {
    pub(crate) fn on(&self, network: Network) -> Network {
        let traffic = Arc::clone(&self.0);
        network.observe(move |exchange| {
            let mut traffic = traffic.lock().unwrap_or_else(PoisonError::into_inner);
            traffic.note(exchange);
        })
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Traffic {
    fn note(&mut self, exchange: &Exchange<'_>) {
        let (operation, body) = (exchange.request().operation(), exchange.request().body());
        let status = match exchange.outcome() {
            Outcome::Answered { status, .. } => Some(*status),
            _ => None,
        };
        let sent = Sent {
            requests: 1,
            refused: status.is_some_and(|status| status >= 400).into(),
            unanswered: status.is_none().into(),
            writes: verb::writes(operation, body),
        };
        self.add(operation, verb::of(operation, body), sent);
    }

    fn add(&mut self, operation: &str, verb: &str, sent: Sent) {
        let verbs = self.0.entry(operation.to_owned()).or_default();
        verbs.entry(verb.to_owned()).or_default().add(sent);
    }

    pub(crate) fn merge(&mut self, other: &Traffic) {
        for (operation, verb, sent) in other.lines() {
            self.add(operation, verb, *sent);
        }
    }

    /// All but the heartbeats.
    pub(crate) fn of_turns(&self) -> Sent {
        self.total(|verb| verb != verb::HEARTBEAT)
    }

    pub(crate) fn heartbeats(&self) -> Sent {
        self.total(|verb| verb == verb::HEARTBEAT)
    }

    fn total(&self, counts: impl Fn(&str) -> bool) -> Sent {
        let mut total = Sent::default();
        let counted = self.lines().filter(|(_, verb, _)| counts(verb));
        counted.for_each(|(_, _, sent)| total.add(*sent));
        total
    }

    /// Operation, verb, and how often.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, &str, &Sent)> {
        self.0.iter().flat_map(|(operation, verbs)| {
            let verbs = verbs.iter();
            verbs.map(move |(verb, sent)| (operation.as_str(), verb.as_str(), sent))
        })
    }
}

impl Sent {
    fn add(&mut self, other: Sent) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.writes += other.writes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(requests: u64, writes: u64) -> Sent {
        let none = Sent::default();
        Sent {
            requests,
            writes,
            ..none
        }
    }

    #[test]
    fn heartbeats_are_counted_apart_and_processes_together() {
        let mut one = Traffic::default();
        one.add("UpdateItem", "release", sent(2, 2));
        one.add("UpdateItem", verb::HEARTBEAT, sent(3, 3));
        let mut other = Traffic::default();
        other.add("GetItem", "read the lock", sent(5, 0));
        other.add("UpdateItem", "release", sent(1, 1));
        one.merge(&other);
        assert_eq!((one.of_turns(), one.heartbeats()), (sent(8, 3), sent(3, 3)));
        assert_eq!(one.lines().count(), 3);
    }
}
