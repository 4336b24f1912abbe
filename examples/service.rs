//! A service that ends in good order on SIGTERM or Ctrl-C: the scope releases its lock, and no other host waits for a lease.
//! `cargo run --example service`
//! In production the client is `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`.

use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{Error, LockClient, LockGuard, RecordWait, RunOutcome};
use tokio::signal::ctrl_c;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dynamodb = Engine::memory()?.client();
    let locks = LockClient::builder(dynamodb.clone())
        .owner("service")
        .build()?;
    locks.create_table().await?;

    let why = locks
        .scope(async |locks| {
            // The `select!` is inside of the scope. Around it, a signal would drop the scope before it releases the lock.
            tokio::select! {
                biased; // the handlers of signals are in place before the work begins
                signal = asked_to_stop() => Ok::<_, Box<dyn std::error::Error>>(signal?),
                ended = serve(locks) => ended.map(|()| "all batches are sent").map_err(Into::into),
            }
        })
        .await?;
    println!("the service has ended: {why}");

    // The lock is free at once: another host does not wait until the lease of 30 s expires.
    let locks = LockClient::builder(dynamodb)
        .owner("another host")
        .build()?;
    let guard = locks
        .fair_lock("mails")?
        .acquire(RecordWait::NoWait)
        .await?;
    println!("another host holds the lock under token {}", guard.ticket());
    guard.release().await?;
    Ok(())
}

/// Takes its turns until it is dropped. A true service has no last batch.
async fn serve(locks: &LockClient) -> Result<(), Error> {
    let lock = locks.fair_lock("mails")?;
    for batch in 1..=10 {
        let turn = async |guard: &LockGuard| send(batch, guard).await;
        let ran = lock.run(RecordWait::Infinite, turn).await;
        match ran.and_then(RunOutcome::into_result) {
            Ok(()) => {}
            // The batch was dropped where it stood, and the next holder sends it again.
            Err(lost @ Error::Lost { .. }) => eprintln!("{lost}"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn send(batch: u32, guard: &LockGuard) {
    println!("sends batch {batch} under token {}", guard.ticket());
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[cfg(unix)]
async fn asked_to_stop() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = ctrl_c() => pressed.map(|()| "Ctrl-C"),
        _ = terminate.recv() => Ok("SIGTERM"),
    }
}

#[cfg(not(unix))]
async fn asked_to_stop() -> std::io::Result<&'static str> {
    ctrl_c().await.map(|()| "Ctrl-C")
}
