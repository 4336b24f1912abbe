//! A lease outlives the process that took it: another process finds it by its id, extends it, does the work and releases it.
//! `cargo run --example hand_lease`
//! In production each process uses `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`.

use std::env::{args_os, current_exe};
use std::error::Error;
use std::ffi::OsStr;
use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{LockClient, LossReason, RecordWait};
use tokio::process::Command;

/// A name for one piece of work. A process that asks again under it gets the same lease.
const ID: &str = "transaction-1234";
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // If its argument is a file, this program is the second process.
    match args_os().nth(1) {
        Some(file) => second(&file).await,
        None => first().await,
    }
}

/// Both processes use the same file in place of the same table on AWS.
fn client(file: &OsStr) -> Result<LockClient, Box<dyn Error>> {
    let dynamodb = Engine::file(file)?.client();
    Ok(LockClient::builder(dynamodb).build()?)
}

async fn first() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("locks.db");
    let locks = client(file.as_os_str())?;
    locks.create_table().await?;

    let lock = locks.lease_lock("import")?;
    let lease = lock.acquire(ID, MINUTE).await?;
    println!(
        "first: takes the lease {} under token {}",
        lease.id(),
        lease.ticket()
    );
    // The lease lasts for its minute by DynamoDB's clock, even if no process runs.
    let refused = locks.fair_lock("import")?.try_acquire().await?.is_none();
    println!("first: a caller without the lease is refused: {refused}");

    let status = Command::new(current_exe()?).arg(&file).status().await?;
    if !status.success() {
        // Without this release, other callers wait until the lease expires.
        lock.release(&lease).await?;
        return Err(format!("the second process failed: {status}").into());
    }
    match lock.release(&lease).await {
        Err(fairlock::Error::Lost {
            reason: LossReason::Released,
            ..
        }) => {
            println!("first: the lease has been released");
        }
        ended => ended?,
    }
    let guard = locks
        .fair_lock("import")?
        .acquire(RecordWait::NoWait)
        .await?;
    println!("first: the lock is free for token {}", guard.ticket());
    guard.release().await?;
    Ok(())
}

async fn second(file: &OsStr) -> Result<(), Box<dyn Error>> {
    let lock = client(file)?.lease_lock("import")?;
    let Some(lease) = lock.find(ID).await? else {
        return Err(format!("the lease {ID} has expired, and the lock was taken").into());
    };
    // The work takes less time than the lease lasts, and fences its writes with `Fence::new("fence", lease.ticket())`.
    let longer = lock.extend(&lease, 2 * MINUTE).await?;
    let is_longer = lease.expires_at() < longer.expires_at();
    println!(
        "second: finds {} under token {}, longer: {is_longer}",
        longer.id(),
        longer.ticket()
    );
    lock.release(&longer).await?;
    println!("second: has done the work, and has released the lease");
    Ok(())
}
