//! The handles to a named lock and to a semaphore, whose calls block.

use std::fmt;

use super::guard::LockGuard;
use super::lease_lock::LeaseLock;
use super::thread::ClientThread;
use crate::lock::fair_lock;
use crate::lock::guard;
use crate::lock::run::RunOutcome;
use crate::lock::semaphore;
use crate::vocabulary::error::Error;
use crate::vocabulary::state::LockState;
use crate::vocabulary::wait::RecordWait;

/// A handle to a named lock, whose calls block the calling thread. Cheap to clone; naming a lock neither acquires it nor sends anything.
///
/// It is the lock of [`fairlock::FairLock`](crate::FairLock): callers of both kinds stand in one queue.
///
/// # Examples
///
/// ```
/// # fn turn(locks: fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
/// let lock = locks.fair_lock("nightly-report")?;
/// if let Some(guard) = lock.try_acquire()? {
///     // this host makes the report
///     guard.release()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming a lock does not acquire it"]
pub struct FairLock {
    lock: fair_lock::FairLock,
    thread: ClientThread,
}

impl FairLock {
    pub(super) fn new(lock: fair_lock::FairLock, thread: ClientThread) -> Self {
        FairLock { lock, thread }
    }

    /// Changes how calls of the returned handle wait and hold, by the settings of the async handle. Such settings are observers, attributes, the
    /// length of the queue, the times of a hold, and whether a call may wait for its own client.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn turn(lock: fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::RecordWait;
    ///
    /// let lock = lock.with(|lock| lock.max_waiters(10).max_hold(Duration::from_secs(600)));
    /// lock.acquire(RecordWait::Infinite)?.release()
    /// # }
    /// ```
    pub fn with(
        mut self,
        set: impl FnOnce(fair_lock::FairLock) -> fair_lock::FairLock,
    ) -> FairLock {
        self.lock = set(self.lock);
        self
    }

    /// The lock's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(lock: &fairlock::blocking::FairLock) {
    /// println!("waiting for {}", lock.name());
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Blocks until it is this call's turn, and takes the lock: [`fairlock::FairLock::acquire`](crate::FairLock::acquire). The queue, the
    /// times and the batches of callers of one client are described there.
    ///
    /// Another thread ends the wait early by [`shutdown`](super::LockClient::shutdown) of the client.
    ///
    /// # Errors
    ///
    /// As there: [`Error::NotGranted`] if another caller holds the lock when the wait ends, and [`Error::Unavailable`] if DynamoDB does not
    /// answer then. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn turn(lock: fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::RecordWait;
    ///
    /// let guard = lock.acquire(RecordWait::Timeout(Duration::from_secs(5)))?;
    /// // do the work
    /// guard.release()
    /// # }
    /// ```
    pub fn acquire(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        let granted = self.thread.block_on(self.lock.acquire(wait))?;
        Ok(self.guard(granted?))
    }

    /// Blocks until it is this call's turn, and takes the lock together with other callers that share it:
    /// [`fairlock::FairLock::acquire_shared`](crate::FairLock::acquire_shared).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn turn(lock: fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
    /// let reading = lock.acquire_shared(fairlock::RecordWait::default())?;
    /// // other readers may hold the lock too; no writer does
    /// reading.release()
    /// # }
    /// ```
    pub fn acquire_shared(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        let granted = self.thread.block_on(self.lock.acquire_shared(wait))?;
        Ok(self.guard(granted?))
    }

    /// Takes the lock if it is available now. Returns `None` if another caller holds the lock, or waits for it.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that [`Error::NotGranted`] is returned as `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn once(lock: fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
    /// match lock.try_acquire()? {
    ///     Some(guard) => guard.release(),
    ///     None => Ok(()), // another host holds the lock
    /// }
    /// # }
    /// ```
    pub fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        let granted = self.thread.block_on(self.lock.try_acquire())?;
        Ok(granted?.map(|guard| self.guard(guard)))
    }

    /// Shares the lock if that is possible now. Returns `None` if a writer holds the lock, or others wait.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that [`Error::NotGranted`] is returned as `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn once(lock: fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
    /// match lock.try_acquire_shared()? {
    ///     Some(reading) => reading.release(),
    ///     None => Ok(()), // a writer holds the lock, or others wait
    /// }
    /// # }
    /// ```
    pub fn try_acquire_shared(&self) -> Result<Option<LockGuard>, Error> {
        let granted = self.thread.block_on(self.lock.try_acquire_shared())?;
        Ok(granted?.map(|guard| self.guard(guard)))
    }

    /// Acquires the lock, runs `work` in the calling thread, and releases the lock.
    ///
    /// A loss does not interrupt the work: it asks [`check`](LockGuard::check) before each step that cannot be undone. If the work panics, the
    /// lock is released in the background.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), if the work never began. [`Error::Lost`] if the lock was lost before the work was done: its value is
    /// dropped. A release that failed is no error here: it is in [`RunOutcome::released`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn turn(lock: fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let ran = lock.run(RecordWait::default(), |guard| guard.ticket())?;
    /// println!("worked under token {}", ran.into_result()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(
        &self,
        wait: RecordWait,
        work: impl FnOnce(&LockGuard) -> T,
    ) -> Result<RunOutcome<T>, Error> {
        self.acquire(wait)?.run(work)
    }

    /// Reads the holder and the queue: [`fairlock::FairLock::inspect`](crate::FairLock::inspect).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(lock: &fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
    /// let state = lock.inspect()?;
    /// println!("held: {}, waiting: {}", state.holder.is_some(), state.waiting);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inspect(&self) -> Result<LockState, Error> {
        self.thread.block_on(self.lock.inspect())?
    }

    fn guard(&self, guard: guard::LockGuard) -> LockGuard {
        LockGuard::new(guard, self.thread.clone())
    }
}

