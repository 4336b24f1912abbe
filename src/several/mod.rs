//! Several locks at once, all or none, taken in one order so that those who name them otherwise never wait in a ring.
//!
//! `docs/several.md` says why the order is enough, and why the same ticket on each lock is not.

mod guard;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::LockClient;
use crate::core::Core;
use crate::error::{Error, Invalid, LostLock};
use crate::lock::FairLock;
use crate::run::{self, Ran, Tenure};
use crate::wait::RecordWait;

pub use guard::SeveralGuard;

/// What is left of a time-out when it is over: the last lock is asked for once, so that the error says who has it.
const NO_TIME: Duration = Duration::from_nanos(1);

/// Names of locks to be had at the same time. Cheap to clone; naming them neither acquires them nor sends anything.
///
/// # Limitations
///
/// - **Deadlocks are ruled out only among those who take all of their locks this way.** Who holds one lock and then
///   asks for a lesser one by itself is outside of the order; time-outs end what comes of that.
/// - **The first is held while the next is waited for**, renewed all the time. Whoever wants only the first waits for
///   that too.
/// - **One after the other**: with all of them free it takes a round trip each.
/// - **Tickets are those of each lock.** Nothing orders one lock's holds against another's.
///
/// # Examples
///
/// ```
/// # async fn transfer(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
/// use std::time::Duration;
/// use fairlock::RecordWait;
///
/// let accounts = locks.several(["account/42", "account/7"])?;
/// let guard = accounts.acquire(RecordWait::Timeout(Duration::from_secs(60))).await?;
/// tokio::select! {
///     lost = guard.lost() => eprintln!("stop: {} was lost: {}", lost.lock, lost.reason),
///     () = async { /* the work */ } => {}
/// }
/// guard.release().await
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming locks does not acquire them"]
pub struct SeveralLocks {
    core: Arc<Core>,
    /// In the order in which they are taken.
    locks: Vec<FairLock>,
}

impl LockClient {
    /// Names several locks, to be had all or none; sends nothing. In which order they are named makes no difference,
    /// and a lock that is named twice is one lock: the two accounts of a transfer may be the same.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if there is no name, or one that [`fair_lock`](Self::fair_lock) would refuse.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn name(locks: &fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let accounts = locks.several(["account/7", "account/42", "account/7"])?;
    /// assert!(accounts.names().eq(["account/42", "account/7"]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn several(
        &self,
        names: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<SeveralLocks, Error> {
        let mut locks = BTreeMap::new();
        for name in names {
            let lock = self.fair_lock(name)?;
            locks.insert(lock.name.clone(), lock);
        }
        if locks.is_empty() {
            return Err(Invalid::NoNames.into());
        }
        Ok(SeveralLocks {
            core: Arc::clone(&self.core),
            locks: locks.into_values().collect(),
        })
    }
}

