//! Writes of many processes to one file go one after the other.
//!
//! When SQLite finds the file busy, it tries again ever more rarely, up to a tenth of a second later. Among many processes that is much
//! longer than what they do there, and the process that has waited longest is the last to try. So each write takes its turn here first, and
//! so does each opening. The turnstile is not what keeps the file correct: SQLite does. A process that cannot have a turn soon, because
//! another process was stopped in the middle of its own, goes on without one. Reads take no turn: SQLite lets them past a write.
//!
//! A process that comes to a lock opens the file and writes two or three times in a row. A process that gives a lock back wrote long ago.
//! So a process that has written lately lets processes go first that have not. Otherwise many processes that start at once would all have
//! their places before the lock is handed to the first of them.

use std::path::Path;

use dynoxide::DynoxideError;

#[cfg(unix)]
pub(crate) use turns::Turnstile;

type Done<T> = Result<T, DynoxideError>;

/// Gives no turns, on systems where a lock of the log would keep SQLite from it.
#[cfg(not(unix))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Turnstile;

#[cfg(not(unix))]
impl Turnstile {
    pub(crate) fn write<T>(&self, _: &Path, work: impl FnOnce() -> Done<T>) -> Done<T> {
        work()
    }
}

#[cfg(unix)]
mod turns {
    use std::fs::{File, OpenOptions, TryLockError};
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    use super::{Done, DynoxideError, Path};
    use crate::file;
    use crate::time::now;

    /// How long to wait for a turn: longer than a hundred processes on two processors take to have one each.
    const SOON: Duration = Duration::from_millis(1500);
    /// Longer than a process is busy with itself between two writes in a row.
    const LATELY: Duration = Duration::from_millis(40);

    /// The turnstile of this process.
    #[derive(Clone, Debug)]
    pub(crate) struct Turnstile {
        /// Whether a write waits, in a thread that ends when it has had its turn. Other writes of this process go on without a turn
        /// meanwhile.
        is_waited_at: Arc<AtomicBool>,
        wrote: Arc<Mutex<Instant>>,
    }

    /// A turn is had by two locks of the log beside the file, of which SQLite itself locks nothing. A process that has written lately waits
    /// in the queue for the first lock. With that lock, or if it has not written lately, it waits for the second.
    struct Turn {
        log: File,
        is_in_queue: bool,
    }

    impl Default for Turnstile {
        fn default() -> Self {
            Turnstile {
                is_waited_at: Arc::default(),
                wrote: Arc::new(Mutex::new(now())),
            }
        }
    }

    impl Turnstile {
        /// Blocks until the work is done: in this process's turn, or without one if it does not come soon.
        pub(crate) fn write<T: Send + 'static>(
            &self,
            path: &Path,
            work: impl FnOnce() -> Done<T> + Send + 'static,
        ) -> Done<T> {
            let done = match Turn::of(path, self.has_written_lately()) {
                // Without a log, no process has written yet.
                None => work(),
                Some(turn) if turn.is_had() => work(),
                Some(turn) => self.wait(turn, work).unwrap_or_else(panicked),
            };
            *self.wrote.lock().unwrap_or_else(PoisonError::into_inner) = now();
            done
        }

        fn has_written_lately(&self) -> bool {
            let wrote = self.wrote.lock().unwrap_or_else(PoisonError::into_inner);
            is_lately(*wrote, now())
        }

        /// The thread that waits does the work too. To wake another thread first would make every process behind it wait for that, which
        /// takes long where many processes want to run.
        ///
        /// Returns `None` if the work panicked there.
        fn wait<T: Send + 'static>(
            &self,
            turn: Turn,
            work: impl FnOnce() -> Done<T> + Send + 'static,
        ) -> Option<Done<T>> {
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
            // Nothing ends a wait for a lock. So a wait that lasts too long is left behind, and its thread finds nothing to do.
            std::thread::spawn(move || {
                turn.wait();
                is_waited_at.store(false, Ordering::Relaxed);
                let done = take(&theirs).map(|work| work());
                drop(turn);
                let _ = tell.send(done);
            });
            match told.recv_timeout(SOON) {
                Ok(done) => done,
                Err(_) => match take(&work) {
                    Some(work) => Some(work()),
                    // The other thread is doing it.
                    None => told.recv().ok().flatten(),
                },
            }
        }
    }

    /// A turn ends when its log is closed. If the lock fails for another reason than that another process has it, the process goes on
    /// without it.
    impl Turn {
        fn of(path: &Path, is_in_queue: bool) -> Option<Turn> {
            let log = OpenOptions::new()
                .read(true)
                .write(true)
                .open(file::log(path));
            log.ok().map(|log| Turn { log, is_in_queue })
        }

        /// Whether the turn came at once.
        fn is_had(&self) -> bool {
            if self.is_in_queue && matches!(self.log.try_lock(), Err(TryLockError::WouldBlock)) {
                return false;
            }
            !matches!(second(&self.log, false), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        }

        fn wait(&self) {
            if self.is_in_queue {
                let _first = self.log.lock();
            }
            let _second = second(&self.log, true);
        }
    }

    /// On Linux the two kinds of locks do not see each other.
    #[cfg(target_os = "linux")]
    fn second(log: &File, waits: bool) -> io::Result<()> {
        use rustix::fs::{FlockOperation, fcntl_lock};
        let how = match waits {
            true => FlockOperation::LockExclusive,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        Ok(fcntl_lock(log, how)?)
    }

    /// Elsewhere there is one kind of lock, and every process waits in the queue.
    #[cfg(not(target_os = "linux"))]
    fn second(log: &File, waits: bool) -> io::Result<()> {
        match waits {
            true => log.lock(),
            false => Ok(log.try_lock()?),
        }
    }

    fn is_lately(wrote: Instant, now: Instant) -> bool {
        now < wrote + LATELY
    }

    fn panicked<T>() -> Done<T> {
        let what = "a write to the file panicked".to_owned();
        Err(DynoxideError::InternalServerError(what))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn log_of(name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            std::fs::write(file::log(&path), "").unwrap();
            (folder, path)
        }

        #[cfg(target_os = "linux")]
        #[test]
        fn who_has_not_written_lately_goes_before_a_queue_of_those_who_have() {
            let (_folder, path) = log_of("locks.db");
            let first = Turn::of(&path, true).unwrap();
            assert!(first.is_had());
            assert!(!Turn::of(&path, true).unwrap().is_had());
            assert!(Turn::of(&path, false).unwrap().is_had());
            drop(first);
            assert!(Turn::of(&path, true).unwrap().is_had());
        }

        #[test]
        fn lately_ends() {
            let wrote = now();
            assert!(is_lately(wrote, wrote));
            assert!(!is_lately(wrote, wrote + LATELY));
        }

        #[test]
        fn work_in_a_turn_that_never_comes_is_done_without_one() {
            let (_folder, path) = log_of("locks.db");
            let stopped = File::open(file::log(&path)).unwrap();
            stopped.lock().unwrap();
            let done = Turnstile::default().write(&path, || Ok(7));
            assert_eq!(done.unwrap(), 7);
        }
    }
}
