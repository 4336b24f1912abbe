//! Processes whose work runs in a scope, and ends in each way.

use std::future::pending;

use fairlock::{Error, FairLock, LockClient, LockGuard, RecordWait};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::ending::{Done, SHORT, leaves_nothing};
use super::home::lock_name;

/// Each begins at a free lock.
pub(crate) const ROLES: [&str; 5] = [
    "scope_returns_with_a_guard_that_lives",
    "scope_fails",
    "scope_panics",
    "scope_is_dropped_and_waited_for",
    "scope_leaves_a_task_with_a_guard",
];

async fn acquires(locks: &LockClient) -> Result<LockGuard, Error> {
    locks
        .fair_lock(lock_name())?
        .acquire(RecordWait::Infinite)
        .await
}

/// Work in a scope that ends as the role says. The process ends after it.
pub(crate) async fn plays(role: &str, locks: &LockClient, lock: &FairLock) -> Done {
    let shared = locks.clone();
    match role {
        "scope_returns_with_a_guard_that_lives" => {
            let guard = shared.scope(async |locks| acquires(locks).await).await?;
            assert!(!guard.is_held());
        }
        "scope_fails" => {
            let fails = async |locks: &LockClient| {
                let _guard = acquires(locks).await?;
                Err("the work failed")?;
                Ok(())
            };
            return shared.scope(fails).await;
        }
        "scope_panics" => {
            let panics = async |locks: &LockClient| {
                let guard = acquires(locks).await;
                assert!(guard.is_err(), "the work panics");
            };
            shared.scope(panics).await;
        }
        // Dropping the future closes the client. What it leaves can still be awaited.
        "scope_is_dropped_and_waited_for" => {
            let stays = async |locks: &LockClient| {
                let _guard = acquires(locks).await;
                pending::<()>().await;
            };
            assert!(timeout(SHORT * 10, shared.scope(stays)).await.is_err());
            let late = lock.acquire(RecordWait::NoWait).await;
            assert!(matches!(late, Err(Error::ShutDown(_))));
            leaves_nothing(locks).await;
        }
        // As a `select!` around it does when a signal comes.
        "scope_is_dropped" => {
            let (signal, signalled) = oneshot::channel();
            let scope = shared.scope(async |locks| {
                let _guard = acquires(locks).await;
                let _ = signal.send(());
                pending::<()>().await;
            });
            tokio::select! {
                biased;
                () = scope => {}
                signalled = signalled => signalled?,
            }
        }
        "scope_is_dropped_in_a_wait" => {
            let scope = shared.scope(async |locks| drop(acquires(locks).await));
            assert!(timeout(SHORT, scope).await.is_err());
        }
        "scope_leaves_a_task_with_a_guard" => {
            let leaves = async |locks: &LockClient| {
                let guard = acquires(locks).await;
                spawns(async move {
                    let _guard = guard;
                    pending::<()>().await;
                });
            };
            shared.scope(leaves).await;
        }
        "scope_of_a_wait" => {
            let waits = async |locks: &LockClient| drop(timeout(SHORT, acquires(locks)).await);
            shared.scope(waits).await;
        }
        other => unreachable!("{other}"),
    }
    Ok(())
}

fn spawns(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
