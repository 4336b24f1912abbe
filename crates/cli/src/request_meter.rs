//! Counts what a client sends: how many requests, how long each took, and the capacity units that DynamoDB charged.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeDeserializationInterceptorContextRef,
    BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use fairlock_cli::contention::monotonic::now_ns;
use serde_json::Value;

/// Operations that are charged in write units.
const WRITES: [&str; 5] = [
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "BatchWriteItem",
    "TransactWriteItems",
];

/// Measures the requests of the clients that it was put into.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Mutex<Counted>>);

/// What was sent, and what it cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    /// Requests that were sent, each attempt by itself.
    pub(crate) requests: u64,
    pub(crate) read_units: f64,
    pub(crate) write_units: f64,
    /// Writes whose condition failed. DynamoDB charges for them and does not say how much: each counts as one unit.
    pub(crate) refused: u64,
    /// How long the answers took, in the order in which they came.
    pub(crate) round_trips: Vec<Duration>,
}

/// A request under way, carried to its answer.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at_ns: u64,
    is_write: bool,
}

impl Storable for Sent {
    type Storer = StoreReplace<Self>;
}

impl Meter {
    /// Returns a client whose requests are counted here. They ask DynamoDB for their charge, because fairlock does so.
    pub(crate) fn on(&self, client: &Client) -> Client {
        let config = client.config().to_builder();
        Client::from_conf(config.interceptor(self.clone()).build())
    }

    /// Returns what was counted, and counts from zero again.
    pub(crate) fn take(&self) -> Counted {
        std::mem::take(&mut self.counted())
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "fairlock_cli::Meter"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let target = context.request().headers().get("x-amz-target");
        let operation = target.and_then(|target| target.rsplit('.').next());
        bag.interceptor_state().store_put(Sent {
            at_ns: now_ns(),
            is_write: operation.is_some_and(|operation| WRITES.contains(&operation)),
        });
        self.counted().requests += 1;
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        _: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(sent) = bag.load::<Sent>() {
            let took = Duration::from_nanos(now_ns().saturating_sub(sent.at_ns));
            self.counted().round_trips.push(took);
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let body = context.response().body().bytes().unwrap_or_default();
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let is_write = bag.load::<Sent>().is_some_and(|sent| sent.is_write);
        self.counted().charge(is_write, &answer);
        Ok(())
    }
}

impl Counted {
    /// Adds the charge that an answer tells.
    fn charge(&mut self, is_write: bool, answer: &Value) {
        let kind = answer["__type"].as_str().unwrap_or_default();
        if kind.ends_with("#ConditionalCheckFailedException") {
            self.refused += 1;
            self.write_units += 1.0;
            return;
        }
        let units = units(&answer["ConsumedCapacity"]);
        match is_write {
            true => self.write_units += units,
            false => self.read_units += units,
        }
    }
}

/// The units of one table, or of each table of a batch.
fn units(consumed: &Value) -> f64 {
    match consumed {
        Value::Array(tables) => tables.iter().map(units).sum(),
        table => table["CapacityUnits"].as_f64().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn units_are_those_of_the_answer_and_a_failed_condition_is_one_write() {
        let mut counted = Counted::default();
        let table = json!({ "TableName": "t", "CapacityUnits": 1.5 });
        counted.charge(false, &json!({ "ConsumedCapacity": table }));
        counted.charge(true, &json!({ "ConsumedCapacity": [table, table] }));
        counted.charge(false, &json!({}));
        assert_eq!((counted.read_units, counted.write_units), (1.5, 3.0));
        let failed = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        counted.charge(true, &json!({ "__type": failed }));
        assert_eq!((counted.refused, counted.write_units), (1, 4.0));
    }
}
