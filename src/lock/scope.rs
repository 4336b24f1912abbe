//! The life of a client as a scope: however its work ends, the client releases locks and leaves queues before the scope ends.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures::FutureExt;

use crate::lock::client::{HeldLocks, LockClient, ShutdownReport};
use crate::runtime::background::Job;

/// How long the end of a scope may take, in request time-outs: as long as a call that does not wait.
const ENDS_WITHIN: u32 = 4;

impl LockClient {
    /// Runs `work` with this client, and then shuts the client down: it releases the locks that are still held, and leaves
    /// queues, before the scope returns what the work returned. So a program may end with an error by `?` that leaves a guard
    /// alive or a place in the queue. No other process then waits for a lease because of it.
    ///
    /// The work may return, also early by `?`, or panic. The panic reaches the caller when the client is shut down. A guard that
    /// outlives the scope, in the value or in a task, is [lost](crate::LockGuard::lost) by
    /// [`LossReason::ShutDown`](crate::LossReason::ShutDown), and clones of the client refuse to acquire.
    ///
    /// The end takes at most four request time-outs, 8 s by default. The client logs a warning for each thing that is not done by
    /// then, and leaves it to the leases. A program that wants the report, or another bound, calls [`shutdown`](Self::shutdown)
    /// itself.
    ///
    /// The scope does not see an end of the process itself, by `std::process::exit` or a signal. A program that ends on a signal
    /// waits for the signal inside of the work, which then returns: see the second example.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and closes the client. The client then releases its locks and leaves its queues in the
    /// background, for as long as the runtime lives, and nothing waits for that. So put no `select!` and no time-out around a
    /// scope. If the process ends before the background is done, other processes wait for a lease, and the [client](Self) logs a
    /// warning that names the locks. [`shutdown`](Self::shutdown) of a clone waits for the background.
    ///
    /// # Panics
    ///
    /// When the work panics. When polled outside of a tokio runtime with timers, which measure the time of the end.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn settle(_: fairlock::Ticket) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn program(locks: fairlock::LockClient) -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock::RecordWait;
    ///
    /// locks.scope(async |locks| {
    ///     let guard = locks.fair_lock("account/42")?.acquire(RecordWait::default()).await?;
    ///     settle(guard.ticket()).await?; // if it fails, the scope releases the lock
    ///     guard.release().await?;
    ///     Ok(())
    /// })
    /// .await
    /// # }
    /// ```
    ///
    /// A service that ends on Ctrl-C; SIGTERM is the same with `tokio::signal::unix::signal`:
    ///
    /// ```
    /// # async fn serve(_: &fairlock::LockClient) -> Result<(), fairlock::Error> { Ok(()) }
    /// # async fn program(locks: fairlock::LockClient) -> Result<(), Box<dyn std::error::Error>> {
    /// locks.scope(async |locks| {
    ///     tokio::select! {
    ///         done = serve(locks) => Ok(done?),
    ///         signal = tokio::signal::ctrl_c() => Ok(signal?), // drops the work; the scope then gives its locks back
    ///     }
    /// })
    /// .await
    /// # }
    /// ```
    pub async fn scope<T>(self, work: impl AsyncFnOnce(&LockClient) -> T) -> T {
        let closes = Closes(&self);
        let ended = AssertUnwindSafe(work(&self)).catch_unwind().await;
        let report = self.shutdown(HeldLocks::Release, self.ends_within()).await;
        drop(closes);
        warn(self.inner.background.undone(), &report);
        match ended {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }

    fn ends_within(&self) -> Duration {
        self.inner.store.config().request_timeout * ENDS_WITHIN
    }
}

/// Closes a client whose scope is dropped.
struct Closes<'a>(&'a LockClient);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close(HeldLocks::Release);
    }
}

fn warn(undone: impl Iterator<Item = Job>, report: &ShutdownReport) {
    for job in undone {
        tracing::warn!(lock = job.lock, "not done at the end of the scope: {job}");
    }
    for (lock, ticket) in &report.held {
        tracing::warn!(lock, %ticket, "still held at the end of the scope");
    }
}
