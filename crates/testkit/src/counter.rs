//! What the tests of the engine and its network do with a table: they count one counter up, on conditions.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::HashMap;
use std::time::Duration;

use crate::keyed_tables;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValuesOnConditionCheckFailure, TimeToLiveSpecification,
};
use fairlock::embedded::{Engine, Fault, Network};

/// A write that was refused.
pub type Refused = Box<SdkError<UpdateItemError>>;

const SECOND: Duration = Duration::from_secs(1);

/// A string, as the SDK has it.
pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// A number, as the SDK has it.
pub fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Makes the table of things.
pub async fn create_table(client: &Client) {
    keyed_tables::create_table(client, "things", &keyed_tables::OF_LOCKS).await;
}

/// From then on the engine deletes expired items when it is told to.
pub async fn switch_on_ttl(client: &Client) {
    let ttl = TimeToLiveSpecification::builder()
        .enabled(true)
        .attribute_name("expires_at")
        .build();
    let request = client.update_time_to_live().table_name("things");
    let request = request.time_to_live_specification(ttl.unwrap());
    request.send().await.unwrap();
}

/// A table in memory.
pub async fn engine() -> Engine {
    let engine = Engine::memory().unwrap();
    create_table(&engine.client()).await;
    engine
}

/// A client that tries once.
pub fn once(network: &Network) -> Client {
    let config = network.client().config().to_builder();
    let config = config.retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

/// A client that tries once and waits two seconds.
pub fn with_short_timeout(network: &Network) -> Client {
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(2 * SECOND);
    let config = once(network).config().to_builder();
    Client::from_conf(config.timeout_config(timeouts.build()).build())
}

/// Lets the first request (after those that made the table) meet this fault, and no other request.
pub fn first(engine: &Engine, fault: Fault) -> Network {
    Network::to(engine).script(move |request| (request.number() == 1).then(|| fault.clone()))
}

/// Counts up from `seen`, or makes the counter.
pub async fn count_up(client: &Client, seen: u64) -> Result<(), Refused> {
    let request = client.update_item().table_name("things");
    let request = request.key("pk", text("counter")).key("sk", text("-"));
    let request = request.update_expression("SET n = :next");
    let request =
        request.condition_expression("n = :seen OR (attribute_not_exists(n) AND :seen = :zero)");
    let request = request.expression_attribute_values(":seen", number(seen));
    let request = request.expression_attribute_values(":next", number(seen + 1));
    let request = request.expression_attribute_values(":zero", number(0));
    let shows = ReturnValuesOnConditionCheckFailure::AllOld;
    let request = request.return_values_on_condition_check_failure(shows);
    request.send().await.map(|_| ()).map_err(Box::new)
}

/// Counts up by one, whatever the count.
pub async fn add_one(client: &Client) -> Result<(), Refused> {
    let request = client.update_item().table_name("things");
    let request = request.key("pk", text("counter")).key("sk", text("-"));
    let request = request.update_expression("ADD n :one");
    let request = request.expression_attribute_values(":one", number(1));
    request.send().await.map(|_| ()).map_err(Box::new)
}

/// Where the counter stands, read past all faults.
pub async fn counted(engine: &Engine) -> u64 {
    let request = engine.client().get_item().table_name("things");
    let request = request.key("pk", text("counter")).key("sk", text("-"));
    let request = request.consistent_read(true);
    let item = request.send().await.unwrap().item;
    item.map_or(0, |item| n_of(&item))
}

/// The count of an item.
pub fn n_of(item: &HashMap<String, AttributeValue>) -> u64 {
    item["n"].as_n().unwrap().parse().unwrap()
}

/// What the engine shows of the item whose condition failed.
pub fn shown(refused: &Refused) -> Option<HashMap<String, AttributeValue>> {
    match refused.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(failed)) => failed.item().cloned(),
        other => panic!("not a failed condition: {other:?}"),
    }
}

/// The HTTP status of a refusal.
pub fn status(refused: &Refused) -> u16 {
    refused.raw_response().expect("an answer").status().as_u16()
}

/// Whether the request failed as over a connection that broke.
pub fn is_broken(refused: &Refused) -> bool {
    matches!(&**refused, SdkError::DispatchFailure(failure) if failure.is_io())
}

/// Whether the request failed as over a connection that the server closed without an answer.
pub fn is_closed(refused: &Refused) -> bool {
    matches!(&**refused, SdkError::DispatchFailure(failure) if !failure.is_io() && !failure.is_timeout())
}

/// Whether the request failed because no answer came in time.
pub fn is_timed_out(refused: &Refused) -> bool {
    matches!(&**refused, SdkError::TimeoutError(_))
}

/// Puts an item that expires at that time, in seconds since 1970.
pub async fn put_expiring(client: &Client, name: &str, at: u64) {
    let request = client.put_item().table_name("things");
    let request = request.item("pk", text(name)).item("sk", text("-"));
    let request = request.item("expires_at", number(at));
    request.send().await.unwrap();
}

/// The partition keys of all items, in their order.
pub async fn names(client: &Client) -> Vec<String> {
    let items = client.scan().table_name("things").send().await.unwrap();
    let name = |item: &HashMap<String, AttributeValue>| item["pk"].as_s().unwrap().clone();
    let mut names: Vec<_> = items.items().iter().map(name).collect();
    names.sort();
    names
}
