//! fairlock itself, as a contender uses it.

use std::sync::Arc;
use std::time::Duration;

use fairlock::{FairLock, HeldLocks, LockClient, LockGuard, RecordWait};

use super::baseline::Failed;

/// How long a client's background work may take at the end. It needs a few requests only.
const TO_FINISH: Duration = Duration::from_secs(30);

pub(crate) struct Fair {
    pub(crate) locks: Arc<LockClient>,
    pub(crate) lock: FairLock,
    pub(crate) wait: RecordWait,
}

impl Fair {
    pub(crate) async fn acquire(&self) -> Result<LockGuard, Failed> {
        Ok(self.lock.acquire(self.wait).await?)
    }

    /// Shuts the client down, and returns what was not done in time. If several contenders share the client, the last of them reports.
    pub(crate) async fn finish(self) -> Vec<String> {
        let Some(locks) = Arc::into_inner(self.locks) else {
            return Vec::new();
        };
        let report = locks.shutdown(HeldLocks::Keep, TO_FINISH).await;
        let undone = report.unfinished.iter();
        undone
            .map(|job| format!("not done after {TO_FINISH:?}: {job}"))
            .collect()
    }
}
