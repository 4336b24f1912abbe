//! The guard of a held lock, for threads that block.

use std::fmt;
use std::time::Duration;

use super::thread::ClientThread;
use crate::items::Fence;
use crate::lock::guard;
use crate::lock::lease_lock::Lease;
use crate::lock::run::RunOutcome;
use crate::vocabulary::error::{Error, LockLost, LossReason};
use crate::vocabulary::state::LockData;
use fairlock_protocol::ticket::Ticket;

/// A held lock, or held permits. The client's thread renews the lease until the guard is released, dropped, or lost, while the program
/// computes.
///
/// [`release`](Self::release) waits, and says how it went: a lock that was lost meanwhile is an error. Dropping the guard hands the release to
/// the client's thread and waits for nothing, in async code too. It reports nothing; a failure is logged, and the lease then ends the hold.
///
/// # Examples
///
/// ```
/// # fn turn(lock: fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
/// let guard = lock.acquire(fairlock::RecordWait::default())?;
/// for step in 0..3 {
///     guard.check()?; // stop if the lock was lost
///     println!("step {step} under token {}", guard.ticket());
/// }
/// guard.release()
/// # }
/// ```
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct LockGuard {
    // Dropped before the thread, which ends with its last handle.
    guard: guard::LockGuard,
    thread: ClientThread,
}

impl LockGuard {
    pub(super) fn new(guard: guard::LockGuard, thread: ClientThread) -> Self {
        LockGuard { guard, thread }
    }

