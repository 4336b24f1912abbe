//! Processes whose work runs in a scope, and ends in each way.

use std::future::pending;

use fairlock::{LockClient, LockGuard, RecordWait};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::ending::{Done, SHORT, ends};
use super::home::{lock_name, of_this_process};

/// Each begins at a free lock.
pub(crate) const ROLES: [&str; 5] = [
    "scope_returns_with_a_guard_that_lives",
    "scope_fails",
    "scope_panics",
    "scope_is_dropped_and_waited_for",
    "scope_leaves_a_task_with_a_guard",
];

async fn acquires(locks: &LockClient) -> Result<LockGuard, fairlock::Error> {
    locks
        .fair_lock(lock_name())?
        .acquire(RecordWait::Infinite)
        .await
}

/// A process that ends when this work in a scope has ended.
fn ends_after(work: impl AsyncFnOnce(&LockClient)) {
    #[tokio::main]
    async fn process(work: impl AsyncFnOnce(&LockClient)) -> Done {
        let (locks, _) = of_this_process();
        locks.scope(work).await;
        Ok(())
    }
    ends(process(work));
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn scope_returns_with_a_guard_that_lives() {
    #[tokio::main]
    async fn main() -> Done {
        let (locks, _) = of_this_process();
        let guard = locks.scope(async |locks| acquires(locks).await).await?;
        assert!(!guard.is_held());
        Ok(())
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn scope_fails() {
    #[tokio::main]
    async fn main() -> Done {
        let (locks, _) = of_this_process();
        let done: Done = locks
            .scope(async |locks| {
                let _guard = acquires(locks).await?;
                Err("the work failed")?;
                Ok(())
            })
            .await;
        done
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn scope_panics() {
    ends_after(async |locks| {
        let guard = acquires(locks).await;
        assert!(guard.is_err(), "the work panics");
    });
}

/// Dropping the future closes the client. What it leaves can still be awaited.
#[test]
#[ignore = "one of the processes of the other tests"]
fn scope_is_dropped_and_waited_for() {
    #[tokio::main]
    async fn main() -> Done {
        let (locks, lock) = of_this_process();
        let scope = locks.clone().scope(async |locks| {
            let _guard = acquires(locks).await;
            pending::<()>().await;
        });
        let dropped = timeout(SHORT * 10, scope).await;
        assert!(dropped.is_err());
        let late = lock.acquire(RecordWait::NoWait).await;
        assert!(matches!(late, Err(fairlock::Error::ShutDown(_))));
        let within = std::time::Duration::from_secs(60);
        let report = locks.shutdown(fairlock::HeldLocks::Release, within).await;
        assert!(report.unfinished.is_empty() && report.held.is_empty());
        Ok(())
    }
    ends(main());
}

/// As a `select!` around it does when a signal comes.
#[test]
#[ignore = "one of the processes of the other tests"]
fn scope_is_dropped() {
    #[tokio::main]
    async fn main() -> Done {
        let (locks, _) = of_this_process();
        let (signal, signalled) = oneshot::channel();
        let scope = locks.scope(async |locks| {
            let _guard = acquires(locks).await;
            let _ = signal.send(());
            pending::<()>().await;
        });
        tokio::select! {
            biased;
            () = scope => {}
            signalled = signalled => signalled?,
        }
        Ok(())
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn scope_is_dropped_in_a_wait() {
    #[tokio::main]
    async fn main() -> Done {
        let (locks, _) = of_this_process();
        let scope = locks.scope(async |locks| drop(acquires(locks).await));
        assert!(timeout(SHORT, scope).await.is_err());
        Ok(())
    }
    ends(main());
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn scope_leaves_a_task_with_a_guard() {
    ends_after(async |locks| {
        let guard = acquires(locks).await;
        spawns(async move {
            let _guard = guard;
            pending::<()>().await;
        });
    });
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn scope_of_a_wait() {
    #[tokio::main]
    async fn main() -> Done {
        let (locks, _) = of_this_process();
        locks
            .scope(async |locks| {
                let waits = acquires(locks);
                drop(timeout(SHORT, waits).await);
            })
            .await;
        Ok(())
    }
    ends(main());
}

#[expect(
    clippy::disallowed_methods,
    reason = "a task of the program, not of the client"
)]
fn spawns(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
