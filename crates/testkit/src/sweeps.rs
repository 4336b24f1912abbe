//! Sweeps of a table in a task of their own, until their handle is dropped.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; a caller's task, not the client's"
)]

use std::pin::pin;
use std::time::Duration;

use fairlock::LockClient;
use futures::StreamExt;
use tokio::task::JoinHandle;

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
        let sweeps = locks.sweeps(every).unwrap();
        Sweeping(tokio::spawn(async move {
            let mut sweeps = pin!(sweeps);
            // Ends with the client, or with the handle.
            while sweeps.next().await.is_some() {}
        }))
    }
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}
