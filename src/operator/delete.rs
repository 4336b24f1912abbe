//! Deletes a lock that nobody uses, without waiting for the end of its retention.

use std::sync::Arc;

use crate::agent::client_state::ClientInner;
use crate::lock::client::LockClient;
use crate::operator::state_reader;
use crate::sweeper::ToRemove;
use crate::vocabulary::error::Error;
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::LockState;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::judge::Judge;

/// What became of a lock that was to be [deleted](LockClient::delete_lock).
///
/// # Examples
///
/// ```
/// # fn tell(outcome: &fairlock::DeleteOutcome) {
/// match outcome {
///     fairlock::DeleteOutcome::Deleted => println!("deleted"),
///     fairlock::DeleteOutcome::NotThere => println!("the table has no such lock"),
///     fairlock::DeleteOutcome::InUse { state } => println!("in use: {:?}", state.holder),
///     _ => println!("used a moment ago: try again in a minute"),
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteOutcome {
    /// The lock is gone, and its data with it.
    Deleted,
    /// The table has no item of the lock.
    NotThere,
    /// The lock is held, or callers wait for it. Nothing was taken from them.
    InUse {
        /// The lock as it was seen.
        state: Box<LockState>,
    },
    /// The lock is idle, and its newest ticket is not a minute old, by DynamoDB's clock or this host's. If the lock were used again, a new
    /// ticket might not be larger.
    TooNew,
}

impl LockClient {
    /// Deletes an idle lock now: its item, with the data on it, and the rows that are settled. Holders, successors and waiters whose leases
    /// have expired are removed first. If anybody holds the lock or waits for it, it stays, and the outcome is [`DeleteOutcome::InUse`].
    ///
    /// Not needed as a rule: DynamoDB's TTL deletes a lock that was idle for the
    /// [idle retention](crate::LockClientBuilder::idle_retention). Meant for names that come once, for data that must go, and for a lock
    /// whose number of permits was wrong.
    ///
    /// The deletion is conditional on the lock being idle, and on no ticket having been drawn since it was read. A caller that comes later
    /// makes the lock again. Its tickets begin at the clock, and are larger than all before: fences go on.
    ///
    /// # Limitations
    ///
    /// Where answers have no `Date`, as those of DynamoDB Local, new tickets begin at the clock of a host. If that clock is behind by more
    /// than a minute, new tickets can be smaller than old ones.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lock is deleted: delete it again.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::InvalidItem`] and [`Error::ShutDown`] as
    /// [`FairLock::inspect`](crate::FairLock::inspect).
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn done(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::DeleteOutcome;
    ///
    /// if let DeleteOutcome::InUse { state } = locks.delete_lock("import/4711").await? {
    ///     println!("still in use: {:?}", state.holder);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_lock(&self, lock: impl AsRef<str>) -> Result<DeleteOutcome, Error> {
        let name = LockName::new(lock.as_ref(), &self.inner.store.config().namespace)?;
        self.inner.for_caller(self.inner.delete_idle(&name)).await
    }
}

impl ClientInner {
    async fn delete_idle(self: &Arc<Self>, name: &LockName) -> Result<DeleteOutcome, Failure> {
        let policy = self.policy_of_few(self.closed.clone());
        let was_there = self.requests.retry(&policy, || self.store.read_lock(name));
        let was_there = was_there.await?.value.is_some();
        let mut judge = Judge::default();
        let swept = self.sweep(name, &mut judge, ToRemove::EveryIdle);
        if swept.await?.locks > 0 {
            return Ok(DeleteOutcome::Deleted);
        }
        let left = self.requests.retry(&policy, || self.store.read_lock(name));
        Ok(match left.await?.value {
            None if was_there => DeleteOutcome::Deleted,
            None => DeleteOutcome::NotThere,
            Some(item) if item.is_idle() => DeleteOutcome::TooNew,
            Some(_) => DeleteOutcome::InUse {
                state: Box::new(state_reader::lock(&self.requests, name, &policy).await?),
            },
        })
    }
}
