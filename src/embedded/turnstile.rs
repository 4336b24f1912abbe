//! Requests of many processes at one file go one after the other.
//!
//! SQLite tries again ever more rarely whatever finds the file busy, up to a tenth of a second later. Among many processes that is
//! much longer than what they do there, and whoever has waited longest is the last to try. So each request takes its turn here first,
//! by a lock of the log beside the file, of which SQLite itself locks nothing. The turnstile keeps nothing right: SQLite does. Who
//! cannot have a turn soon, because another process was stopped in the middle of its own, goes on without.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::file;

/// How long a turn is waited for.
const SOON: Duration = Duration::from_millis(500);

/// The turnstile of this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Turnstile {
    /// One waits, in a thread that ends when it has had its turn. Others meanwhile go on without.
    is_waited_at: Arc<AtomicBool>,
}

impl Turnstile {
    /// Blocks until this process has its turn, which ends when it is dropped. None: it goes on without.
    pub(super) fn pass(&self, path: &Path) -> Option<File> {
        // Without a log nobody has written yet.
        let log = File::open(file::log(path)).ok()?;
        match log.try_lock() {
            Ok(()) => Some(log),
            Err(TryLockError::Error(_)) => None,
            Err(TryLockError::WouldBlock) => self.wait(log),
        }
    }

    fn wait(&self, log: File) -> Option<File> {
        if self.is_waited_at.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (turn, had) = channel();
        let is_waited_at = Arc::clone(&self.is_waited_at);
        // Nothing ends a wait for a lock, so one that lasts too long is left behind.
        std::thread::spawn(move || {
            let locked = log.lock();
            is_waited_at.store(false, Ordering::Relaxed);
            let _ = turn.send(locked.is_ok().then_some(log));
        });
        had.recv_timeout(SOON).ok().flatten()
    }
}
