//! What was sent for the turns, counted at the transport.

mod verb;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairlock::embedded::{Exchange, Network, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Requests by operation and verb.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic(BTreeMap<String, BTreeMap<String, Sent>>);

/// What was sent of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// How many requests.
    pub requests: u64,
    /// Requests answered with an error, such as a condition that failed.
    pub refused: u64,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// Items written.
    pub writes: u64,
    /// Write capacity units, as the engine says. It says nothing of a refused write, which counts as one unit for each item. None over
    /// HTTP.
    pub write_units: f64,
    /// Read capacity units, as the engine says. None over HTTP.
    pub read_units: f64,
}

/// Counts what passes a network. Cheap to clone; the clones count together.
#[derive(Clone, Default)]
pub struct Counter(Arc<Mutex<Traffic>>);

impl Counter {
    /// Counts requests, with what each consumed. Not over HTTP, where a request is signed before it is rewritten.
    pub fn metering(&self, network: Network) -> Network {
        self.on(network.rewrite(|body| body["ReturnConsumedCapacity"] = "TOTAL".into()))
    }

    /// Counts requests, without what each consumed.
    pub fn on(&self, network: Network) -> Network {
        let traffic = Arc::clone(&self.0);
        network.observe(move |exchange| {
            let mut traffic = traffic.lock().unwrap_or_else(PoisonError::into_inner);
            traffic.note(exchange);
        })
    }

    /// What was counted so far. If the caller takes it away, the counter begins again.
    pub fn counted(&self) -> MutexGuard<'_, Traffic> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Traffic {
    fn note(&mut self, exchange: &Exchange<'_>) {
        let (operation, body) = (exchange.request().operation(), exchange.request().body());
        let mut sent = Sent {
            requests: 1,
            writes: verb::writes(operation, body),
            ..Sent::default()
        };
        let metered = !body["ReturnConsumedCapacity"].is_null();
        match exchange.outcome() {
            Outcome::Answered { status, .. } if *status >= 400 => sent.refuse(metered),
            Outcome::Answered { body, .. } => sent.consume(units(body)),
            _ => sent.unanswered = 1,
        }
        self.add(operation, verb::of(operation, body), sent);
    }

    fn add(&mut self, operation: &str, verb: &str, sent: Sent) {
        let verbs = self.0.entry(operation.to_owned()).or_default();
        verbs.entry(verb.to_owned()).or_default().add(sent);
    }

    /// Adds what another counter counted.
    pub fn merge(&mut self, other: &Traffic) {
        for (operation, verb, sent) in other.lines() {
            self.add(operation, verb, *sent);
        }
    }

    /// All but the heartbeats.
    pub fn of_turns(&self) -> Sent {
        self.total(|verb| !verb::is_heartbeat(verb))
    }

    /// The heartbeats alone.
    pub fn heartbeats(&self) -> Sent {
        self.total(verb::is_heartbeat)
    }

    fn total(&self, counts: impl Fn(&str) -> bool) -> Sent {
        let mut total = Sent::default();
        let counted = self.lines().filter(|(_, verb, _)| counts(verb));
        counted.for_each(|(_, _, sent)| total.add(*sent));
        total
    }

    /// Operation, verb, and what was sent.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &str, &Sent)> {
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
        self.write_units += other.write_units;
        self.read_units += other.read_units;
    }

    fn refuse(&mut self, metered: bool) {
        self.refused = 1;
        if metered {
            self.write_units = self.writes as f64;
        }
    }

    fn consume(&mut self, units: f64) {
        match self.writes {
            0 => self.read_units = units,
            _ => self.write_units = units,
        }
    }
}

/// What an answer says that its request consumed, in one table or in each.
pub(crate) fn units(answer: &Value) -> f64 {
    let consumed = &answer["ConsumedCapacity"];
    let units = |table: &Value| table["CapacityUnits"].as_f64().unwrap_or_default();
    match consumed.as_array() {
        Some(tables) => tables.iter().map(units).sum(),
        None => units(consumed),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        one.add("UpdateItem", "renew slot", sent(3, 3));
        let mut other = Traffic::default();
        other.add("GetItem", "read lock", sent(5, 0));
        other.add("UpdateItem", "release", sent(1, 1));
        one.merge(&other);
        assert_eq!((one.of_turns(), one.heartbeats()), (sent(8, 3), sent(3, 3)));
        assert_eq!(one.lines().count(), 3);
    }

    #[test]
    fn capacity_is_that_of_all_tables_and_a_refused_write_has_its_items() {
        let table = json!({ "CapacityUnits": 1.5 });
        assert_eq!(units(&json!({ "ConsumedCapacity": table })), 1.5);
        assert_eq!(units(&json!({ "ConsumedCapacity": [table, table] })), 3.0);
        assert_eq!(units(&json!({})), 0.0);
        let (mut read, mut written, mut refused) = (sent(1, 0), sent(1, 1), sent(1, 2));
        read.consume(2.0);
        written.consume(1.0);
        refused.refuse(true);
        let total = [read, written, refused].map(|sent| (sent.read_units, sent.write_units));
        assert_eq!(total, [(2.0, 0.0), (0.0, 1.0), (0.0, 2.0)]);
    }
}
