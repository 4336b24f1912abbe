//! Several locks that are held as one, for threads that block.

use std::fmt;
use std::time::Duration;

use super::thread::ClientThread;
use crate::lock::guard;
use crate::lock::multi_lock;
use crate::lock::run::RunOutcome;
use crate::vocabulary::error::{Error, LockLost, LossReason};
use crate::vocabulary::wait::RecordWait;
use fairlock_protocol::ticket::Ticket;

/// A handle to several locks that are held at the same time, whose calls block the calling thread:
/// [`fairlock::MultiLock`](crate::MultiLock), with its limitations.
///
/// # Examples
///
/// ```
/// # fn transfer(locks: fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
/// let accounts = locks.multi_lock(["account/42", "account/7"])?;
/// let guard = accounts.acquire(fairlock::RecordWait::default())?;
/// guard.check()?;
/// guard.release()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming locks does not acquire them"]
pub struct MultiLock {
    locks: multi_lock::MultiLock,
    thread: ClientThread,
}

impl MultiLock {
    pub(super) fn new(locks: multi_lock::MultiLock, thread: ClientThread) -> Self {
        MultiLock { locks, thread }
    }

    /// Changes how calls of the returned handle wait and hold, by the settings of the async handle.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn transfer(accounts: fairlock::blocking::MultiLock) -> Result<(), fairlock::Error> {
    /// let accounts = accounts.with(|accounts| accounts.max_hold(std::time::Duration::from_secs(60)));
    /// accounts.acquire(fairlock::RecordWait::Infinite)?.release()
    /// # }
    /// ```
    pub fn with(
        mut self,
        set: impl FnOnce(multi_lock::MultiLock) -> multi_lock::MultiLock,
    ) -> MultiLock {
        self.locks = set(self.locks);
        self
    }

    /// The names of the locks in the order in which they are taken. Each name comes once.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(accounts: &fairlock::blocking::MultiLock) {
    /// accounts.names().for_each(|name| println!("waiting for {name}"));
    /// # }
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.locks.names()
    }

    /// Blocks until it is this call's turn at each of the locks, and takes all of them, or none:
    /// [`fairlock::MultiLock::acquire`](crate::MultiLock::acquire).
    ///
    /// # Errors
    ///
    /// As there: [`Error::NotGranted`] names the lock that could not be taken, and its holder. [`Error::Invalid`] in async code, where
    /// nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn transfer(accounts: fairlock::blocking::MultiLock) -> Result<(), fairlock::Error> {
    /// let guard = accounts.acquire(fairlock::RecordWait::default())?;
    /// guard.release()
    /// # }
    /// ```
    pub fn acquire(&self, wait: RecordWait) -> Result<MultiLockGuard, Error> {
        let granted = self.thread.block_on(self.locks.acquire(wait))?;
        Ok(self.guard(granted?))
    }

    /// Takes the locks if all of them are available now. Returns `None` if another caller holds one of them, or waits for it.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that [`Error::NotGranted`] is returned as `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn once(accounts: fairlock::blocking::MultiLock) -> Result<(), fairlock::Error> {
    /// match accounts.try_acquire()? {
    ///     Some(guard) => guard.release(),
    ///     None => Ok(()), // another caller holds one of them
    /// }
    /// # }
    /// ```
    pub fn try_acquire(&self) -> Result<Option<MultiLockGuard>, Error> {
        let granted = self.thread.block_on(self.locks.try_acquire())?;
        Ok(granted?.map(|guard| self.guard(guard)))
    }

    /// Acquires the locks, runs `work` in the calling thread, and releases them: [`FairLock::run`](super::FairLock::run) for several locks.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), if the work never began. [`Error::Lost`] if one of the locks was lost before the work was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn transfer(accounts: fairlock::blocking::MultiLock) -> Result<(), fairlock::Error> {
    /// let ran = accounts.run(fairlock::RecordWait::default(), |guard| guard.ticket("account/42"))?;
    /// assert!(ran.value.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(
        &self,
        wait: RecordWait,
        work: impl FnOnce(&MultiLockGuard) -> T,
    ) -> Result<RunOutcome<T>, Error> {
        let guard = self.acquire(wait)?;
        let value = work(&guard);
        guard.check()?;
        let released = guard.release();
        Ok(RunOutcome { value, released })
    }

    fn guard(&self, guard: multi_lock::MultiLockGuard) -> MultiLockGuard {
        MultiLockGuard {
            guard,
            thread: self.thread.clone(),
        }
    }
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.locks.fmt(f)
    }
}

/// Several held locks, each with its own lease, until they are released, dropped, or lost. Dropping the guard hands their releases to the
/// client's thread, and waits for nothing.
///
/// # Examples
///
/// ```
/// # fn transfer(locks: fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
/// let guard = locks.multi_lock(["account/42", "account/7"])?.acquire(fairlock::RecordWait::default())?;
/// for lock in guard.guards() {
///     println!("{} under token {}", lock.name(), lock.ticket());
/// }
/// guard.release()
/// # }
/// ```
#[must_use = "locks are released as soon as their guard is dropped"]
pub struct MultiLockGuard {
    // Dropped before the thread, which ends with its last handle.
    guard: multi_lock::MultiLockGuard,
    thread: ClientThread,
}

impl MultiLockGuard {
    /// The async guard of each lock, in the order of their names: for its ticket, its fence and its state, which need no wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::blocking::MultiLockGuard) {
    /// assert!(guard.guards().iter().all(|lock| !lock.in_danger()));
    /// # }
    /// ```
    pub fn guards(&self) -> &[guard::LockGuard] {
        self.guard.guards()
    }

    /// Returns the ticket of this guard's hold of `lock`. Returns `None` if the guard does not hold `lock`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn fence(guard: &fairlock::blocking::MultiLockGuard, newest_seen: fairlock::Ticket) {
    /// assert!(guard.ticket("account/42") > Some(newest_seen), "a stale writer");
    /// # }
    /// ```
    pub fn ticket(&self, lock: &str) -> Option<Ticket> {
        self.guard.ticket(lock)
    }

    /// Returns an error if one of the locks was lost, as [`LockGuard::check`](super::LockGuard::check) does of one lock.
    ///
    /// # Errors
    ///
    /// [`LockLost`] for the first lock, in the order of their names, that was lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::blocking::MultiLockGuard) -> Result<(), fairlock::Error> {
    /// guard.check()?;
    /// // the next irreversible step
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), LockLost> {
        let is_here = self.thread.check_process().is_ok();
        let mut losses = self.guards().iter().filter_map(|guard| match is_here {
            true => guard.loss(),
            false => Some(guard.lost_by(LossReason::NoRuntime)),
        });
        losses.next().map_or(Ok(()), Err)
    }

    /// Returns how long the caller may rely on all of the locks if no renewal succeeds from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn enough(guard: &fairlock::blocking::MultiLockGuard) -> bool {
    /// guard.remaining() > std::time::Duration::from_secs(5)
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Blocks until all of the locks are released: [`fairlock::MultiLockGuard::release`](crate::MultiLockGuard::release).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block: the releases then go on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn done(guard: fairlock::blocking::MultiLockGuard) {
    /// if let Err(error) = guard.release() {
    ///     eprintln!("{error}");
    /// }
    /// # }
    /// ```
    pub fn release(self) -> Result<(), Error> {
        let MultiLockGuard { guard, thread } = self;
        thread.block_on(guard.release())?
    }
}

impl fmt::Debug for MultiLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