    /// Returns the lock's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn log(guard: &fairlock::blocking::LockGuard) {
    /// println!("working on {}", guard.name());
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.guard.name()
    }

    /// Returns the ticket of this hold, which is its fencing token.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn fence(guard: &fairlock::blocking::LockGuard, newest_seen: fairlock::Ticket) {
    /// assert!(guard.ticket() >= newest_seen, "a stale writer"); // equal: its own earlier write
    /// # }
    /// ```
    pub fn ticket(&self) -> Ticket {
        self.guard.ticket()
    }

    /// Returns how many of the lock's permits the guard holds.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn log(guard: &fairlock::blocking::LockGuard) {
    /// println!("{} permits", guard.permits());
    /// # }
    /// ```
    pub fn permits(&self) -> u64 {
        self.guard.permits()
    }

    /// Returns an error if the lock was lost, with the reason, as far as can be known without a request. Meant for `?` before each step that
    /// cannot be undone.
    ///
    /// # Errors
    ///
    /// [`LockLost`], which becomes an [`Error::Lost`] by `?`. Every later call returns it again.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::blocking::LockGuard) -> Result<(), fairlock::Error> {
    /// guard.check()?;
    /// // the next irreversible step
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), LockLost> {
        self.loss().map_or(Ok(()), Err)
    }

    /// A process that was forked from the client's has none of its threads, so nothing tells it whether the lock is still held.
    fn loss(&self) -> Option<LockLost> {
        match self.thread.check_process() {
            Ok(()) => self.guard.loss(),
            Err(_) => Some(self.guard.lost_by(LossReason::NoRuntime)),
        }
    }

    /// Returns whether the lock is still held, as far as can be known without a request.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::blocking::LockGuard) {
    /// if !guard.is_held() {
    ///     return; // before the next irreversible step
    /// }
    /// # }
    /// ```
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// Returns how long this hold may still be trusted if no renewal succeeds from now on. Zero once it is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn enough(guard: &fairlock::blocking::LockGuard) -> bool {
    /// guard.remaining() > std::time::Duration::from_secs(5)
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Returns whether a third of the lease is left, or less, and renewals are failing: start nothing new then.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::blocking::LockGuard) {
    /// if guard.in_danger() {
    ///     // save what can be saved
    /// }
    /// # }
    /// ```
    pub fn in_danger(&self) -> bool {
        self.guard.in_danger()
    }

    /// Blocks until the hold is lost, or until `within` has passed. Returns `None` if the time has passed. The loss is seen at the local
    /// deadline at the latest, also when DynamoDB cannot be reached.
    ///
    /// Meant for a thread that watches over the work of another one; the guard can be shared between threads.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn work(guard: &fairlock::blocking::LockGuard, is_done: &std::sync::atomic::AtomicBool) -> Result<(), fairlock::Error> {
    /// use std::sync::atomic::Ordering;
    /// use std::time::Duration;
    ///
    /// while !is_done.load(Ordering::Relaxed) {
    ///     if let Some(lost) = guard.wait_lost(Duration::from_secs(1))? {
    ///         eprintln!("stop: {lost}");
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_lost(&self, within: Duration) -> Result<Option<LockLost>, Error> {
        let clock = &self.guard.inner().store.config().clock;
        self.thread.block_on(async {
            tokio::select! {
                biased;
                lost = self.guard.lost() => Some(lost),
                () = clock.sleep(within) => None,
            }
        })
    }

    /// Returns a fence with this hold's ticket, for writes to items that remember the newest token in `attribute`:
    /// [`fairlock::LockGuard::fence`](crate::LockGuard::fence).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn save(
    /// #     locks: fairlock::blocking::LockClient,
    /// #     dynamodb: aws_sdk_dynamodb::Client,
    /// #     guard: fairlock::blocking::LockGuard,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// let put = dynamodb.put_item().table_name("reports").item("id", AttributeValue::S("nightly".into()));
    /// locks.block_on(guard.fence("fence").on(put).send())??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(&self, attribute: impl Into<String>) -> Fence {
        self.guard.fence(attribute)
    }

    /// Returns the same hold for async code: for its events, for a check in a transaction, or for what another process is told of it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(guard: &fairlock::blocking::LockGuard) {
    /// println!("{}", guard.as_async().place_id());
    /// # }
    /// ```
    pub fn as_async(&self) -> &guard::LockGuard {
        &self.guard
    }

    /// Returns the data on the lock: [`fairlock::LockGuard::data`](crate::LockGuard::data).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn next(guard: &fairlock::blocking::LockGuard) {
    /// let cursor = guard.data().map(|data| data.bytes);
    /// # }
    /// ```
    pub fn data(&self) -> Option<LockData> {
        self.guard.data()
    }

    /// Blocks until the data on the lock is replaced: [`fairlock::LockGuard::set_data`](crate::LockGuard::set_data).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn done(guard: fairlock::blocking::LockGuard) -> Result<(), fairlock::Error> {
    /// guard.set_data("page 42")?;
    /// guard.release()
    /// # }
    /// ```
    pub fn set_data(&self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        self.thread.block_on(self.guard.set_data(bytes))?
    }

    /// Blocks until the data on the lock is removed: [`fairlock::LockGuard::clear_data`](crate::LockGuard::clear_data).
    ///
    /// # Errors
    ///
    /// As [`set_data`](Self::set_data).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn done(guard: fairlock::blocking::LockGuard) -> Result<(), fairlock::Error> {
    /// guard.clear_data()?;
    /// guard.release()
    /// # }
    /// ```
    pub fn clear_data(&self) -> Result<(), Error> {
        self.thread.block_on(self.guard.clear_data())?
    }

    /// Keeps one permit and frees the others, so that others may share the lock:
    /// [`fairlock::LockGuard::downgrade`](crate::LockGuard::downgrade).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn turn(lock: fairlock::blocking::FairLock) -> Result<(), fairlock::Error> {
    /// let mut guard = lock.acquire(fairlock::RecordWait::default())?;
    /// // write
    /// guard.downgrade()?;
    /// // read what was written, while others read it too
    /// guard.release()
    /// # }
    /// ```
    pub fn downgrade(&mut self) -> Result<(), Error> {
        self.thread.block_on(self.guard.downgrade())?
    }

    /// Gives some of the guard's permits back, and keeps the others:
    /// [`fairlock::LockGuard::release_some`](crate::LockGuard::release_some).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn export(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// let mut guard = exports.acquire_many(3, fairlock::RecordWait::Infinite)?;
    /// guard.release_some(2)?;
    /// guard.release()
    /// # }
    /// ```
    pub fn release_some(&mut self, permits: u64) -> Result<(), Error> {
        self.thread.block_on(self.guard.release_some(permits))?
    }

    /// Turns the hold into a lease, which any process can extend and release:
    /// [`fairlock::LockGuard::into_lease`](crate::LockGuard::into_lease).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block: the lock is then released.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn start(exports: fairlock::blocking::Semaphore) -> Result<(), fairlock::Error> {
    /// let guard = exports.acquire_many(2, fairlock::RecordWait::Infinite)?;
    /// let lease = guard.into_lease("export-4711", std::time::Duration::from_secs(3600))?;
    /// println!("{lease}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_lease(self, id: impl Into<String>, span: Duration) -> Result<Lease, Error> {
        let LockGuard { guard, thread } = self;
        thread.block_on(guard.into_lease(id, span))?
    }

    /// Runs `work` in the calling thread, and releases the lock: [`FairLock::run`](super::FairLock::run) for a lock that is held already.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost before the work was done: its value is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn turn(guard: fairlock::blocking::LockGuard) -> Result<(), fairlock::Error> {
    /// guard.run(|guard| println!("working under token {}", guard.ticket()))?.into_result()
    /// # }
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&LockGuard) -> T) -> Result<RunOutcome<T>, Error> {
        let value = work(&self);
        self.check()?;
        let released = self.release();
        Ok(RunOutcome { value, released })
    }

    /// Blocks until the lock is handed off, with one write: [`fairlock::LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the guard no longer held the lock: what this hold protected may have overlapped with the next hold.
    /// [`Error::Unavailable`] or [`Error::Refused`] if the release did not succeed before the lease ended. [`Error::Invalid`] in async code,
    /// where nothing may block: the release then goes on in the background, as after a drop.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn done(guard: fairlock::blocking::LockGuard) {
    /// match guard.release() {
    ///     Ok(()) => {}
    ///     Err(fairlock::Error::Lost { reason, .. }) => eprintln!("roll back: {reason}"),
    ///     Err(other) => eprintln!("the next in the queue waits for the lease to end: {other}"),
    /// }
    /// # }
    /// ```
    pub fn release(self) -> Result<(), Error> {
        let LockGuard { guard, thread } = self;
        thread.block_on(guard.release())?
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
