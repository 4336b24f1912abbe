//! A stopped process continues, and sends a late write: a fence refuses it. Without a fence, it overwrites newer data.
//! `cargo run --example fencing`, on a clock that jumps over the lease, so it takes no time.
//! In production each process uses `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`, and no clock of its own.

use std::{error::Error, time::Duration};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, Put, ScalarAttributeType,
    TransactWriteItem,
};
use fairlock::embedded::{Engine, Faults, Network};
use fairlock::{Clock, LockClient, RecordWait};

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    let engine = Engine::memory()?.with_clock(clock.clone());
    let dynamodb = engine.client();
    let id = AttributeDefinition::builder().attribute_name("id");
    let id = id.attribute_type(ScalarAttributeType::S).build()?;
    let key = KeySchemaElement::builder().attribute_name("id");
    let key = key.key_type(KeyType::Hash).build()?;
    let new = dynamodb.create_table().table_name("accounts");
    let new = new.billing_mode(BillingMode::PayPerRequest);
    new.attribute_definitions(id).key_schema(key).send().await?;

    let network_of_a = Network::to(&engine);
    let process = |dynamodb| LockClient::builder(dynamodb).clock(clock.clone()).build();
    let (a, b) = (process(network_of_a.client())?, process(engine.client())?);
    a.create_table().await?;
    let (lock_of_a, lock_of_b) = (a.fair_lock("account/42")?, b.fair_lock("account/42")?);

    let a = lock_of_a.acquire(RecordWait::Infinite).await?;
    let (fence_of_a, check_of_a, token) = (a.fence("fence"), a.check_item()?, a.ticket());
    fence_of_a.on(balance(&dynamodb, 100)).send().await?;
    println!("A writes under token {token}: the balance is 100");

    network_of_a.set_faults(Faults {
        lost_requests: 1.0,
        ..Faults::default()
    });
    println!("A is stopped, and nothing renews its lease");
    let stopped = tokio::time::Instant::now();
    let b = lock_of_b.acquire(RecordWait::Infinite).await?;
    let (waited, token, fence_of_b) = (stopped.elapsed(), b.ticket(), b.fence("fence"));
    println!("B has the lock after {waited:.0?}, with token {token}");

    // The check needs no attribute in the account: it fails as soon as B holds the lock.
    let put = Put::builder().table_name("accounts");
    let put = put.item("id", S("42".into()));
    let put = put.item("balance", N("90".into()));
    let put = TransactWriteItem::builder().put(put.build()?).build();
    let transaction = dynamodb.transact_write_items().transact_items(put);
    let refused = transaction.transact_items(check_of_a).send().await;
    println!("A's transaction is refused: {}", code(&refused));

    // B raises the fence by a write of the token alone, before it reads and decides.
    fence_of_b.on(account(&dynamodb)).send().await?;
    let sum = read(&dynamodb).await? + 50;
    fence_of_b.on(balance(&dynamodb, sum)).send().await?;
    println!("B adds 50: the balance is {}", read(&dynamodb).await?);

    let refused = fence_of_a.on(balance(&dynamodb, 90)).send().await;
    let (code, left) = (code(&refused), read(&dynamodb).await?);
    println!("A goes on, and its fenced write is refused: {code}; the balance is {left}");
    balance(&dynamodb, 90).send().await?;
    let left = read(&dynamodb).await?;
    println!("A goes on without a fence, and what B wrote is lost: the balance is {left}");
    Ok(())
}

/// An update that writes nothing by itself. With a fence it writes the token.
fn account(dynamodb: &Client) -> UpdateItemFluentBuilder {
    let update = dynamodb.update_item().table_name("accounts");
    update.key("id", S("42".into()))
}

/// An update that writes this balance. Nothing fences it yet.
fn balance(dynamodb: &Client, balance: u64) -> UpdateItemFluentBuilder {
    let update = account(dynamodb).update_expression("SET balance = :b");
    update.expression_attribute_values(":b", N(balance.to_string()))
}

async fn read(dynamodb: &Client) -> Result<u64, Box<dyn Error>> {
    let get = dynamodb.get_item().table_name("accounts");
    let get = get.key("id", S("42".into())).consistent_read(true);
    let item = get.send().await?.item.ok_or("no account")?;
    let balance = item.get("balance").and_then(|it| it.as_n().ok());
    Ok(balance.ok_or("no balance")?.parse()?)
}

/// DynamoDB's name for the refusal.
fn code<T, E: ProvideErrorMetadata>(answer: &Result<T, E>) -> &str {
    answer.as_ref().err().and_then(E::code).unwrap_or("no")
}
