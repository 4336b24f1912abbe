//! Hosts move money between accounts, each under the locks of both. In whatever order they name them, they do not deadlock.
//! `cargo run --example transfer`
//! In production each host uses `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`.

use std::{error::Error, time::Duration};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, Put, ReturnValue,
    ScalarAttributeType, TransactWriteItem,
};
use fairlock::embedded::Engine;
use fairlock::{Fence, LockClient, MultiLockGuard, RecordWait};

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Order = (&'static str, &'static str, i64); // from, to, and how much

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done<()> {
    let bank = Engine::memory()?.client();
    create_accounts(&bank).await?;
    let host = || LockClient::builder(bank.clone()).build();
    let hosts = [host()?, host()?, host()?];
    hosts[0].create_table().await?;

    let ended = tokio::join!(
        transfer(("anna", "bert", 60), &hosts[0], &bank),
        transfer(("bert", "anna", 30), &hosts[1], &bank),
        transfer(("carl", "anna", 500), &hosts[2], &bank),
    );
    ended.0.and(ended.1).and(ended.2)?;

    // Without waiting: every host has released its locks.
    let all = hosts[0].multi_lock(["anna", "bert", "carl"])?;
    let guard = all.acquire(RecordWait::NoWait).await?;
    for account in all.names() {
        let balance = raise(account, &guard, &bank).await?;
        println!("in the end {account} has {balance}");
    }
    Ok(guard.release().await?)
}

async fn transfer(order: Order, locks: &LockClient, bank: &Client) -> Done<()> {
    let wait = RecordWait::Timeout(Duration::from_secs(60));
    let pay = async |guard: &MultiLockGuard| pay(order, guard, bank).await;
    // If a lock is lost, the work is dropped where it stands, and `Error::Lost` names the lock.
    let both = locks.multi_lock([order.0, order.1])?;
    both.run(wait, pay).await?.into_result()?
}

async fn pay((from, to, amount): Order, guard: &MultiLockGuard, bank: &Client) -> Done<()> {
    let rest = raise(from, guard, bank).await? - amount;
    let sum = raise(to, guard, bank).await? + amount;
    if rest < 0 {
        println!("{from} cannot pay {amount} to {to}");
        return Ok(());
    }
    let mut both = bank.transact_write_items();
    for (account, balance) in [(from, rest), (to, sum)] {
        let put = Put::builder().table_name("accounts");
        let put = put.item("id", S(account.into()));
        let put = put.item("balance", N(balance.to_string()));
        let put = fence(account, guard)?.on(put).build()?;
        both = both.transact_items(TransactWriteItem::builder().put(put).build());
    }
    both.send().await?;
    let (one, other) = (fence(from, guard)?.ticket(), fence(to, guard)?.ticket());
    println!("{from} pays {amount} to {to}, under tokens {one} and {other}");
    Ok(())
}

/// Each account has a lock of its name, and remembers the newest token of that lock.
fn fence(account: &str, guard: &MultiLockGuard) -> Done<Fence> {
    let ticket = guard.ticket(account).ok_or("the account is not locked")?;
    Ok(Fence::new("fence", ticket))
}

/// Raises the fence and reads the balance in one request: DynamoDB refuses what a stale host writes after that.
async fn raise(account: &str, guard: &MultiLockGuard, bank: &Client) -> Done<i64> {
    let update = bank.update_item().table_name("accounts");
    let update = update.key("id", S(account.into()));
    let update = update.return_values(ReturnValue::AllNew);
    let update = fence(account, guard)?.on(update);
    let account = update.send().await?.attributes.unwrap_or_default();
    let balance = account.get("balance").and_then(|it| it.as_n().ok());
    Ok(balance.map_or(Ok(100), |it| it.parse())?) // a new account has 100
}

async fn create_accounts(bank: &Client) -> Done<()> {
    let id = AttributeDefinition::builder().attribute_name("id");
    let id = id.attribute_type(ScalarAttributeType::S).build()?;
    let key = KeySchemaElement::builder().attribute_name("id");
    let key = key.key_type(KeyType::Hash).build()?;
    let new = bank.create_table().table_name("accounts");
    let new = new.billing_mode(BillingMode::PayPerRequest);
    new.attribute_definitions(id).key_schema(key).send().await?;
    Ok(())
}
