//! Work that is bound to a hold: dropped when the lock is lost, and followed by the release.

use std::future::Future;

use crate::error::{Error, LockLost};
use crate::guard::LockGuard;
use crate::lock::FairLock;
use crate::wait::RecordWait;

/// What work under a lock returned, and how the release after it went.
///
/// By then the work is done, so a release that failed takes nothing from its value: the caller says whether it
/// matters, by [`value`](Self::value) or by [`strict`](Self::strict).
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
    /// What the work returned; an error of its own included.
    pub value: T,
    /// How the release went, as [`LockGuard::release`] says: after [`Error::Lost`] what the work did may have
    /// overlapped with the next holder; after any other error the next in the queue only waits for the lease to end.
    pub released: Result<(), Error>,
}

impl<T> RunOutcome<T> {
    /// The value, if the lock was released too.
    ///
    /// # Errors
    ///
    /// How the release failed; the value is dropped.
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
    /// `work` is given the guard, for its [`ticket`](LockGuard::ticket), and returns whatever it likes; a `Result` of
    /// its own comes back as it is, in [`RunOutcome::value`]. When the lock is lost the work is dropped where it awaits, and
    /// its result is never used: also when it came to its end and the hold had ended before.
    ///
    /// Work that does not await is not stopped: what must not be done late is fenced with the ticket, or asks
    /// [`is_held`](LockGuard::is_held) first. Work that has something to do at the loss watches
    /// [`lost`](LockGuard::lost) itself, without `run`.
    ///
    /// # Fairness
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue; or drops the work, and then releases the lock in the
    /// background. So does a panic of the work, which comes through.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire): the work was never begun. [`Error::Lost`] when the lock was lost before the
    /// work was done. How the release went is no error but in [`RunOutcome::released`].
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
    /// [`Error::Lost`] when the lock was lost before the work was done.
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

/// One hold, or several as one, that work can be bound to.
pub(crate) trait Tenure: Sized + Sync {
    /// How it was lost, if it was.
    fn loss(&self) -> Option<LockLost>;
    /// Resolves when it is lost.
    fn lost(&self) -> impl Future<Output = LockLost> + Send;
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Runs work for as long as the hold lasts, and releases it.
pub(crate) async fn run<H: Tenure, T>(
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
    hold: &impl Tenure,
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

impl Tenure for LockGuard {
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
