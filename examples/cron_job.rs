//! A cron job starts on every host at the same time: one host runs it, and the others skip it without waiting.
//! `cargo run --example cron_job`
//! In production each host uses `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use fairlock::embedded::Engine;
use fairlock::{Error, LockClient, RecordWait};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dynamodb = Engine::memory()?.client();
    let locks = LockClient::builder(dynamodb.clone()).build()?;
    locks.create_table().await?;

    for night in ["2030-01-01", "2030-01-02"] {
        let hosts = ["host a", "host b", "host c"];
        let crons = hosts.map(|name| host(name, night, &dynamodb));
        for ended in futures::future::join_all(crons).await {
            ended?;
        }
        // The clock of this host is behind: when it starts the job, another host has finished it.
        host("host d", night, &dynamodb).await?;
    }
    let state = locks.fair_lock("nightly-report")?.inspect().await?;
    let (is_held, waiting) = (state.holder.is_some(), state.waiting);
    println!("both nights are done; held: {is_held}, waiting: {waiting}");
    Ok(())
}

/// What cron starts: a process that makes the report of this night unless another host does.
async fn host(name: &str, night: &str, dynamodb: &Client) -> Result<(), Error> {
    let locks = LockClient::builder(dynamodb.clone()).owner(name).build()?;
    // Whatever ends the job, the scope releases the lock before the process ends.
    locks
        .scope(async |locks| nightly_report(name, night, locks).await)
        .await
}

async fn nightly_report(name: &str, night: &str, locks: &LockClient) -> Result<(), Error> {
    let lock = locks.fair_lock("nightly-report")?;
    let guard = match lock.acquire(RecordWait::NoWait).await {
        Ok(guard) => guard,
        Err(Error::NotGranted { holder, .. }) => {
            let holder = holder.map_or("another host".to_owned(), |holder| holder.owner);
            println!("{night}: {name} skips the job, which {holder} runs");
            return Ok(());
        }
        // DynamoDB did not answer, or refused the request: cron reports that this host failed.
        Err(error) => return Err(error),
    };
    // The lock keeps out only the hosts that come meanwhile. Its data names the night that was done last.
    if guard
        .data()
        .is_some_and(|done| *done.bytes >= *night.as_bytes())
    {
        println!("{night}: {name} skips the job, which is done");
        return guard.release().await;
    }
    println!(
        "{night}: {name} runs the job under token {}",
        guard.ticket()
    );
    tokio::select! {
        lost = guard.lost() => return Err(lost.into()),
        () = report() => {}
    }
    guard.set_data(night).await?;
    guard.release().await
}

async fn report() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}
