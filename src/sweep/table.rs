//! Sweeps a whole table: once, or again and again for as long as the caller keeps the handle.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::background::{Job, Task};
use crate::client_state::{ClientHandle, ClientInner};
use crate::error::{Error, Invalid};
use crate::name::LockName;
use crate::store::{Failure, RetryPolicy, ScanPlace};
use fairlock_protocol::witness::Witnesses;

use super::lock::{Sweep, SweepMemory, ToRemove};
use super::report::{IdleLocks, SweepReport};

/// The shortest time between two sweeps of a whole table.
const MIN_EVERY: Duration = Duration::from_secs(1);
/// The longest time between two sweeps: no process waits longer, and the jitter of a longer time could not be counted.
const MAX_EVERY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How to sweep a table again and again.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fairlock::SweepOptions;
///
/// assert_eq!(SweepOptions::default(), SweepOptions::every(Duration::from_secs(600)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    every: Duration,
    idle_locks: IdleLocks,
}

impl Default for SweepOptions {
    /// Every ten minutes, without idle locks.
    fn default() -> Self {
        SweepOptions::every(Duration::from_secs(600))
    }
}

impl SweepOptions {
    /// Sets the time between two sweeps: at least a second, and a fifth more or less each time. More than ten years counts as ten
    /// years.
    ///
    /// # Examples
    ///
    /// ```
    /// let hourly = fairlock::SweepOptions::every(std::time::Duration::from_secs(3600));
    /// ```
    pub fn every(every: Duration) -> Self {
        SweepOptions {
            every,
            idle_locks: IdleLocks::Keep,
        }
    }

    /// Sets what a sweep does with the items of idle locks. Default: [`IdleLocks::Keep`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::{IdleLocks, SweepOptions};
    ///
    /// let without_ttl = SweepOptions::default().idle_locks(IdleLocks::Remove);
    /// ```
    #[must_use]
    pub fn idle_locks(mut self, idle_locks: IdleLocks) -> Self {
        self.idle_locks = idle_locks;
        self
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.every < MIN_EVERY {
            return Err(Invalid::TooShort {
                setting: "time between sweeps",
                value: self.every,
                bound: "each reads the whole table",
                bound_value: MIN_EVERY,
            });
        }
        Ok(())
    }
}

/// Sweeps a table again and again, until it is dropped or stopped, or the client is shut down.
///
/// # Examples
///
/// ```
/// # fn keep_tidy(locks: &fairlock::LockClient) -> Result<(), fairlock::Error> {
/// let _sweeper = locks.start_sweeper(fairlock::SweepOptions::default())?;
/// // swept until the end of this scope
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a sweeper stops when it is dropped"]
pub struct Sweeper {
    stop: CancellationToken,
    /// Cancelled by the task's end, whatever ends it.
    ended: CancellationToken,
}

impl Sweeper {
    pub(crate) fn start(inner: &Arc<ClientInner>, options: SweepOptions) -> Self {
        let sweeper = Sweeper {
            stop: inner.closed.child_token(),
            ended: CancellationToken::new(),
        };
        let job = Job {
            lock: inner.store.config().table.clone(),
            ticket: None,
            task: Task::Sweep,
        };
        let (stop, ended) = (sweeper.stop.clone(), sweeper.ended.clone().drop_guard());
        let sweeping = Arc::clone(inner);
        inner.background.spawn(job, async move {
            let _ended = ended;
            keep_sweeping(&sweeping, &options, stop).await;
            || {}
        });
        sweeper
    }

    /// Stops the sweeper, and waits until its work on the current lock has ended.
    ///
    /// # Cancel safety
    ///
    /// The first poll stops the sweeper. Dropping the future only stops the waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn stop(sweeper: fairlock::Sweeper) {
    /// sweeper.stop().await;
    /// # }
    /// ```
    pub async fn stop(self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What one sweep of a table did.
///
/// # Examples
///
/// ```
/// assert_eq!(fairlock::TableSweepReport::default().to_string(), "0 locks, 0 failed: nothing to remove");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSweepReport {
    /// Locks that the sweep visited.
    pub locks: u64,
    /// Locks among them that could not be swept to the end; the log says why.
    pub failed: u64,
    /// What the sweep removed from all of them.
    pub removed: SweepReport,
}

impl fmt::Display for TableSweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableSweepReport {
            locks,
            failed,
            removed,
        } = self;
        write!(f, "{locks} locks, {failed} failed: {removed}")
    }
}

