//! Processes that end, each as its program would with the default `#[tokio::main]`.

use std::error::Error;
use std::time::Duration;

use fairlock::{HeldLocks, RecordWait};

use super::home::of_this_process;

pub(crate) type Done = Result<(), Box<dyn Error>>;

pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// Ends the process as a `main` that has returned this.
pub(crate) fn ends(done: Done) {
    if let Err(error) = done {
        eprintln!("Error: {error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn times_out() {
    #[tokio::main]
    async fn main() -> Done {
        let (_locks, lock) = of_this_process();
        let guard = lock.acquire(RecordWait::Timeout(SHORT)).await?;
        Ok(guard.release().await?)
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn does_not_wait() {
    #[tokio::main]
    async fn main() -> Done {
        let (_locks, lock) = of_this_process();
        let guard = lock.acquire(RecordWait::NoWait).await?;
        Ok(guard.release().await?)
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn meets_a_full_queue() {
    #[tokio::main]
    async fn main() -> Done {
        let (_locks, lock) = of_this_process();
        let guard = lock.max_waiters(1).acquire(RecordWait::Infinite).await?;
        Ok(guard.release().await?)
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn fails_with_a_guard() {
    #[tokio::main]
    async fn main() -> Done {
        let (_locks, lock) = of_this_process();
        let _guard = lock.acquire(RecordWait::Infinite).await?;
        Err("the work failed")?;
        Ok(())
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn drops_a_guard() {
    #[tokio::main]
    async fn main() -> Done {
        let (_locks, lock) = of_this_process();
        drop(lock.acquire(RecordWait::Infinite).await?);
        Ok(())
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn drops_a_wait() {
    #[tokio::main]
    async fn main() -> Done {
        let (_locks, lock) = of_this_process();
        drop(tokio::time::timeout(SHORT, lock.acquire(RecordWait::Infinite)).await??);
        Ok(())
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn releases() {
    #[tokio::main]
    async fn main() -> Done {
        let (_locks, lock) = of_this_process();
        let guard = lock.acquire(RecordWait::Infinite).await?;
        Ok(guard.release().await?)
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn shuts_down() {
    #[tokio::main]
    async fn main() -> Done {
        let (locks, lock) = of_this_process();
        let guard = lock.acquire(RecordWait::Infinite).await?;
        let report = locks
            .shutdown(HeldLocks::Release, Duration::from_secs(60))
            .await;
        assert!(report.unfinished.is_empty() && report.held.is_empty());
        drop(guard);
        Ok(())
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn exits() {
    #[tokio::main]
    async fn main() {
        let (_locks, lock) = of_this_process();
        let _guard = lock.acquire(RecordWait::Infinite).await.unwrap();
        std::process::exit(0);
    }
    main();
}
