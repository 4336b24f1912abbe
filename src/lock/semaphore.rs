//! A lock of several permits, which several callers hold at one time.

use std::time::Duration;

use crate::lock::fair_lock::{FairLock, if_granted};
use crate::lock::guard::LockGuard;
use crate::lock::lease_lock::LeaseLock;
use crate::lock::run::{self, RunOutcome};
use crate::vocabulary::error::{Error, Invalid};
use crate::vocabulary::state::Waiting;
use crate::vocabulary::wait::RecordWait;

/// The most permits of one lock. Each holder is an entry on the lock's item, and each write of the item pays for all entries.
pub(crate) const MAX_PERMITS: u64 = 1000;

/// A lock of several permits: at most that many callers hold one each at a time, on all hosts together, in one fair queue.
///
/// First come, first served, also where a caller takes several permits at once. Later callers that want one permit do not pass a
/// caller that waits for five, though one may be left meanwhile.
///
/// **Tickets do not exclude each other here.** Several callers hold permits at one time, so a resource that refuses smaller
/// tickets than it has seen refuses some rightful holders. Fence with tickets only what a
/// [fair lock](crate::LockClient::fair_lock) protects.
///
/// The [fair lock](crate::LockClient::fair_lock) of the same name shows the holders and the queue: [`inspect`](FairLock::inspect)
/// and [`watch`](FairLock::watch) read any lock.
///
/// Each holder is an entry of some 250 bytes on the lock's item, and DynamoDB charges each write of the item, by any of them, by
/// the kilobyte. With a hundred holders, a heartbeat costs 25 write units.
///
/// # Examples
///
/// ```
/// # async fn call(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
/// use fairlock::RecordWait;
///
/// let exports = locks.semaphore("exports", 5)?;
/// let large = exports.acquire_many(3, RecordWait::default()).await?;
/// // holds three of the five
/// large.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "naming a lock does not acquire it"]
pub struct Semaphore {
    lock: FairLock,
    permits: u64,
}

impl Semaphore {
    pub(crate) fn new(lock: FairLock, permits: u64) -> Self {
        Semaphore { lock, permits }
    }

    /// The lock's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(exports: &fairlock::Semaphore) {
    /// println!("waiting for one of {} permits of {}", exports.permits(), exports.name());
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// How many permits there are.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(exports: &fairlock::Semaphore) {
    /// assert_eq!(exports.permits(), 5);
    /// # }
    /// ```
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// Sets attributes that calls of the returned handle [publish about themselves](FairLock::attributes).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// let exports = exports.attributes([("job", "4711")]);
    /// exports.acquire(fairlock::RecordWait::default()).await?.release().await
    /// # }
    /// ```
    pub fn attributes<N: Into<String>, V: Into<String>>(
        mut self,
        attributes: impl IntoIterator<Item = (N, V)>,
    ) -> Semaphore {
        self.lock = self.lock.attributes(attributes);
        self
    }

    /// Sets an observer for the waiting calls of the returned handle, as for those of a [lock](FairLock::observed).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// let exports = exports.observed(|waiting| eprintln!("before us: {:?}", waiting.position));
    /// exports.acquire(fairlock::RecordWait::Infinite).await?.release().await
    /// # }
    /// ```
    pub fn observed(mut self, observer: impl Fn(&Waiting) + Send + Sync + 'static) -> Semaphore {
        self.lock = self.lock.observed(observer);
        self
    }

    /// Makes calls of the returned handle fail at once where they could only wait for their own client, as
    /// [`FairLock::deny_self_wait`] does: if this client's own holds leave fewer permits than the call asks for.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let exports = exports.deny_self_wait();
    /// let all_but_one = exports.acquire_many(exports.permits() - 1, RecordWait::Infinite).await?;
    /// // Without the setting, this would wait for ever.
    /// assert!(exports.acquire_many(2, RecordWait::Infinite).await.is_err());
    /// all_but_one.release().await
    /// # }
    /// ```
    pub fn deny_self_wait(mut self) -> Semaphore {
        self.lock = self.lock.deny_self_wait();
        self
    }

    /// Limits the queue for calls through the returned handle. If `most` callers or more already wait, the call fails with
    /// [`Error::QueueFull`], as at a [lock](FairLock::max_waiters). Holders of permits do not count.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// use fairlock::{Error, RecordWait};
    ///
    /// match exports.max_waiters(10).acquire(RecordWait::Infinite).await {
    ///     Ok(permit) => permit.release().await,
    ///     Err(Error::QueueFull { .. }) => Ok(()), // try again later
    ///     Err(error) => Err(error),
    /// }
    /// # }
    /// ```
    pub fn max_waiters(mut self, most: usize) -> Semaphore {
        self.lock = self.lock.max_waiters(most);
        self
    }

