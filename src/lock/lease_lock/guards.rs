//! Holds that go on as leases, which any process can extend and release.

use std::time::Duration;

use super::{Lease, LeaseLock};
use crate::lock::guard::LockGuard;
use crate::vocabulary::error::Error;
use fairlock_protocol::agent::LeaseTerm;

impl LockGuard {
    /// Turns the hold into a lease under the name `id`, which ends after `span` unless a process extends or releases it. So a caller can
    /// wait for its turn in any way, share the lock or take permits. Then it hands the hold over to a Lambda, a workflow or a later run.
    ///
    /// From the call on, the hold may not be relied on any more. The lease may be from the moment at which it is returned, until
    /// [`Lease::expires_at`]. Let the work rest in between. From then on this client renews nothing, and no process watches over the hold.
    /// The lease is one of the [lease lock](crate::LockClient::lease_lock) of the same name, or of that of the
    /// [semaphore](crate::Semaphore::lease_lock) or of the [shared lock](crate::LeaseLock::shared): they find it by its name, extend and
    /// release it. Costs one request, and another if no answer has told this client the time.
    ///
    /// The [longest](crate::FairLock::max_hold) and the [shortest](crate::FairLock::min_hold) time of the hold do not apply to the
    /// lease. Callers of this client that came together with this caller lose their place behind it, and wait at the end of the queue.
    ///
    /// # Limitations
    ///
    /// The ticket of the lease may be larger than the guard's: it is the newest of the tickets that were drawn together with it. Fence with
    /// the ticket of the lease. A name that another lease of this lock has makes it open which of the two is found by it.
    ///
    /// A transaction with a [check](Self::check_item), or a write of [data](Self::set_data), that had no answer before may still be applied
    /// under the lease. A [safety margin](crate::LockClientBuilder::safety_margin) does not apply to the lease. The
    /// [place id](Self::place_id) of the guard does not end it: [`give_up`](crate::LockClient::give_up) leaves it alone.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold was lost before. [`Error::Refused`] where answers have no `Date`: no clock could tell when the lease
    /// ends. [`Error::Invalid`] for a name or a time that [`LeaseLock::acquire`](crate::LeaseLock::acquire) refuses. The guard is gone with
    /// each of these errors, and what it had is given back in the background. [`Error::Unavailable`] if the request had no answer before the
    /// client's own lease ended. The name may have the lock then, until the lease ends or a process finds and releases it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the hold became a lease: if not, the lock is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn start(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = exports.acquire_many(2, fairlock::RecordWait::Infinite).await?;
    /// // starts the work elsewhere, which reports within an hour
    /// let lease = guard.into_lease("export-4711", Duration::from_secs(3600)).await?;
    /// println!("{lease}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn into_lease(self, id: impl Into<String>, span: Duration) -> Result<Lease, Error> {
        const VERB: &str = "turn a hold into a lease";
        let id = id.into();
        let name = self.view().name.clone();
        let permits = self.permits();
        let leases = LeaseLock::of_hold(self.inner(), name.clone(), permits);
        leases.check_call(&id, span)?;
        let past = leases.in_time(VERB, leases.know_the_past(VERB)).await?;
        let term = LeaseTerm {
            id: id.into(),
            span,
            past,
        };
        let entry = self.becomes(term, VERB).await?;
        match Lease::of(&name, &entry) {
            Some(lease) => Ok(lease),
            // An entry that was just dated and named is a lease.
            None => Err(leases.lost(entry.ticket, None, None).await),
        }
    }
}
