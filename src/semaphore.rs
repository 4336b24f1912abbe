//! A lock that several have at one time, up to a number.

use crate::error::{Error, Invalid};
use crate::guard::LockGuard;
use crate::lock::{FairLock, if_granted};
use crate::run::{self, RunOutcome};
use crate::state::Waiting;
use crate::wait::RecordWait;

/// The most permits of one lock. Whoever has one is an entry on the lock's item, which each write of it pays for.
pub(crate) const MAX_PERMITS: u64 = 1000;

/// A lock of several permits: as many as that have one at a time, on all hosts together, in one fair queue.
///
/// First come, first served, also where several permits are taken at once: who waits for five is not passed by those who
/// come later for one, though one may be left meanwhile.
///
/// **Tickets do not exclude each other here.** Several have permits at one time, so a resource that refuses smaller
/// tickets than it has seen refuses some who hold a permit rightly. Fence with tickets only what a
/// [fair lock](crate::LockClient::fair_lock) protects.
///
/// Who has permits and who waits is told by the [fair lock](crate::LockClient::fair_lock) of the same name:
/// [`inspect`](FairLock::inspect) and [`watch`](FairLock::watch) read any lock.
///
/// Each who has a permit is an entry of some 250 bytes on the lock's item, and each write of the item, by any of them,
/// is paid for by its kilobytes: with a hundred who hold, that is 25 write units for a heartbeat.
///
/// # Examples
///
/// ```
/// # async fn call(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
/// use fairlock::RecordWait;
///
/// let exports = locks.semaphore("exports", 5)?;
/// let large = exports.acquire_many(3, RecordWait::default()).await?;
/// // three of the five
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

    /// The same semaphore, whose calls [say this of themselves](FairLock::attributes).
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

    /// The same semaphore, whose waiting calls tell `observer` how far they have come, as those of a [lock](FairLock::observed) do.
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

    /// The same semaphore, in whose queue no more than so many wait: a call that would have to wait behind as many, or more, is
    /// refused with [`Error::QueueFull`], as at a [lock](FairLock::max_waiters). Those who have permits do not count.
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

    /// Waits for its turn and takes one permit. One request if one is left and nobody waits.
    ///
    /// Waits, fairness, cancel safety and errors are those of [`FairLock::acquire`], except that callers of one client go
    /// each for themselves, unless they want all permits. Besides, [`Error::InvalidItem`] with
    /// [`ItemProblem::Permits`](crate::ItemProblem::Permits) if others say that the lock has another number of permits; then
    /// nothing is written.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// match exports.acquire(RecordWait::NoWait).await {
    ///     Ok(permit) => permit.release().await,
    ///     Err(fairlock::Error::NotGranted { .. }) => Ok(()), // all are taken, or others wait
    ///     Err(other) => Err(other),
    /// }
    /// # }
    /// ```
    pub async fn acquire(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        self.acquire_many(1, wait).await
    }

    /// Waits for its turn and takes so many permits, all of them at once.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`Error::Invalid`] if there are not so many, or none are asked for.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// let all = exports.acquire_many(exports.permits(), fairlock::RecordWait::Infinite).await?;
    /// // alone
    /// all.release().await
    /// # }
    /// ```
    pub async fn acquire_many(&self, permits: u64, wait: RecordWait) -> Result<LockGuard, Error> {
        if permits == 0 || permits > self.permits {
            return Err(Invalid::Permits {
                said: permits,
                most: self.permits,
            }
            .into());
        }
        self.lock.acquire_permits(permits, wait).await
    }

    /// Takes one permit, runs `work` for as long as it is held, and releases it. With several permits, acquire them and use
    /// [`LockGuard::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`FairLock::run`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire): the work was never begun. [`Error::Lost`] when the permit was lost before the work was
    /// done. How the release went is no error but in [`RunOutcome::released`].
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

    /// Takes one permit if it can be had now: [`acquire`](Self::acquire) with [`RecordWait::NoWait`], for callers to
    /// whom it is no error that all are taken.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), but for [`Error::NotGranted`], which is `None` here: all are taken, or others
    /// wait.
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

    /// Takes so many permits, all of them at once, if they can be had now.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many), but for [`Error::NotGranted`], which is `None` here.
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
