//! Three workers take the files of one folder in turn, and write each result under a fence that refuses a stale worker.
//! `cargo run --example batch_workers`
//! In production each worker is a process, with `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`.

use std::error::Error;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types as dynamo;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::Engine;
use fairlock::{LockClient, LockGuard, RecordWait, RunOutcome};

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done<()> {
    let folder = tempfile::tempdir()?;
    for n in 1..=6 {
        fs::write(folder.path().join(format!("{n:03}.txt")), "word ".repeat(n))?;
    }
    let dynamodb = Engine::memory()?.client();
    create_results(&dynamodb).await?;
    let locks = LockClient::builder(dynamodb.clone()).build()?;
    locks.create_table().await?;

    let workers = (1..=3).map(|number| worker(number, &dynamodb, folder.path()));
    // `try_join_all` would drop the other workers in the middle of their turns if one of them fails.
    for ended in futures::future::join_all(workers).await {
        ended?;
    }
    let left = locks.fair_lock("inbox")?.inspect().await?;
    let (is_held, waiting) = (left.holder.is_some(), left.waiting);
    println!("the folder is empty; held: {is_held}, waiting: {waiting}");
    Ok(())
}

/// A worker's process, which ends when the folder is empty.
async fn worker(number: u32, dynamodb: &Client, folder: &Path) -> Done<()> {
    let name = format!("worker {number}");
    let work = async |locks: &LockClient| {
        let lock = locks.fair_lock("inbox")?;
        loop {
            let wait = RecordWait::Timeout(Duration::from_secs(60));
            let turn = async |guard: &LockGuard| turn(&name, guard, dynamodb, folder).await;
            match lock.run(wait, turn).await.and_then(RunOutcome::into_result) {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                // The turn was dropped where it stood, and the next holder does the file again.
                Err(lost @ fairlock::Error::Lost { .. }) => eprintln!("{name}: {lost}"),
                Err(error) => return Err(error.into()),
            }
        }
    };
    let locks = LockClient::builder(dynamodb.clone()).owner(&name).build()?;
    locks.scope(work).await
}

/// Does the next file, or leaves it to the next holder. Returns `false` if there is none.
async fn turn(name: &str, guard: &LockGuard, dynamodb: &Client, folder: &Path) -> Done<bool> {
    let files = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    // The first by name, so numbers in names have zeros before them.
    let Some(file) = files.collect::<io::Result<Vec<_>>>()?.into_iter().min() else {
        return Ok(false);
    };
    let words = fs::read_to_string(&file)?.split_whitespace().count();
    tokio::time::sleep(Duration::from_millis(10)).await; // the work takes its time
    let id = file.file_name().unwrap_or_default().to_string_lossy();
    let put = dynamodb.put_item().table_name("results");
    let put = put.item("id", AttributeValue::S(id.to_string()));
    let put = put.item("words", AttributeValue::N(words.to_string()));
    let written = guard.fence("fence").on(put).send().await;
    match written.map_err(SdkError::into_service_error) {
        // A worker with a newer token has written the result: this one has lost the lock, and may not know it yet.
        Err(PutItemError::ConditionalCheckFailedException(_)) => return Ok(true),
        written => drop(written?),
    }
    fs::remove_file(&file)?;
    let token = guard.ticket();
    println!("{name} counts {words} words in {id} under token {token}");
    Ok(true)
}

async fn create_results(dynamodb: &Client) -> Done<()> {
    let id = dynamo::AttributeDefinition::builder().attribute_name("id");
    let id = id.attribute_type(dynamo::ScalarAttributeType::S).build()?;
    let key = dynamo::KeySchemaElement::builder().attribute_name("id");
    let key = key.key_type(dynamo::KeyType::Hash).build()?;
    let new = dynamodb.create_table().table_name("results");
    let new = new.billing_mode(dynamo::BillingMode::PayPerRequest);
    new.attribute_definitions(id).key_schema(key).send().await?;
    Ok(())
}
