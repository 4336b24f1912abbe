//! What a stopped process writes when it goes on: refused by a fence, lost without one.
//!
//! `cargo run --example fencing`. All in memory, on a clock that jumps, so it takes no time.

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, TransactWriteItem, Update,
};
use fairlock::embedded::{Engine, Faults, Network};
use fairlock::{Clock, LockClient, RecordWait, TableOptions};
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    let engine = Engine::memory()?.with_clock(clock.clone());
    let dynamodb = engine.client();
    create_accounts(&dynamodb).await?;
    let network_of_a = Network::to(&engine);
    let a = worker(network_of_a.client(), &clock)?;
    let b = worker(engine.client(), &clock)?;
    a.create_table(&TableOptions::default()).await?;

    let guard_of_a = a
        .fair_lock("account/42")?
        .acquire(RecordWait::Infinite)
        .await?;
    let fence_of_a = guard_of_a.fence("fence");
    fence_of_a.on(balance(&dynamodb, 100)).send().await?;
    println!(
        "A writes under token {}: the balance is 100",
        guard_of_a.ticket()
    );
    let check_of_a = guard_of_a.check_item()?;

    network_of_a.set_faults(Faults {
        lost_requests: 1.0,
        ..Faults::default()
    });
    println!("A is stopped, and nothing renews its lease");
    let stopped = Instant::now();
    let guard_of_b = b
        .fair_lock("account/42")?
        .acquire(RecordWait::Infinite)
        .await?;
    let waited = stopped.elapsed();
    println!(
        "B has the lock after {waited:.0?}, with token {}",
        guard_of_b.ticket()
    );

    // The check needs nothing in the account: it fails as soon as B has the lock.
    let update = Update::builder()
        .table_name("accounts")
        .key("id", id())
        .update_expression("SET balance = :b")
        .expression_attribute_values(":b", number(90));
    let transaction = dynamodb
        .transact_write_items()
        .transact_items(TransactWriteItem::builder().update(update.build()?).build())
        .transact_items(check_of_a);
    let refused = transaction.send().await.err();
    println!("A's transaction is refused: {}", code(refused.as_ref()));

    let fence_of_b = guard_of_b.fence("fence");
    fence_of_b.on(raise(&dynamodb)).send().await?;
    fence_of_b.on(balance(&dynamodb, 150)).send().await?;
    println!("B adds 50: the balance is {}", read(&dynamodb).await?);

    let refused = fence_of_a.on(balance(&dynamodb, 90)).send().await.err();
    println!(
        "A goes on, and its fenced write is refused: {}",
        code(refused.as_ref())
    );
    println!("The balance is {}", read(&dynamodb).await?);

    balance(&dynamodb, 90).send().await?;
    let left = read(&dynamodb).await?;
    println!("A goes on without a fence, and what B wrote is lost: the balance is {left}");
    Ok(())
}

/// A process that takes turns.
fn worker(dynamodb: Client, clock: &Clock) -> Result<LockClient, fairlock::Error> {
    let builder = LockClient::builder(dynamodb).table("locks");
    builder.clock(clock.clone()).build()
}

async fn create_accounts(dynamodb: &Client) -> Result<(), Box<dyn Error>> {
    let id = AttributeDefinition::builder().attribute_name("id");
    let key = KeySchemaElement::builder().attribute_name("id");
    let create = dynamodb
        .create_table()
        .table_name("accounts")
        .attribute_definitions(id.attribute_type(ScalarAttributeType::S).build()?)
        .key_schema(key.key_type(KeyType::Hash).build()?);
    create
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await?;
    Ok(())
}

/// An update that writes this balance; nothing fences it yet.
fn balance(dynamodb: &Client, balance: u64) -> UpdateItemFluentBuilder {
    raise(dynamodb)
        .update_expression("SET balance = :b")
        .expression_attribute_values(":b", number(balance))
}

/// An update that writes nothing by itself, and with a fence the token.
fn raise(dynamodb: &Client) -> UpdateItemFluentBuilder {
    dynamodb
        .update_item()
        .table_name("accounts")
        .key("id", id())
}

async fn read(dynamodb: &Client) -> Result<String, Box<dyn Error>> {
    let get = dynamodb.get_item().table_name("accounts").key("id", id());
    let item = get.consistent_read(true).send().await?.item;
    let balance = item.as_ref().and_then(|item| item["balance"].as_n().ok());
    Ok(balance.ok_or("no account")?.clone())
}

fn id() -> AttributeValue {
    AttributeValue::S("42".into())
}

fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// How DynamoDB calls what it refused.
fn code<E: ProvideErrorMetadata>(error: Option<&E>) -> &str {
    let code = error.and_then(|error| error.code());
    code.unwrap_or("not refused at all")
}
