//! A lock that a name holds for a time, across processes, for threads that block.

use std::fmt;
use std::time::Duration;

use super::thread::ClientThread;
use crate::lock::lease_lock::{self, Lease};
use crate::vocabulary::error::Error;
use crate::vocabulary::wait::RecordWait;

/// A lock that a name of the caller's choice holds for a time of the caller's choice, whose calls block the calling thread:
/// [`fairlock::LeaseLock`](crate::LeaseLock), with its warnings. A call returns within five request time-outs.
///
/// # Examples
///
/// ```
/// # fn step(locks: fairlock::blocking::LockClient) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use fairlock::Lease;
///
/// let lock = locks.lease_lock("import/7")?;
/// let lease = lock.acquire("transaction-1234", Duration::from_secs(300))?;
/// let handle = lease.to_string(); // keep it in a message or a workflow's state
///
/// // another process, later
/// let lease: Lease = handle.parse()?;
/// lock.release(&lease)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming a lock does not acquire it"]
pub struct LeaseLock {
    lock: lease_lock::LeaseLock,
    thread: ClientThread,
}

impl LeaseLock {
    pub(super) fn new(lock: lease_lock::LeaseLock, thread: ClientThread) -> Self {
        LeaseLock { lock, thread }
    }

    /// Changes how calls of the returned handle wait, and what its leases take and say about themselves, by the settings of the async handle.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(lock: fairlock::blocking::LeaseLock) -> Result<(), fairlock::Error> {
    /// let lock = lock.with(|lock| lock.attributes([("workflow", "import")]));
    /// let lease = lock.acquire("transaction-1234", std::time::Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with(
        mut self,
        set: impl FnOnce(lease_lock::LeaseLock) -> lease_lock::LeaseLock,
    ) -> LeaseLock {
        self.lock = set(self.lock);
        self
    }

    /// Takes the lock if it is available now, under the name `id` and for `span`:
    /// [`fairlock::LeaseLock::acquire`](crate::LeaseLock::acquire).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(lock: fairlock::blocking::LeaseLock) -> Result<(), fairlock::Error> {
    /// match lock.acquire("transaction-1234", std::time::Duration::from_secs(60)) {
    ///     Ok(lease) => println!("until {:?}", lease.expires_at()),
    ///     Err(fairlock::Error::NotGranted { .. }) => {} // another caller holds the lock
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self, id: impl Into<String>, span: Duration) -> Result<Lease, Error> {
        self.thread.block_on(self.lock.acquire(id, span))?
    }

    /// Blocks until it is this call's turn in the queue, and takes the lock under the name `id` for `span`:
    /// [`fairlock::LeaseLock::acquire_in_turn`](crate::LeaseLock::acquire_in_turn).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(lock: fairlock::blocking::LeaseLock) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::RecordWait;
    ///
    /// let wait = RecordWait::Timeout(Duration::from_secs(60));
    /// let lease = lock.acquire_in_turn("transaction-1234", Duration::from_secs(300), wait)?;
    /// println!("{lease}"); // for the process that goes on
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_in_turn(
        &self,
        id: impl Into<String>,
        span: Duration,
        wait: RecordWait,
    ) -> Result<Lease, Error> {
        self.thread
            .block_on(self.lock.acquire_in_turn(id, span, wait))?
    }

    /// Returns the lease under this name if it holds the lock now: [`fairlock::LeaseLock::find`](crate::LeaseLock::find).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn undo(lock: fairlock::blocking::LeaseLock) -> Result<(), fairlock::Error> {
    /// if let Some(lease) = lock.find("transaction-1234")? {
    ///     lock.release(&lease)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn find(&self, id: &str) -> Result<Option<Lease>, Error> {
        self.thread.block_on(self.lock.find(id))?
    }

    /// Extends the lease to `by` from now, and never shortens it: [`fairlock::LeaseLock::extend`](crate::LeaseLock::extend).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(lock: fairlock::blocking::LeaseLock, lease: fairlock::Lease) -> Result<(), fairlock::Error> {
    /// let lease = lock.extend(&lease, std::time::Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extend(&self, lease: &Lease, by: Duration) -> Result<Lease, Error> {
        self.thread.block_on(self.lock.extend(lease, by))?
    }

    /// Releases the lease and hands the lock off: [`fairlock::LeaseLock::release`](crate::LeaseLock::release).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block: the lease is then as it was.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn done(lock: fairlock::blocking::LeaseLock, lease: fairlock::Lease) -> Result<(), fairlock::Error> {
    /// lock.release(&lease)
    /// # }
    /// ```
    pub fn release(&self, lease: &Lease) -> Result<(), Error> {
        self.thread.block_on(self.lock.release(lease))?
    }
}

impl fmt::Debug for LeaseLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}
