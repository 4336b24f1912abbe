//! What a partition of DynamoDB bears: so many write units and read units a second for each partition key, between clients and an engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairlock::embedded::{Exchange, Fault, Network, Outcome, Request};
use serde_json::Value;
use tokio::time::Instant;

use crate::request_counts::units;
use crate::steps::step;

/// A budget for each partition key. Cheap to clone; the clones are one budget. As with DynamoDB, a request passes while anything is left,
/// and may then cost more than that. A request that is throttled costs nothing. A failed condition costs as much as a write of the item.
#[derive(Clone)]
pub struct PartitionBudget {
    write_units: f64,
    read_units: f64,
    partitions: Arc<Mutex<BTreeMap<String, Partition>>>,
}

/// What a request costs as it is let through. The rest is known when it is answered.
const AT_LEAST: f64 = 1.0;

#[derive(Debug)]
struct Partition {
    writes: Bucket,
    reads: Bucket,
    /// By step.
    throttled: BTreeMap<&'static str, u64>,
}

/// Holds as much as flows in within a second.
#[derive(Debug)]
struct Bucket {
    a_second: f64,
    left: f64,
    at: Instant,
}

impl PartitionBudget {
    /// A budget of so many units in each second.
    pub fn of(write_units: f64, read_units: f64) -> Self {
        PartitionBudget {
            write_units,
            read_units,
            partitions: Arc::default(),
        }
    }

    /// Makes a network keep to the budget. It takes the place of a script and of the server's observer.
    pub fn on(&self, network: Network) -> Network {
        let (admits, charges) = (self.clone(), self.clone());
        network
            .rewrite(|body| body["ReturnConsumedCapacity"] = "TOTAL".into())
            .script(move |request| admits.throttles(request).then_some(Fault::Throttle))
            .observe_server(move |exchange| charges.charge(exchange))
    }

    /// How many requests of a partition key were throttled, by step of the protocol.
    pub fn throttled(&self, key: &str) -> BTreeMap<&'static str, u64> {
        let partitions = self.partitions();
        partitions
            .get(key)
            .map_or_else(BTreeMap::new, |it| it.throttled.clone())
    }

    fn throttles(&self, request: &Request) -> bool {
        self.of_request(request, |partition, is_write| {
            let is_spent = partition.bucket(is_write).left() <= 0.0;
            match is_spent {
                true => {
                    let step = step(request.operation(), request.body());
                    *partition.throttled.entry(step).or_default() += 1;
                }
                false => partition.bucket(is_write).left -= AT_LEAST,
            }
            is_spent
        })
        .unwrap_or(false)
    }

    fn charge(&self, exchange: &Exchange<'_>) {
        let Outcome::Answered { body, .. } = exchange.outcome() else {
            return;
        };
        self.of_request(exchange.request(), |partition, is_write| {
            let told = units(body);
            // The engine does not tell what a failed condition costs, but shows the item.
            let units = match told > 0.0 || !is_write {
                true => told,
                false => (size(&body["Item"]) as f64 / 1024.0).ceil().max(1.0),
            };
            partition.bucket(is_write).left -= units - AT_LEAST;
        });
    }

    fn of_request<T>(
        &self,
        request: &Request,
        act: impl FnOnce(&mut Partition, bool) -> T,
    ) -> Option<T> {
        let is_write = !matches!(request.operation(), "GetItem" | "Query" | "Scan");
        let key = partition_key(request)?;
        let new = || Partition {
            writes: Bucket::full(self.write_units),
            reads: Bucket::full(self.read_units),
            throttled: BTreeMap::new(),
        };
        let mut partitions = self.partitions();
        let partition = partitions.entry(key.to_owned()).or_insert_with(new);
        Some(act(partition, is_write))
    }

    fn partitions(&self) -> MutexGuard<'_, BTreeMap<String, Partition>> {
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Partition {
    fn bucket(&mut self, is_write: bool) -> &mut Bucket {
        match is_write {
            true => &mut self.writes,
            false => &mut self.reads,
        }
    }
}

impl Bucket {
    fn full(a_second: f64) -> Self {
        Bucket {
            a_second,
            left: a_second,
            at: Instant::now(),
        }
    }

    fn left(&mut self) -> f64 {
        let now = Instant::now();
        let flowed = now.saturating_duration_since(self.at).as_secs_f64() * self.a_second;
        (self.left, self.at) = ((self.left + flowed).min(self.a_second), now);
        self.left
    }
}

/// The partition key of a request for one item, for a query, or of the first item of a batch.
fn partition_key(request: &Request) -> Option<&str> {
    let body = request.body();
    let first = body["RequestItems"].as_object().and_then(|tables| {
        let table = tables.values().next()?;
        table[0]["DeleteRequest"]["Key"]["pk"]["S"].as_str()
    });
    let of_query = || body["ExpressionAttributeValues"][":pk"]["S"].as_str();
    request.key("pk").or(first).or_else(of_query)
}

/// The bytes of an item in DynamoDB's form, by its rules: names, texts, half a byte a digit, and three bytes for a list or a map.
fn size(item: &Value) -> usize {
    let of = |attributes: &serde_json::Map<String, Value>| -> usize {
        let sizes = attributes
            .iter()
            .map(|(name, value)| name.len() + of_value(value));
        sizes.sum()
    };
    item.as_object().map_or(0, of)
}

fn of_value(value: &Value) -> usize {
    let Some((kind, value)) = value.as_object().and_then(|value| value.iter().next()) else {
        return 0;
    };
    let text = value.as_str().unwrap_or_default().len();
    let list = || value.as_array().into_iter().flatten();
    match kind.as_str() {
        "S" => text,
        "N" => text.div_ceil(2) + 1,
        "B" => text * 3 / 4,
        "L" => 3 + list().map(|item| 1 + of_value(item)).sum::<usize>(),
        "M" => 3 + size(value) + value.as_object().map_or(0, |map| map.len()),
        "SS" | "NS" | "BS" => list().map(|item| item.as_str().map_or(0, str::len)).sum(),
        _ => 1,
    }
}
