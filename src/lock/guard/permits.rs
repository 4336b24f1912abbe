//! Permits that are given back while the hold goes on.

use super::LockGuard;
use crate::vocabulary::error::{Error, Invalid, LossReason};
use fairlock_protocol::agent::Done;

impl LockGuard {
    /// Keeps one permit and frees the others. An exclusive holder shares the lock from now on. It shares it with callers that come to share
    /// it, or that wait first in the queue to share it. Costs one write, or none if there is nothing to free.
    ///
    /// Callers of this client that came together with this caller may wait for the next turn. They want the lock exclusively, and are
    /// before all callers that would share it. So the table keeps all permits for them. Nothing is written then, unless a
    /// [check](Self::check_item) or a write of data may be under way: a write ends these. If all of these callers give up, or their time
    /// runs out, while this guard is held, the client frees the permits at once.
    ///
    /// Once this returned `Ok`, in either case, [`permits`](Self::permits) is one. A check that was asked for before refuses its
    /// transaction, and [`set_data`](Self::set_data) refuses too.
    ///
    /// While the [shortest time](crate::FairLock::min_hold) of the hold is not over, this writes nothing: the table keeps all permits, and the
    /// client frees them when the time is over. A check succeeds until then, whenever it was asked for, and refuses from then on: nobody else
    /// shares the lock before.
    ///
    /// The ticket stays the same. There is no way back: two sharing holders that both wanted the lock exclusively would wait for each
    /// other.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the guard no longer held the lock. [`Error::Unavailable`] or [`Error::Refused`] if the write did not succeed
    /// before the lease ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits are free. The guard keeps one permit in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// let mut guard = lock.acquire(fairlock::RecordWait::default()).await?;
    /// // write
    /// guard.downgrade().await?;
    /// // read what was written, while others read it too
    /// guard.release().await
    /// # }
    /// ```
    pub async fn downgrade(&mut self) -> Result<(), Error> {
        let permits = self.permits().saturating_sub(1);
        self.gives_back(permits).await
    }

    /// Gives some of the guard's permits back, and keeps the others. The next callers in the queue get them at once. Costs one
    /// request.
    ///
    /// A holder of all permits shares the lock from then on, as after [`downgrade`](Self::downgrade). Permits are given back later, and this
    /// returns at once, while the [shortest time](crate::Semaphore::min_hold) of the hold is not over. So they are while callers of this
    /// client that came together with this caller wait for the next turn.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the guard has no more permits than these: [`release`](Self::release) gives all back.
    /// [`Error::Lost`] if the hold was lost. [`Error::Unavailable`] or [`Error::Refused`] if the request did not succeed before the lease
    /// ended. The guard counts on these permits no more then, and its client goes on to give them back while it holds the others.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits are given back: [`permits`](Self::permits) tells what the guard has. The guard
    /// keeps the others in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn export(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// let mut guard = exports.acquire_many(3, fairlock::RecordWait::Infinite).await?;
    /// // the large part is done
    /// guard.release_some(2).await?;
    /// assert_eq!(guard.permits(), 1);
    /// guard.release().await
    /// # }
    /// ```
    pub async fn release_some(&mut self, permits: u64) -> Result<(), Error> {
        self.check_part(permits)?;
        self.gives_back(permits).await
    }

    async fn gives_back(&mut self, permits: u64) -> Result<(), Error> {
        let started = self.inner().store.now();
        if let Some(reason) = self.watch().loss() {
            return Err(self.lost_by(reason).into());
        }
        if permits == 0 {
            return Ok(());
        }
        match self.ordered(self.watch().frees(permits), started).await? {
            Done::Freed => Ok(()),
            _ => {
                let reason = self.watch().loss().unwrap_or(LossReason::Released);
                Err(self.lost_by(reason).into())
            }
        }
    }

    fn check_part(&self, said: u64) -> Result<(), Invalid> {
        let held = self.permits();
        match (1..held).contains(&said) {
            true => Ok(()),
            false => Err(Invalid::new(format!(
                "{said} permits cannot be taken off a guard that holds {held}, for at least one must be taken and one must stay: release \
                 the guard to give all back"
            ))),
        }
    }
}
