//! Work that is bound to a hold: dropped when the lock is lost, and followed by the release.

use std::future::Future;

use crate::lock::fair_lock::FairLock;
use crate::lock::guard::LockGuard;
use crate::vocabulary::error::{Error, LockLost};
use crate::vocabulary::wait::RecordWait;

/// What work under a lock returned, and how the release after it went.
///
/// The work is done by then, so a failed release takes nothing from its value. The caller decides whether the failure matters:
/// [`value`](Self::value) ignores it, and [`into_result`](Self::into_result) returns it.
///
/// # Examples
///
/// ```
/// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
/// use fairlock::RecordWait;
///
/// let ran = lock.run(RecordWait::default(), async |_| 40 + 2).await?;
/// if let Err(error) = &ran.released {
///     eprintln!("{error}"); // the work is done all the same
/// }
/// assert_eq!(ran.value, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it has what the work returned, and whether the lock was released"]
#[non_exhaustive]
pub struct RunOutcome<T> {
    /// What the work returned, an error of its own included.
    pub value: T,
    /// How the release went, as [`LockGuard::release`] says. After [`Error::Lost`] what the work did may have overlapped with the
    /// next holder. After any other error the next in the queue only waits for the lease to end.
    pub released: Result<(), Error>,
}

impl<T> RunOutcome<T> {
    /// Returns the value, if the lock was released too.
    ///
    /// # Errors
    ///
    /// The error of the release; the value is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let total = lock.run(RecordWait::default(), async |_| 40 + 2).await?.into_result()?;
    /// # let _: i32 = total;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_result(self) -> Result<T, Error> {
        self.released.map(|()| self.value)
    }
}

impl FairLock {
    /// Acquires the lock, runs `work` for as long as it is held, and releases it: the lock as a scope.
    ///
    /// `work` gets the guard, for its [`ticket`](LockGuard::ticket), and may return anything. A `Result` of its own comes back as
    /// it is, in [`RunOutcome::value`]. When the lock is lost, the work is dropped where it awaits, and its result is never used.
    /// That holds also for work that came to its end after the hold had ended.
    ///
    /// The future can be spawned if what the work captures is `Send` and owned by the task, as in `async move` closures.
    ///
    /// The loss does not stop work that does not await. Such work fences with the ticket what must not be done late, or asks
    /// [`is_held`](LockGuard::is_held) first. Work that has to act on the loss watches [`lost`](LockGuard::lost) itself, without
    /// `run`.
    ///
    /// # Fairness
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. If the work has begun, it drops the work, and then releases the lock
    /// in the background. A panic of the work does the same, and reaches the caller.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), if the work never began. [`Error::Lost`] if the lock was lost before the work was done. A
    /// release that failed is no error here: it is in [`RunOutcome::released`].
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # struct Ledger;
    /// # impl Ledger {
    /// #     async fn settle(&self, _: fairlock::Ticket) -> Result<u64, std::io::Error> { Ok(0) }
    /// # }
    /// # async fn turn(lock: fairlock::FairLock, ledger: Ledger) -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock::RecordWait;
    ///
    /// let ran = lock.run(RecordWait::default(), async |guard| ledger.settle(guard.ticket()).await).await?;
    /// let settled = ran.value?; // the ledger's own error
    /// # let _ = settled;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(
        &self,
        wait: RecordWait,
        work: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<RunOutcome<T>, Error> {
        run(self.acquire(wait).await?, work).await
    }
}

impl LockGuard {
    /// Runs `work` for as long as the lock is held, and releases it: [`FairLock::run`] for a lock that is held already.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and then releases the lock in the background.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost before the work was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// if let Some(guard) = lock.try_acquire().await? {
    ///     let ticket = guard.ticket();
    ///     guard.run(async { println!("working under token {ticket}") }).await?.into_result()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(self, work: impl Future<Output = T>) -> Result<RunOutcome<T>, Error> {
        run(self, async |_| work.await).await
    }
}

/// A hold, or several as one, to which work can be bound.
pub(crate) trait HoldHandle: Sized + Sync {
    /// How the hold was lost, if it was.
    fn loss(&self) -> Option<LockLost>;
    /// Resolves when the hold is lost.
    fn lost(&self) -> impl Future<Output = LockLost> + Send;
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Runs work for as long as the hold lasts, and releases it.
pub(crate) async fn run<H: HoldHandle, T>(
    hold: H,
    work: impl AsyncFnOnce(&H) -> T,
) -> Result<RunOutcome<T>, Error> {
    let value = while_held(&hold, work(&hold)).await?;
    Ok(RunOutcome {
        value,
        released: hold.release().await,
    })
}

/// Runs work for as long as the hold lasts.
pub(crate) async fn while_held<T>(
    hold: &impl HoldHandle,
    work: impl Future<Output = T>,
) -> Result<T, LockLost> {
    let value = tokio::select! {
        biased;
        lost = hold.lost() => return Err(lost),
        value = work => value,
    };
    // The lease may have ended while the work did not await.
    hold.loss().map_or(Ok(value), Err)
}

impl HoldHandle for LockGuard {
    fn loss(&self) -> Option<LockLost> {
        self.loss()
    }

    fn lost(&self) -> impl Future<Output = LockLost> + Send {
        self.lost()
    }

    fn release(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.release()
    }
}
