//! Requests of many processes at one file go one after the other.
//!
//! SQLite tries again ever more rarely whatever finds the file busy, up to a tenth of a second later. Among many processes that is
//! much longer than what they do there, and whoever has waited longest is the last to try. So each request takes its turn here first,
//! by a lock of the log beside the file, of which SQLite itself locks nothing. The turnstile keeps nothing right: SQLite does. Who
//! cannot have a turn soon, because another process was stopped in the middle of its own, goes on without.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Blocks until the work is done: in this process's turn, or without one where it does not come soon. None: the work panicked
    /// in the thread that waits.
    pub(super) fn in_turn<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        // Without a log nobody has written yet.
        let Ok(log) = File::open(file::log(path)) else {
            return Some(work());
        };
        match log.try_lock() {
            Err(TryLockError::WouldBlock) => self.wait(log, work),
            // The turn ends with the file.
            Ok(()) | Err(TryLockError::Error(_)) => Some(work()),
        }
    }

    /// The thread that waits does the work too: to wake another one first would make everybody behind it wait for that, which
    /// takes long where many processes want to run.
    fn wait<T: Send + 'static>(
        &self,
        log: File,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.is_waited_at.swap(true, Ordering::Relaxed) {
            return Some(work());
        }
        let work = Arc::new(Mutex::new(Some(work)));
        let take = |work: &Mutex<Option<_>>| {
            let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
            work.take()
        };
        let (tell, told) = channel();
        let (theirs, is_waited_at) = (Arc::clone(&work), Arc::clone(&self.is_waited_at));
        // Nothing ends a wait for a lock, so one that lasts too long is left behind, and finds nothing to do.
        std::thread::spawn(move || {
            let _turn = log.lock();
            is_waited_at.store(false, Ordering::Relaxed);
            let done = take(&theirs).map(|work| work());
            drop(log);
            let _ = tell.send(done);
        });
        match told.recv_timeout(SOON) {
            Ok(done) => done,
            Err(_) => match take(&work) {
                Some(work) => Some(work()),
                // It is being done.
                None => told.recv().ok().flatten(),
            },
        }
    }
}
