//! Changes how many permits a lock has, while callers hold it and wait for it.

use std::sync::Arc;

use crate::client::LockClient;
use crate::client_state::ClientInner;
use crate::error::{Error, Invalid};
use crate::name::LockName;
use crate::semaphore::MAX_PERMITS;
use crate::store::{Failure, most_permits};
use fairlock_protocol::item::LockItem;

/// How often a change is tried that other writes come before.
const ROUNDS: usize = 20;

/// What became of the number of permits that was to be [changed](LockClient::resize).
///
/// # Examples
///
/// ```
/// # fn tell(outcome: &fairlock::ResizeOutcome) {
/// match outcome {
///     fairlock::ResizeOutcome::Resized { before, taken } => println!("there were {before}, and {taken} are held"),
///     fairlock::ResizeOutcome::NotThere => println!("not used yet: its first caller says how many permits it has"),
///     fairlock::ResizeOutcome::Contended => println!("changed meanwhile, again and again: try again"),
///     _ => {}
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeOutcome {
    /// The lock has as many permits as was asked for.
    Resized {
        /// How many there were before.
        before: u64,
        /// How many are held now. That may be more than there are: holders keep their permits.
        taken: u64,
    },
    /// The table has no item of the lock: no caller has used it yet, or not for the idle retention. Its next caller says how many permits
    /// it has.
    NotThere,
    /// Another change of the number, or a change of the first place in the queue, came before each try. Nothing is changed.
    Contended,
}

impl LockClient {
    /// Changes how many permits a semaphore has, while callers hold permits and wait for some. Programs go on to name the number that they
    /// [were written with](LockClient::semaphore), and need no restart. For readers of a fair lock, this is how many may share it: 64 as a
    /// rule.
    ///
    /// More permits are given out at once, in the order of the queue. With fewer permits, each holder keeps what it has. Further callers
    /// wait until fewer permits are held than there are. A call that asks for more than there are by now holds the lock alone, when its
    /// turn comes. So does a call that asks for all permits that its program names, however many there are.
    ///
    /// The change lasts for as long as the lock's item: until the lock was idle for the
    /// [idle retention](crate::LockClientBuilder::idle_retention), or is [deleted](Self::delete_lock). For good, change the program.
    ///
    /// Costs two requests, and one more where waiters are let in.
    ///
    /// # Limitations
    ///
    /// With fewer permits, a holder may be given another position on the lock's item, which the client that holds it learns with its next
    /// renewal. Until then a transaction with its [check](crate::LockGuard::check_item) is refused, though it still holds its permits.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the number is changed: ask again.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] with [`Invalid::Permits`] if `permits` is 0, more than 1,000, or more than 80 where the program names fewer: the
    /// owners and attributes of more holders may not fit onto the item. With [`Invalid::OnePermit`] if the programs name a single permit:
    /// each of their callers takes all there is. [`Error::Unavailable`], [`Error::Refused`], [`Error::InvalidItem`] and
    /// [`Error::ShutDown`] as [`FairLock::inspect`](crate::FairLock::inspect).
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn busy(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::ResizeOutcome;
    ///
    /// // Eight exports at a time from now on, in place of the five that the workers name.
    /// if let ResizeOutcome::Resized { before, .. } = locks.resize("exports", 8).await? {
    ///     println!("{before} before");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resize(
        &self,
        lock: impl AsRef<str>,
        permits: u64,
    ) -> Result<ResizeOutcome, Error> {
        let name = LockName::new(lock.as_ref(), &self.inner.store.config().namespace)?;
        check(permits, MAX_PERMITS)?;
        let resized = self.inner.resize(&name, permits);
        Ok(self.inner.for_caller(resized).await??)
    }
}

fn check(said: u64, most: u64) -> Result<(), Invalid> {
    match (1..=most).contains(&said) {
        true => Ok(()),
        false => Err(Invalid::Permits { said, most }),
    }
}

/// Whether a lock whose callers name so many permits can have this many.
fn fits(item: &LockItem, permits: u64) -> Result<(), Invalid> {
    match item.permits {
        1 => Err(Invalid::OnePermit),
        named => check(permits, most_permits(named)),
    }
}

impl ClientInner {
    /// Each round of the loop but the last has seen that another write came between the read and the change.
    async fn resize(
        self: &Arc<Self>,
        name: &LockName,
        permits: u64,
    ) -> Result<Result<ResizeOutcome, Invalid>, Failure> {
        let policy = self.policy_of_few(self.closed.clone());
        for _ in 0..ROUNDS {
            let read = || self.store.read_lock(name);
            let Some(seen) = self.store.retry(&policy, read).await?.value else {
                return Ok(Ok(ResizeOutcome::NotThere));
            };
            if let Err(invalid) = fits(&seen, permits) {
                return Ok(Err(invalid));
            }
            let before = seen.there_are();
            if before == permits {
                let taken = seen.taken();
                return Ok(Ok(ResizeOutcome::Resized { before, taken }));
            }
            let name = &name.with_permits(seen.permits);
            let resize = || self.store.resize(name, &seen, permits);
            let after = self.store.retry(&policy, resize).await?.value.shown();
            let Some(after) = after else { continue };
            // A refusal may be due to this very change, whose answer was lost.
            if after.resizes == seen.resizes.saturating_add(1) && after.there_are() == permits {
                tracing::warn!(lock = %name, before, permits, "the number of permits was changed");
                self.tell_of_resize(name, &seen, &after);
                let taken = after.taken();
                return Ok(Ok(ResizeOutcome::Resized { before, taken }));
            }
        }
        Ok(Ok(ResizeOutcome::Contended))
    }

    /// Notifies the next holder, and lets in the successors that need not wait any more.
    fn tell_of_resize(self: &Arc<Self>, name: &LockName, before: &LockItem, after: &LockItem) {
        if let Some(notifications) = &self.notifications {
            let promoted = after.promoted_since(before);
            promoted.for_each(|entry| notifications.tell_change(entry));
        }
        self.saw(name, after);
        self.admit(name, after);
    }
}
