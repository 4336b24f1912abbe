//! How long the holds of a handle last at least and at most, and for how much longer they keep others waiting if they are lost.

use std::time::Duration;

use super::FairLock;

impl FairLock {
    /// Limits holds through the returned handle: a hold ends by itself when it has lasted for `most`, counted from the grant. The guard is
    /// lost then, with [`LossReason::MaxHold`](crate::LossReason::MaxHold), and the client releases the lock at once, whatever the caller
    /// does. So a caller that hangs while its process goes on renewing keeps the others waiting for no longer.
    ///
    /// The lease in the table ends with the hold, and a tenth of the client's [lease](crate::LockClientBuilder::lease_duration) later. So a process
    /// that stands still at that moment delays the others by no more than that.
    ///
    /// # Limitations
    ///
    /// The caller's work is not stopped: watch [`lost`](crate::LockGuard::lost), or use [`run`](Self::run), and compare fencing tokens. A
    /// limit shorter than the lease costs one request more a turn, which shortens the lease at the grant. A call with a limit joins no batch
    /// with other callers of this client: see [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Calls of the handle return [`Error::Invalid`] if `most` is shorter than a millisecond, or than [`min_hold`](Self::min_hold).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    ///
    /// use fairlock::{Error, LossReason, RecordWait};
    ///
    /// let lock = lock.max_hold(Duration::from_secs(600));
    /// let guard = lock.acquire(RecordWait::Infinite).await?;
    /// // ... work that takes some minutes ...
    /// match guard.release().await {
    ///     Err(Error::Lost { reason: LossReason::MaxHold { .. }, .. }) => eprintln!("too slow: roll back"),
    ///     released => released?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Error::Invalid`]: crate::Error::Invalid
    pub fn max_hold(mut self, most: Duration) -> FairLock {
        self.bounds.max = Some(most);
        self
    }

    /// Lengthens holds through the returned handle: the lock becomes free no earlier than `least` after the grant, however soon the guard is
    /// released. Meant for cron jobs on many hosts whose clocks differ: the host whose clock is late finds the lock held, though the work
    /// was done within a second.
    ///
    /// [`release`](crate::LockGuard::release) then sends one renewal, which says that the lock was given back and until when it is
    /// [kept](crate::Participant::kept_until), and returns. The process may end: others have the lock when that time is over by DynamoDB's
    /// clock and by their host's. That is at most a second later, and earlier or later by what clocks differ. If the process lives on, the
    /// client releases the lock in the background, on time. A shutdown does not wait for that, also if it is to release what is held.
    ///
    /// # Limitations
    ///
    /// A guard that is dropped is released in the background. If the process ends before that renewal is sent, only the lease that it had
    /// keeps the lock. A process that crashes while it works keeps the lock for its lease, and not for `least`. A grant that no caller takes is
    /// given back at once. A call with a minimum joins no batch with other callers of this client: see [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Calls of the handle return [`Error::Invalid`] if `least` is shorter than a millisecond, longer than [`max_hold`](Self::max_hold),
    /// or longer than half of the [idle retention](crate::LockClientBuilder::idle_retention). A release returns [`Error::Unavailable`] or [`Error::Refused`] if the renewal did not succeed: the
    /// lock is held until its lease ends, which may be too early.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn nightly(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    ///
    /// let lock = locks.fair_lock("nightly-report")?.min_hold(Duration::from_secs(60));
    /// if let Some(guard) = lock.try_acquire().await? {
    ///     // this host makes the report; no other host does within the minute
    ///     guard.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Error::Invalid`]: crate::Error::Invalid
    /// [`Error::Unavailable`]: crate::Error::Unavailable
    /// [`Error::Refused`]: crate::Error::Refused
    pub fn min_hold(mut self, least: Duration) -> FairLock {
        self.bounds.min = Some(least);
        self
    }

    /// Lets the times of the returned handle's holds begin when their caller has all of the locks that it takes together.
    pub(crate) fn begins_with_all(mut self) -> FairLock {
        self.bounds.begin_with_all = true;
        self
    }
}
