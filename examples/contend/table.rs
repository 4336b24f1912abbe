//! The table of locks, there before the first worker asks for it.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification, TimeToLiveStatus,
};

use crate::failure::Failure;

const LOOKS: u32 = 120;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
const TTL: &str = "expires_at";

/// Makes the table if it is not there, and waits until it can be used. Others may do the same at the same time.
pub(crate) async fn ensure(client: &Client, table: &str) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        match status(client, table).await? {
            Some(TableStatus::Active | TableStatus::Updating) => {
                return switch_on_ttl(client, table).await;
            }
            Some(_) => tokio::time::sleep(BETWEEN_LOOKS).await,
            None => create(client, table).await?,
        }
    }
    Err(Failure::Run(format!(
        "the table {table} does not become active"
    )))
}

async fn status(client: &Client, table: &str) -> Result<Option<TableStatus>, Failure> {
    match client.describe_table().table_name(table).send().await {
        Ok(answer) => Ok(answer.table.and_then(|table| table.table_status)),
        Err(error) if is(&error, |error| error.is_resource_not_found_exception()) => Ok(None),
        Err(error) => Err(Failure::run("cannot describe the table", error)),
    }
}

async fn create(client: &Client, table: &str) -> Result<(), Failure> {
    let malformed = |error: BuildError| Failure::run("cannot create the table", error);
    let request = client.create_table().table_name(table);
    let request = request
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(text("pk").map_err(malformed)?)
        .attribute_definitions(text("sk").map_err(malformed)?)
        .key_schema(key("pk", KeyType::Hash).map_err(malformed)?)
        .key_schema(key("sk", KeyType::Range).map_err(malformed)?);
    match request.send().await {
        Ok(_) => Ok(()),
        // Somebody else was faster.
        Err(error) if is(&error, |error| error.is_resource_in_use_exception()) => Ok(()),
        Err(error) => Err(Failure::run("cannot create the table", error)),
    }
}

fn text(name: &str) -> Result<AttributeDefinition, BuildError> {
    let text = AttributeDefinition::builder().attribute_name(name);
    text.attribute_type(ScalarAttributeType::S).build()
}

fn key(name: &str, kind: KeyType) -> Result<KeySchemaElement, BuildError> {
    let key = KeySchemaElement::builder().attribute_name(name);
    key.key_type(kind).build()
}

async fn switch_on_ttl(client: &Client, table: &str) -> Result<(), Failure> {
    if has_ttl(client, table).await? {
        return Ok(());
    }
    let ttl = TimeToLiveSpecification::builder().enabled(true);
    let ttl = ttl.attribute_name(TTL).build();
    let ttl = ttl.map_err(|error| Failure::run("cannot switch on TTL", error))?;
    let request = client.update_time_to_live().table_name(table);
    match request.time_to_live_specification(ttl).send().await {
        Ok(_) => Ok(()),
        // Switched on twice is an error, of whoever came second.
        Err(_) if has_ttl(client, table).await? => Ok(()),
        Err(error) => Err(Failure::run("cannot switch on TTL", error)),
    }
}

async fn has_ttl(client: &Client, table: &str) -> Result<bool, Failure> {
    let answer = client
        .describe_time_to_live()
        .table_name(table)
        .send()
        .await;
    let answer = answer.map_err(|error| Failure::run("cannot describe TTL", error))?;
    let status = answer
        .time_to_live_description
        .and_then(|ttl| ttl.time_to_live_status);
    Ok(matches!(
        status,
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
    ))
}

fn is<E, R>(error: &SdkError<E, R>, kind: impl Fn(&E) -> bool) -> bool {
    error.as_service_error().is_some_and(kind)
}