impl SeveralLocks {
    /// The names of the locks in the order in which they are taken, which is that of their bytes, each once.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(accounts: &fairlock::SeveralLocks) {
    /// accounts.names().for_each(|name| println!("waiting for {name}"));
    /// # }
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.locks.iter().map(FairLock::name)
    }

    /// Waits for its turn at each of the locks in the order of their names, and has all of them, or none.
    ///
    /// All who take several locks take them in this one order, so nobody who holds a lock waits for one who waits for
    /// it. A lock that was taken is held and renewed while the others are waited for; if it is lost meanwhile, all
    /// are released, and it begins again within the same time.
    ///
    /// With [`RecordWait::NoWait`] each is tried once, and the first that is held ends the call; of calls that stand
    /// in each other's way, one has its locks. With [`RecordWait::Timeout`] the time is that of all of them together,
    /// and the call returns at most one request time-out after it.
    ///
    /// # Fairness
    ///
    /// First come, first served at each lock by itself, as [`FairLock::acquire`]. Between calls that want several
    /// there is no order: who came later and wants fewer may be done sooner.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any point releases what was taken, and gives up the place in line, in the background.
    ///
    /// # Errors
    ///
    /// As [`FairLock::acquire`], of the lock that could not be had: [`Error::NotGranted`] says which, and who has it.
    /// Those that were taken are released in the background.
    ///
    /// # Panics
    ///
    /// As [`FairLock::acquire`].
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn transfer(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::{Error, RecordWait};
    ///
    /// match locks.several(["account/42", "account/7"])?.acquire(RecordWait::default()).await {
    ///     Ok(guard) => guard.release().await,
    ///     Err(Error::NotGranted { lock, .. }) => {
    ///         eprintln!("{lock} is busy, try again later");
    ///         Ok(())
    ///     }
    ///     Err(other) => Err(other),
    /// }
    /// # }
    /// ```
    pub async fn acquire(&self, wait: RecordWait) -> Result<SeveralGuard, Error> {
        let store = &self.core.store;
        let started = store.now();
        let waited = || store.now().since(started);
        // Each turn but the last has lost a lock on the way.
        loop {
            let taken = self.take_all(|| left_of(wait, waited())).await;
            if let Some(guard) = taken.map_err(|error| in_all(error, waited()))? {
                return Ok(guard);
            }
        }
    }

    /// Takes the locks if all of them can be had now: [`acquire`](Self::acquire) with [`RecordWait::NoWait`], for
    /// callers to whom somebody else's hold is no error.
    ///
    /// # Fairness, cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), but for [`Error::NotGranted`], which is `None` here.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn once(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// match locks.several(["account/42", "account/7"])?.try_acquire().await? {
    ///     Some(guard) => guard.release().await,
    ///     None => Ok(()), // somebody is at one of them
    /// }
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<SeveralGuard>, Error> {
        match self.acquire(RecordWait::NoWait).await {
            Ok(guard) => Ok(Some(guard)),
            Err(Error::NotGranted { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the locks, runs `work` for as long as all of them are held, and releases them: [`FairLock::run`] for
    /// several.
    ///
    /// # Fairness, panics
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up what was taken so far; or drops the work, and then releases the locks in the
    /// background.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire): the work was never begun. [`Error::Lost`] when one of the locks was lost before
    /// the work was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn transfer(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let accounts = locks.several(["account/42", "account/7"])?;
    /// let ran = accounts.run(RecordWait::default(), async |guard| guard.ticket("account/42")).await?;
    /// assert!(ran.value.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(
        &self,
        wait: RecordWait,
        work: impl AsyncFnOnce(&SeveralGuard) -> T,
    ) -> Result<Ran<T>, Error> {
        run::run(self.acquire(wait).await?, work).await
    }

    /// None: one that was taken was lost before the others were, and all are given up.
    async fn take_all(&self, wait: impl Fn() -> RecordWait) -> Result<Option<SeveralGuard>, Error> {
        let mut taken = SeveralGuard {
            guards: Vec::with_capacity(self.locks.len()),
        };
        for lock in &self.locks {
            let granted = tokio::select! {
                biased;
                lost = taken.lost() => return Ok(begin_again(&lost)),
                granted = lock.acquire(wait()) => granted?,
            };
            taken.guards.push(granted);
        }
        match taken.loss() {
            Some(lost) => Ok(begin_again(&lost)),
            None => Ok(Some(taken)),
        }
    }
}

fn begin_again(lost: &LostLock) -> Option<SeveralGuard> {
    let LostLock {
        lock,
        ticket,
        reason,
    } = lost;
    tracing::info!(%lock, %ticket, %reason, "lost while it waited for others: begins again");
    None
}

fn left_of(wait: RecordWait, waited: Duration) -> RecordWait {
    match wait {
        RecordWait::Timeout(span) if !span.is_zero() => {
            RecordWait::Timeout(span.saturating_sub(waited).max(NO_TIME))
        }
        other => other,
    }
}

/// What one lock's error says of the time is meant of all.
fn in_all(mut error: Error, in_all: Duration) -> Error {
    if let Error::NotGranted { waited, .. } | Error::Unavailable { waited, .. } = &mut error {
        *waited = in_all;
    }
    error
}

impl fmt::Debug for SeveralLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
