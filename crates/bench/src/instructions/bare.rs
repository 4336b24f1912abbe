//! The two writes of a turn, by the SDK alone.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure::AllOld,
};
use serde_json::Value;

/// As long as a request of a client with the default lease may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

type Item = HashMap<String, AttributeValue>;

pub(crate) struct Bare {
    client: Client,
    writes: [Write; 2],
}

/// What a caller has at hand before a call.
struct Write {
    table: String,
    key: Item,
    update: String,
    condition: String,
    names: HashMap<String, String>,
    values: Item,
}

impl Bare {
    pub(crate) fn new(client: &Client, requests: [Value; 2]) -> Bare {
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(REQUEST_TIMEOUT)
            .connect_timeout(REQUEST_TIMEOUT);
        let config = client.config().to_builder();
        let config = config
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts.build());
        Bare {
            client: Client::from_conf(config.build()),
            writes: requests.map(|request| Write::of(&request)),
        }
    }

    pub(crate) async fn turn(&self) {
        for write in &self.writes {
            let sent = self.client.update_item().table_name(&write.table);
            let sent = sent
                .set_key(Some(write.key.clone()))
                .update_expression(&write.update)
                .condition_expression(&write.condition)
                .set_expression_attribute_names(Some(write.names.clone()))
                .set_expression_attribute_values(Some(write.values.clone()))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(AllOld);
            sent.send().await.unwrap();
        }
    }
}

impl Write {
    fn of(request: &Value) -> Write {
        let text = |field: &str| request[field].as_str().unwrap().to_owned();
        let names = request["ExpressionAttributeNames"].clone();
        Write {
            table: text("TableName"),
            key: item(&request["Key"]),
            update: text("UpdateExpression"),
            condition: text("ConditionExpression"),
            names: serde_json::from_value(names).unwrap(),
            values: item(&request["ExpressionAttributeValues"]),
        }
    }
}

fn item(json: &Value) -> Item {
    let attributes = json.as_object().unwrap().iter();
    attributes
        .map(|(name, json)| (name.clone(), value(json)))
        .collect()
}

/// Converts a value, for the types that locks use.
fn value(json: &Value) -> AttributeValue {
    let (kind, json) = json.as_object().unwrap().iter().next().unwrap();
    let text = || json.as_str().unwrap().to_owned();
    match kind.as_str() {
        "S" => AttributeValue::S(text()),
        "N" => AttributeValue::N(text()),
        "M" => AttributeValue::M(item(json)),
        // The only other type in a lock item is a list.
        _ => AttributeValue::L(json.as_array().unwrap().iter().map(value).collect()),
    }
}
