//! Sweeps of a table: one, or as many as come in a task of their own until its handle is dropped.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; a caller's task, not the client's"
)]

use std::time::Duration;

use fairlock::{Error, LockClient, TableSweepReport};
use futures::StreamExt;
use tokio::task::JoinHandle;

/// Sweeps a table once.
///
/// # Errors
///
/// As the stream returns them.
///
/// # Panics
///
/// If the client is shut down.
pub async fn sweep_table(locks: &LockClient) -> Result<TableSweepReport, Error> {
    locks.sweeps(Duration::MAX)?.next().await.unwrap()
}

/// Sweeps a table again and again. Dropping it stops the sweeps.
#[derive(Debug)]
pub struct Sweeping(JoinHandle<()>);

impl Sweeping {
    /// Begins to sweep.
    ///
    /// # Panics
    ///
    /// If the time between two sweeps is refused.
    pub fn of(locks: &LockClient, every: Duration) -> Self {
        let mut sweeps = locks.sweeps(every).unwrap();
        // Ends with the client, or with the handle.
        Sweeping(tokio::spawn(async move {
            while sweeps.next().await.is_some() {}
        }))
    }
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}
