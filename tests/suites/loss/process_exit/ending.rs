//! Processes that end, each as its program would with the default `#[tokio::main]`.

use std::error::Error;
use std::time::Duration;

use fairlock::{HeldLocks, LockClient, LockGuard, RecordWait};

use super::home::{of_this_process, role};
use super::scope;

pub(crate) type Done = Result<(), Box<dyn Error + Send + Sync>>;

pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// Ends the process as a `main` that has returned this.
pub(crate) fn ends(done: Done) {
    if let Err(error) = done {
        eprintln!("Error: {error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// Each process is this test in a role.
#[test]
#[ignore = "one of the processes of the other tests"]
fn plays() {
    #[tokio::main]
    async fn main() -> Done {
        let (locks, lock) = of_this_process();
        match role().as_str() {
            "times_out" => releases(lock.acquire(RecordWait::Timeout(SHORT)).await?).await,
            "does_not_wait" => releases(lock.acquire(RecordWait::NoWait).await?).await,
            "meets_a_full_queue" => {
                releases(lock.max_waiters(1).acquire(RecordWait::Infinite).await?).await
            }
            "releases" => releases(lock.acquire(RecordWait::Infinite).await?).await,
            "fails_with_a_guard" => {
                let _guard = lock.acquire(RecordWait::Infinite).await?;
                Err("the work failed")?
            }
            "drops_a_guard" => {
                drop(lock.acquire(RecordWait::Infinite).await?);
                Ok(())
            }
            "drops_a_wait" => {
                let waits = lock.acquire(RecordWait::Infinite);
                drop(tokio::time::timeout(SHORT, waits).await??);
                Ok(())
            }
            "shuts_down" => {
                let _guard = lock.acquire(RecordWait::Infinite).await?;
                leaves_nothing(&locks).await;
                Ok(())
            }
            "exits" => {
                let _guard = lock.acquire(RecordWait::Infinite).await?;
                std::process::exit(0);
            }
            scoped => scope::plays(scoped, &locks, &lock).await,
        }
    }
    ends(main());
}

async fn releases(guard: LockGuard) -> Done {
    Ok(guard.release().await?)
}

/// Shuts a client down, which leaves nothing.
pub(crate) async fn leaves_nothing(locks: &LockClient) {
    let within = Duration::from_secs(60);
    let report = locks.shutdown(HeldLocks::Release, within).await;
    assert!(report.unfinished.is_empty() && report.held.is_empty());
}
