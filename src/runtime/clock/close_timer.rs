//! Alarms that are on time to a tenth of a millisecond, where the runtime's timer may be late by two milliseconds.
//!
//! The process has one thread for all of them. It starts with the first alarm, and ends when none was set for a while. A sleeper must not
//! count on its alarm: a process that may start no thread has none.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// For how long the thread stays without an alarm.
const IDLE: Duration = Duration::from_secs(10);

struct CloseTimer {
    alarms: Mutex<Alarms>,
    /// An alarm was set.
    set: Condvar,
}

struct Alarms {
    /// By their time, and by their number.
    pending: BTreeMap<(Instant, u64), oneshot::Sender<()>>,
    count: u64,
    /// The thread runs.
    is_kept: bool,
}

static TIMER: CloseTimer = CloseTimer {
    alarms: Mutex::new(Alarms {
        pending: BTreeMap::new(),
        count: 0,
        is_kept: false,
    }),
    set: Condvar::new(),
};

/// An alarm after `span`. The channel is closed without a message if there can be none.
pub(super) fn alarm(span: Duration) -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    let mut alarms = TIMER.locked();
    alarms.count += 1;
    let key = (now() + span, alarms.count);
    alarms.pending.insert(key, tell);
    if !alarms.is_kept {
        let thread = Builder::new().name("fairlock timer".to_owned());
        alarms.is_kept = thread.spawn(|| TIMER.keep()).is_ok();
    }
    if !alarms.is_kept {
        alarms.pending.clear();
    }
    drop(alarms);
    TIMER.set.notify_one();
    told
}

impl CloseTimer {
    fn locked(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread. Each pass of the loop tells one alarm, or waits for the next one.
    fn keep(&self) {
        let mut alarms = self.locked();
        loop {
            let next = alarms.pending.keys().next().map(|(at, _)| *at);
            let left = next.map_or(IDLE, |at| at.saturating_duration_since(now()));
            if left.is_zero() {
                let next = alarms.pending.pop_first();
                drop(alarms);
                // The sleeper may have gone. If waking it panics, the thread stays for the others.
                let _ = catch_unwind(AssertUnwindSafe(|| next.map(|(_, tell)| tell.send(()))));
                alarms = self.locked();
                continue;
            }
            let waited = self.set.wait_timeout(alarms, left);
            let (still, ended) = waited.unwrap_or_else(PoisonError::into_inner);
            alarms = still;
            if ended.timed_out() && alarms.pending.is_empty() {
                alarms.is_kept = false;
                return;
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an alarm is set and told by the same clock, within milliseconds"
)]
fn now() -> Instant {
    Instant::now()
}
