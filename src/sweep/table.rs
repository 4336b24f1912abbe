//! Sweeps a whole table: once, or again and again for as long as the caller polls.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client_state::{ClientHandle, ClientInner};
use crate::config;
use crate::error::{Error, Invalid};
use crate::name::LockName;
use crate::requests::RetryPolicy;
use crate::store::ScanPlace;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::witness::Witnesses;

use super::lock::{Sweep, SweepMemory, ToRemove};
use super::report::SweepReport;

/// The shortest time between two sweeps of a whole table.
const MIN_EVERY: Duration = Duration::from_secs(1);
/// The longest time between two sweeps: no process waits longer, and the jitter of a longer time could not be counted.
const MAX_EVERY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

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

/// Sweeps for as long as the caller polls, and returns what each sweep did.
pub(crate) struct Sweeps {
    client: ClientHandle,
    every: Duration,
    pass: Pass,
    is_first: bool,
}

impl Sweeps {
    pub(crate) fn new(client: ClientHandle, every: Duration) -> Result<Self, Invalid> {
        let bound = "each reads the whole table";
        config::at_least("time between sweeps", every, bound, MIN_EVERY)?;
        Ok(Sweeps {
            pass: Pass::new(Arc::clone(&client)),
            client,
            every: every.min(MAX_EVERY),
            is_first: true,
        })
    }

    /// Returns `None` once the client is shut down.
    pub(crate) async fn next(mut self) -> Option<(Result<TableSweepReport, Error>, Sweeps)> {
        if !std::mem::take(&mut self.is_first) {
            let config = self.client.store.config();
            let pause = self.every.mul_f64(config.random_source.jitter());
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
    /// What is remembered of the locks that left something to watch when they were last swept.
    memories: HashMap<LockName, SweepMemory>,
    pub(crate) swept: TableSweepReport,
}

impl Pass {
    pub(crate) fn new(inner: Arc<ClientInner>) -> Self {
        Pass {
            policy: inner.policy_of_few(inner.closed.clone()),
            inner,
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
        let requests = &self.inner.requests;
        let scan = || requests.store.scan_locks(from.clone());
        Ok(requests.retry(&self.policy, scan).await?.value)
    }

    async fn sweep(&mut self, name: LockName, mut memory: SweepMemory) {
        self.swept.locks += 1;
        let swept = self
            .inner
            .sweep(&name, &self.policy, &mut memory, ToRemove::OutOfUse);
        match swept.await {
            Ok(swept) => self.swept.removed.add(swept),
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
            requests: &self.requests,
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
