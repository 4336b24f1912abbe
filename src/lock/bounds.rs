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
    /// clock, at most a second later, and earlier or later by what its front ends' clocks differ. If the process lives on, the client releases
    /// the lock in the background, on time. A shutdown does not wait for that, also if it is to release what is held.
    ///
    /// # Limitations
    ///
    /// A guard that is dropped is released in the background. If the process ends before that renewal is sent, only the lease that it had
    /// keeps the lock. A process that crashes while it works keeps the lock for its lease, and not for `least`. A call with a minimum
    /// joins no batch with other callers of this client: see [`acquire`](Self::acquire).
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

    /// Keeps others waiting for longer after a loss of a hold through the returned handle. If its process dies or is cut off, other callers get
    /// the lock no earlier than `grace` after the lease has ended. Meant for resources that cannot compare [fencing tokens](crate::Fence): what
    /// the lost holder sent last has this time to arrive.
    ///
    /// The lease that the entry shows to others is longer by `grace` from its first write on. The holder believes in its own
    /// [lease](crate::LockClientBuilder::lease_duration) alone, and its heartbeats are as frequent as ever.
    ///
    /// The grace follows a hold that ended at its local deadline, with [`LossReason::Expired`](crate::LossReason::Expired),
    /// [`LossReason::Unreachable`](crate::LossReason::Unreachable) or [`LossReason::MaxHold`](crate::LossReason::MaxHold). Nothing that is done
    /// with the guard shortens it then, neither a release nor a drop: the caller may have sent something before it learned of the loss. All
    /// that ends a hold on purpose hands the lock over at once, as ever: a release in time, a shutdown that
    /// [releases](crate::HeldLocks::Release), [`break_hold`](crate::LockClient::break_hold) of an operator, and
    /// [`give_up`](crate::LockClient::give_up).
    ///
    /// # Limitations
    ///
    /// The grace does not protect from what arrives later still, so fence wherever the resource can. A waiter that dies in the queue is passed
    /// later by `grace` too, because its place may come to hold the lock while it is dead. A call with a grace joins no batch with other callers
    /// of this client: see [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Calls of the handle return [`Error::Invalid`] if `grace` is shorter than a millisecond, or longer than half of the
    /// [idle retention](crate::LockClientBuilder::idle_retention) less the lease.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::RecordWait;
    ///
    /// // A request to the device takes 15 s at most, and the device knows no tokens.
    /// let lock = lock.grace_after_loss(Duration::from_secs(15));
    /// let guard = lock.acquire(RecordWait::Infinite).await?;
    /// guard.release().await // hands over at once
    /// # }
    /// ```
    ///
    /// [`Error::Invalid`]: crate::Error::Invalid
    pub fn grace_after_loss(mut self, grace: Duration) -> FairLock {
        self.bounds.grace = Some(grace);
        self
    }

    /// Lets the times of the returned handle's holds begin when their caller has all of the locks that it takes together.
    pub(crate) fn begins_with_all(mut self) -> FairLock {
        self.bounds.begin_with_all = true;
        self
    }
}