/// Sweeps the whole table again and again. Ends when told to stop.
async fn keep_sweeping(inner: &Arc<ClientInner>, options: &SweepOptions, stop: CancellationToken) {
    let config = inner.store.config();
    let mut pass = Pass::new(Arc::clone(inner), stop.clone(), options.idle_locks);
    loop {
        let every = options.every.min(MAX_EVERY);
        let pause = every.mul_f64(config.random_source.jitter());
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = config.clock.sleep(pause) => {}
        }
        match pass.run().await {
            Ok(()) => {
                tracing::debug!(table = %config.table, swept = %pass.swept, "swept the table")
            }
            Err(failure) => {
                tracing::warn!(table = %config.table, %failure, "could not sweep the table: tries again later");
            }
        }
    }
}

/// Sweeps for as long as the caller polls, and returns what each sweep did.
pub(crate) struct Sweeps {
    client: ClientHandle,
    options: SweepOptions,
    pass: Pass,
    is_first: bool,
}

impl Sweeps {
    pub(crate) fn new(client: ClientHandle, options: SweepOptions) -> Self {
        let stop = client.closed.clone();
        Sweeps {
            pass: Pass::new(Arc::clone(&client), stop, options.idle_locks),
            client,
            options,
            is_first: true,
        }
    }

    /// Returns `None` once the client is shut down.
    pub(crate) async fn next(mut self) -> Option<(Result<TableSweepReport, Error>, Sweeps)> {
        if !std::mem::take(&mut self.is_first) {
            let config = self.client.store.config();
            let every = self.options.every.min(MAX_EVERY);
            let pause = every.mul_f64(config.random_source.jitter());
            tokio::select! {
                biased;
                () = self.client.closed.cancelled() => return None,
                () = config.clock.sleep(pause) => {}
            }
        }
        let swept = self.client.for_caller(self.pass.run()).await;
        match self.client.closed.is_cancelled() {
            true => None,
            false => Some((swept.map(|()| self.pass.swept), self)),
        }
    }
}

/// A sweep of a whole table, and what it remembers for the next.
pub(crate) struct Pass {
    inner: Arc<ClientInner>,
    policy: RetryPolicy,
    idle_locks: IdleLocks,
    /// What is remembered of the locks that left something to watch when they were last swept.
    memories: HashMap<LockName, SweepMemory>,
    pub(crate) swept: TableSweepReport,
}

impl Pass {
    pub(crate) fn new(
        inner: Arc<ClientInner>,
        stop: CancellationToken,
        idle_locks: IdleLocks,
    ) -> Self {
        Pass {
            policy: inner.policy_of_few(stop),
            inner,
            idle_locks,
            memories: HashMap::new(),
            swept: TableSweepReport::default(),
        }
    }

    /// The loop ends because each page of a scan starts behind the one before.
    pub(crate) async fn run(&mut self) -> Result<(), Failure> {
        self.swept = TableSweepReport::default();
        let mut before = std::mem::take(&mut self.memories);
        let mut from = None;
        loop {
            let (names, next) = self.scan(from).await?;
            for name in names {
                if self.policy.stop.is_cancelled() {
                    return Ok(());
                }
                let memory = before.remove(&name).unwrap_or_default();
                self.sweep(name, memory).await;
            }
            match next {
                Some(_) => from = next,
                None => return Ok(()),
            }
        }
    }

    async fn scan(
        &self,
        from: Option<ScanPlace>,
    ) -> Result<(Vec<LockName>, Option<ScanPlace>), Failure> {
        let store = &self.inner.store;
        let scan = || store.scan_locks(from.clone());
        Ok(store.retry(&self.policy, scan).await?.value)
    }

    async fn sweep(&mut self, name: LockName, mut memory: SweepMemory) {
        self.swept.locks += 1;
        let swept = self
            .inner
            .sweep(&name, &self.policy, &mut memory, self.idle_locks.into());
        match swept.await {
            Ok(swept) => self.swept.removed += swept,
            Err(failure) => {
                self.swept.failed += 1;
                tracing::warn!(lock = %name, %failure, "could not sweep a lock");
            }
        }
        if memory.watches_anything() {
            self.memories.insert(name, memory);
        }
    }
}

impl ClientInner {
    pub(crate) async fn sweep(
        self: &Arc<Self>,
        name: &LockName,
        policy: &RetryPolicy,
        memory: &mut SweepMemory,
        to_remove: ToRemove,
    ) -> Result<SweepReport, Failure> {
        let mut sweep = Sweep {
            witnesses: Witnesses::default(),
            store: &self.store,
            name: name.as_found(),
            policy,
            memory,
            to_remove,
            swept: SweepReport::default(),
        };
        // Boxed, because callers' futures would otherwise get too deep for the compiler's limits.
        if let Some(item) = Box::pin(sweep.run()).await? {
            self.saw(&sweep.name, &item);
        }
        let swept = sweep.swept;
        if !swept.is_nothing() {
            tracing::info!(lock = %name, %swept, "swept");
        }
        Ok(swept)
    }
}
