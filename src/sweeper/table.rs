//! Sweeps a whole table, again and again for as long as the caller polls.

use std::collections::HashMap;
use std::time::Duration;

use crate::agent::client_state::ClientHandle;
use crate::vocabulary::config;
use crate::vocabulary::error::{Error, Invalid};
use crate::vocabulary::name::LockName;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::judge::Judge;

use super::lock::ToRemove;
use super::report::TableSweepReport;

/// The shortest time between two sweeps of a whole table.
const MIN_EVERY: Duration = Duration::from_secs(1);
/// The longest time between two sweeps: no process waits longer, and the jitter of a longer time could not be counted.
const MAX_EVERY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Sweeps the table whenever it is polled for the next report.
pub(crate) struct Sweeper {
    client: ClientHandle,
    every: Duration,
    is_first: bool,
    /// What is remembered of the locks that left something to watch when they were last swept.
    judges: HashMap<LockName, Judge>,
}

impl Sweeper {
    pub(crate) fn new(client: ClientHandle, every: Duration) -> Result<Self, Invalid> {
        let bound = "each reads the whole table";
        config::at_least("time between sweeps", every, bound, MIN_EVERY)?;
        Ok(Sweeper {
            client,
            every: every.min(MAX_EVERY),
            is_first: true,
            judges: HashMap::new(),
        })
    }

    /// Returns `None` once the client is shut down.
    pub(crate) async fn next(mut self) -> Option<(Result<TableSweepReport, Error>, Sweeper)> {
        let client = self.client.clone();
        if !std::mem::take(&mut self.is_first) {
            let config = client.store.config();
            let pause = self.every.mul_f64(config.random_source.jitter());
            tokio::select! {
                biased;
                () = client.closed.cancelled() => return None,
                () = config.clock.sleep(pause) => {}
            }
        }
        let swept = client.for_caller(self.sweep()).await;
        (!client.closed.is_cancelled()).then_some((swept, self))
    }

    /// The loop ends because each page of a scan starts behind the one before.
    async fn sweep(&mut self) -> Result<TableSweepReport, Failure> {
        let requests = &self.client.requests;
        let policy = self.client.policy_of_few(self.client.closed.clone());
        let mut swept = TableSweepReport::default();
        let mut before = std::mem::take(&mut self.judges);
        let mut from = None;
        loop {
            let scan = || requests.store.scan_locks(from.clone());
            let (names, next) = requests.retry(&policy, scan).await?.value;
            for name in names {
                if policy.stop.is_cancelled() {
                    return Ok(swept);
                }
                let mut judge = before.remove(&name).unwrap_or_default();
                let one = self.client.sweep(&name, &mut judge, ToRemove::OutOfUse);
                let one = one.await.inspect_err(
                    |failure| tracing::warn!(lock = %name, %failure, "could not sweep a lock"),
                );
                swept.add(one.ok());
                if judge.watches_anything() {
                    self.judges.insert(name, judge);
                }
            }
            if next.is_none() {
                return Ok(swept);
            }
            from = next;
        }
    }
}
