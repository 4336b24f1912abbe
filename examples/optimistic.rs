//! Seven hosts take goods from one item without a lock: each write applies only if the item is as the host read it.
//! `cargo run --example optimistic`
//! In production each host uses `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`.

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use fairlock::embedded::{Engine, Faults, Latency, Network};
use fairlock::{Change, Item, UpdateError, UpdateOutcome, VersionedTable};

/// Why a host changes nothing.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0} are left")]
    TooFew(u64),
    #[error("the item has no number of goods")]
    Damaged,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Each request takes 5 ms, so that the hosts meet: in memory, each is done before the next begins.
    let dynamodb = Network::to(&Engine::memory()?).faults(Faults {
        round_trip: Latency::Constant(Duration::from_millis(5)),
        ..Faults::default()
    });
    let dynamodb = dynamodb.client();
    create_stock(&dynamodb).await?;
    let stock = VersionedTable::new(dynamodb, "stock")?;
    let full = |_| Ok::<_, Refused>(Change::Put(with(Item::new(), 12)));
    let first = stock.update(key(), full).await?.version;
    println!("12 goods are there at {first}");

    let hosts = (1..=7).map(|host| take(host, 2, &stock));
    for ended in futures::future::join_all(hosts).await {
        ended?;
    }
    let keep = |_| Ok::<_, Refused>(Change::Keep);
    let read = stock.update(key(), keep).await?;
    let (version, item) = (read.version, read.item.unwrap_or_default());
    println!("{} are left at {version}", left(&item)?);
    Ok(())
}

/// Takes `goods` at once, or none of them.
async fn take(host: u32, goods: u64, stock: &VersionedTable) -> Result<(), Box<dyn Error>> {
    // `update` may call it several times, so it has no effect of its own.
    let decide = |item: Option<Item>| {
        let item = item.unwrap_or_default();
        let left = left(&item)?;
        let rest = left.checked_sub(goods).ok_or(Refused::TooFew(left))?;
        Ok::<_, Refused>(Change::Put(with(item, rest)))
    };
    match stock.update(key(), decide).await {
        Ok(UpdateOutcome {
            version, attempts, ..
        }) => println!("host {host} takes {goods} at {version}, after {attempts} attempts"),
        Err(UpdateError::Caller(refused)) => println!("host {host} takes none: {refused}"),
        // Other hosts were faster in every attempt, and nothing was written. Try again later, or take a lock first.
        Err(error @ UpdateError::Conflict { .. }) => println!("host {host} takes none: {error}"),
        // After `OutcomeUnknown` the goods may be taken: read the item before you take them again.
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn key() -> [(&'static str, AttributeValue); 1] {
    [("id", AttributeValue::S("chair".into()))]
}

fn with(mut item: Item, left: u64) -> Item {
    item.insert("left".into(), AttributeValue::N(left.to_string()));
    item
}

fn left(item: &Item) -> Result<u64, Refused> {
    let left = item.get("left").and_then(|it| it.as_n().ok()?.parse().ok());
    left.ok_or(Refused::Damaged)
}

async fn create_stock(dynamodb: &Client) -> Result<(), Box<dyn Error>> {
    let id = AttributeDefinition::builder().attribute_name("id");
    let id = id.attribute_type(ScalarAttributeType::S).build()?;
    let key = KeySchemaElement::builder().attribute_name("id");
    let key = key.key_type(KeyType::Hash).build()?;
    let new = dynamodb.create_table().table_name("stock");
    let new = new.billing_mode(BillingMode::PayPerRequest);
    new.attribute_definitions(id).key_schema(key).send().await?;
    Ok(())
}