    /// Limits how long permits that are taken through the returned handle are held, as [`FairLock::max_hold`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// let exports = exports.max_hold(std::time::Duration::from_secs(60));
    /// exports.acquire(fairlock::RecordWait::Infinite).await?.release().await
    /// # }
    /// ```
    pub fn max_hold(mut self, most: Duration) -> Semaphore {
        self.lock = self.lock.max_hold(most);
        self
    }

    /// Keeps permits that are taken through the returned handle for this long at least, as [`FairLock::min_hold`] does. So a semaphore of
    /// one permit is a rate limit: one turn in `least`.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// // Each permit is given out once a second at most.
    /// let exports = exports.min_hold(std::time::Duration::from_secs(1));
    /// exports.acquire(fairlock::RecordWait::Infinite).await?.release().await
    /// # }
    /// ```
    pub fn min_hold(mut self, least: Duration) -> Semaphore {
        self.lock = self.lock.min_hold(least);
        self
    }

    /// Waits for this call's turn and takes one permit. A single request if a permit is left and no caller waits.
    ///
    /// Waits, fairness, cancel safety and errors are those of [`FairLock::acquire`], except that callers of one client form no
    /// batch, unless they want all permits. Besides, [`Error::InvalidItem`] with
    /// [`ItemProblem::Permits`](crate::ItemProblem::Permits) if other callers say that the lock has another number of permits;
    /// then nothing is written.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// match exports.acquire(RecordWait::NoWait).await {
    ///     Ok(permit) => permit.release().await,
    ///     Err(fairlock::Error::NotGranted { .. }) => Ok(()), // no permit is left, or others wait
    ///     Err(other) => Err(other),
    /// }
    /// # }
    /// ```
    pub async fn acquire(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        self.acquire_many(1, wait).await
    }

    /// Waits for this call's turn and takes `permits` permits, all of them at once.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`Error::Invalid`] if the semaphore has fewer permits, or none are asked for.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// let all = exports.acquire_many(exports.permits(), fairlock::RecordWait::Infinite).await?;
    /// // alone: no other caller holds a permit
    /// all.release().await
    /// # }
    /// ```
    pub async fn acquire_many(&self, permits: u64, wait: RecordWait) -> Result<LockGuard, Error> {
        self.check_permits(permits)?;
        self.lock.acquire_permits(permits, wait).await
    }

    /// Names leases that take `permits` of these permits each, across processes: any process that has the text of a lease extends it or gives
    /// its permits back. They stand in one queue with all other callers.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the semaphore has fewer permits, or none are asked for.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn start(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::RecordWait;
    ///
    /// let leases = exports.lease_lock(2)?;
    /// let lease = leases.acquire_in_turn("export-4711", Duration::from_secs(3600), RecordWait::Infinite).await?;
    /// // another process, later
    /// leases.release(&lease).await
    /// # }
    /// ```
    pub fn lease_lock(&self, permits: u64) -> Result<LeaseLock, Error> {
        self.check_permits(permits)?;
        Ok(LeaseLock::new(self.lock.clone(), permits))
    }

    pub(crate) fn into_lock(self) -> FairLock {
        self.lock
    }

    pub(crate) fn check_permits(&self, permits: u64) -> Result<(), Invalid> {
        match (1..=self.permits).contains(&permits) {
            true => Ok(()),
            false => Err(Invalid::permits(permits, self.permits)),
        }
    }

    /// Takes one permit, runs `work` for as long as the permit is held, and releases it. For several permits, acquire them and
    /// use [`LockGuard::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`FairLock::run`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), if the work never began. [`Error::Lost`] if the permit was lost before the work was done. A
    /// release that failed is no error here: it is in [`RunOutcome::released`].
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let ran = exports.run(RecordWait::default(), async |_permit| 40 + 2).await?;
    /// assert_eq!(ran.value, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(
        &self,
        wait: RecordWait,
        work: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<RunOutcome<T>, Error> {
        run::run(self.acquire(wait).await?, work).await
    }

    /// Takes one permit if it is available now: [`acquire`](Self::acquire) with [`RecordWait::NoWait`], for callers to which it
    /// is no error that all are taken. Returns `None` if all are taken, or others wait.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that [`Error::NotGranted`] is returned as `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// match exports.try_acquire().await? {
    ///     Some(permit) => permit.release().await,
    ///     None => Ok(()),
    /// }
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.try_acquire_many(1).await
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
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// match exports.try_acquire_many(2).await? {
    ///     Some(two) => two.release().await,
    ///     None => Ok(()),
    /// }
    /// # }
    /// ```
    pub async fn try_acquire_many(&self, permits: u64) -> Result<Option<LockGuard>, Error> {
        if_granted(self.acquire_many(permits, RecordWait::NoWait).await)
    }
}