impl fmt::Debug for FairLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

/// A lock of several permits, whose calls block the calling thread: [`fairlock::Semaphore`](crate::Semaphore), with its warnings.
///
/// # Examples
///
/// ```
/// # fn call(locks: fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
/// let exports = locks.semaphore("exports", 5)?;
/// let large = exports.acquire_many(3, fairlock::RecordWait::default())?;
/// // holds three of the five
/// large.release()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming a lock does not acquire it"]
pub struct Semaphore {
    semaphore: semaphore::Semaphore,
    thread: ClientThread,
}

impl Semaphore {
    pub(super) fn new(semaphore: semaphore::Semaphore, thread: ClientThread) -> Self {
        Semaphore { semaphore, thread }
    }

    /// Changes how calls of the returned handle wait and hold, by the settings of the async handle.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn call(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// // Each permit is given out once a second at most.
    /// let exports = exports.with(|exports| exports.min_hold(std::time::Duration::from_secs(1)));
    /// exports.acquire(fairlock::RecordWait::Infinite)?.release()
    /// # }
    /// ```
    pub fn with(
        mut self,
        set: impl FnOnce(semaphore::Semaphore) -> semaphore::Semaphore,
    ) -> Semaphore {
        self.semaphore = set(self.semaphore);
        self
    }

    /// The lock's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(exports: &fairlock::blocking::Semaphore) {
    /// println!("waiting for one of {} permits of {}", exports.permits(), exports.name());
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.semaphore.name()
    }

    /// How many permits there are.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(exports: &fairlock::blocking::Semaphore) {
    /// assert_eq!(exports.permits(), 5);
    /// # }
    /// ```
    pub fn permits(&self) -> u64 {
        self.semaphore.permits()
    }

    /// Names leases that take `permits` of these permits each: [`fairlock::Semaphore::lease_lock`](crate::Semaphore::lease_lock). Does not
    /// block.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn start(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// let leases = exports.lease_lock(2)?;
    /// let lease = leases.acquire("export-4711", std::time::Duration::from_secs(3600))?;
    /// leases.release(&lease)
    /// # }
    /// ```
    pub fn lease_lock(&self, permits: u64) -> Result<LeaseLock, Error> {
        let leases = self.semaphore.lease_lock(permits)?;
        Ok(LeaseLock::new(leases, self.thread.clone()))
    }

    /// Blocks until it is this call's turn, and takes one permit.
    ///
    /// # Errors
    ///
    /// As [`fairlock::Semaphore::acquire`](crate::Semaphore::acquire). [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn call(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// exports.acquire(fairlock::RecordWait::default())?.release()
    /// # }
    /// ```
    pub fn acquire(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        self.acquire_many(1, wait)
    }

    /// Blocks until it is this call's turn, and takes `permits` permits, all of them at once.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`Error::Invalid`] if the semaphore has fewer permits, or none are asked for.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn call(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// let all = exports.acquire_many(exports.permits(), fairlock::RecordWait::Infinite)?;
    /// // alone: no other caller holds a permit
    /// all.release()
    /// # }
    /// ```
    pub fn acquire_many(&self, permits: u64, wait: RecordWait) -> Result<LockGuard, Error> {
        let granted = self.semaphore.acquire_many(permits, wait);
        let granted = self.thread.block_on(granted)?;
        Ok(LockGuard::new(granted?, self.thread.clone()))
    }

    /// Takes one permit if it is available now. Returns `None` if all are taken, or others wait.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that [`Error::NotGranted`] is returned as `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn call(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// match exports.try_acquire()? {
    ///     Some(permit) => permit.release(),
    ///     None => Ok(()),
    /// }
    /// # }
    /// ```
    pub fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.try_acquire_many(1)
    }

    /// Takes `permits` permits, all of them at once, if they are available now.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many), except that [`Error::NotGranted`] is returned as `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn call(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// match exports.try_acquire_many(2)? {
    ///     Some(two) => two.release(),
    ///     None => Ok(()),
    /// }
    /// # }
    /// ```
    pub fn try_acquire_many(&self, permits: u64) -> Result<Option<LockGuard>, Error> {
        let granted = self.semaphore.try_acquire_many(permits);
        let granted = self.thread.block_on(granted)?;
        Ok(granted?.map(|guard| LockGuard::new(guard, self.thread.clone())))
    }

    /// Takes one permit, runs `work` in the calling thread, and releases the permit, as [`FairLock::run`] does.
    ///
    /// # Errors
    ///
    /// As [`FairLock::run`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn call(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// let ran = exports.run(fairlock::RecordWait::default(), |_permit| 40 + 2)?;
    /// assert_eq!(ran.value, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(
        &self,
        wait: RecordWait,
        work: impl FnOnce(&LockGuard) -> T,
    ) -> Result<RunOutcome<T>, Error> {
        self.acquire(wait)?.run(work)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.semaphore.fmt(f)
    }
}
