//! Several locks that are held as one.

use std::fmt;
use std::future::{Future, pending};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;

use crate::agent::offer::Unused;
use crate::lock::guard::LockGuard;
use crate::lock::run::{self, HoldHandle, RunOutcome};
use crate::vocabulary::error::{Error, LockLost};
use fairlock_protocol::ticket::Ticket;

/// Several held locks, each with its own lease, until they are released, dropped, or lost.
///
/// Dropping the guard releases all of them in the background, and reports nothing.
///
/// # Examples
///
/// ```
/// # async fn transfer(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
/// use fairlock::RecordWait;
///
/// let guard = locks.multi_lock(["account/42", "account/7"])?.acquire(RecordWait::default()).await?;
/// for lock in guard.guards() {
///     println!("{} under token {}", lock.name(), lock.ticket());
/// }
/// guard.release().await
/// # }
/// ```
#[must_use = "locks are released as soon as their guard is dropped"]
pub struct MultiLockGuard {
    /// In the order in which they were taken.
    pub(super) guards: Vec<LockGuard>,
}

impl MultiLockGuard {
    /// The guard of each lock, in the order of their names.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::MultiLockGuard) {
    /// assert!(guard.guards().iter().all(|lock| !lock.in_danger()));
    /// # }
    /// ```
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Returns the ticket of this guard's hold of `lock`, which is the fencing token for what that lock protects. Returns `None`
    /// if the guard does not hold `lock`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn fence(guard: &fairlock::MultiLockGuard, newest_seen: fairlock::Ticket) {
    /// assert!(guard.ticket("account/42") > Some(newest_seen), "a stale writer");
    /// # }
    /// ```
    pub fn ticket(&self, lock: &str) -> Option<Ticket> {
        let guard = self.guards.iter().find(|guard| guard.name() == lock);
        guard.map(LockGuard::ticket)
    }

    /// Whether all of the locks are still held, as [`LockGuard::is_held`] says of each.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::MultiLockGuard) {
    /// if !guard.is_held() {
    ///     return; // before the next irreversible step
    /// }
    /// # }
    /// ```
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(LockGuard::is_held)
    }

    /// How long the caller may rely on all of the locks if no renewal succeeds from now on: the shortest [`LockGuard::remaining`]
    /// of them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn enough(guard: &fairlock::MultiLockGuard) -> bool {
    /// guard.remaining() > std::time::Duration::from_secs(5)
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        let remaining = self.guards.iter().map(LockGuard::remaining);
        remaining.min().unwrap_or_default()
    }

    /// Resolves when the first of the locks is lost, and says which. Never resolves once the locks were released or dropped.
    ///
    /// The others are still held then: release them, or drop the guard.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a loss is remembered, and every future of these holds reports it.
    ///
    /// # Panics
    ///
    /// As [`LockGuard::lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn watch(guard: &fairlock::MultiLockGuard) {
    /// let lost = guard.lost();
    /// tokio::spawn(async move {
    ///     let lost = lost.await;
    ///     eprintln!("{} was lost: {}", lost.lock, lost.reason);
    /// });
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LockLost> + Send + use<> {
        let mut losses: FuturesUnordered<_> = self.guards.iter().map(LockGuard::lost).collect();
        async move {
            match losses.next().await {
                Some(lost) => lost,
                None => pending().await,
            }
        }
    }

    /// Runs `work` for as long as all of the locks are held, and releases them:
    /// [`MultiLock::run`](crate::MultiLock::run) for locks that are held already.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and then releases the locks in the background.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if one of the locks was lost before the work was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn transfer(guard: fairlock::MultiLockGuard) -> Result<(), fairlock::Error> {
    /// guard.run(async { println!("both accounts are ours") }).await?.into_result()
    /// # }
    /// ```
    pub async fn run<T>(self, work: impl Future<Output = T>) -> Result<RunOutcome<T>, Error> {
        run::run(self, async |_| work.await).await
    }

    /// Releases all of the locks at once, each as [`LockGuard::release`] does. A release that fails does not keep the others from
    /// theirs.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] for the first lock, in the order of their names, that the guard no longer held. If it held all of them,
    /// the error of the first lock that could not be released. The errors of the others are logged.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release, which goes on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn done(guard: fairlock::MultiLockGuard) {
    /// match guard.release().await {
    ///     Ok(()) => {}
    ///     Err(fairlock::Error::Lost { lock, reason, .. }) => eprintln!("roll back {lock}: {reason}"),
    ///     Err(other) => eprintln!("the next in the queue waits for a lease to end: {other}"),
    /// }
    /// # }
    /// ```
    pub async fn release(self) -> Result<(), Error> {
        let releases = self.guards.into_iter().map(LockGuard::release);
        let failed = join_all(releases).await;
        let mut failed: Vec<_> = failed.into_iter().filter_map(Result::err).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let is_loss = |error: &Error| matches!(error, Error::Lost { .. });
        let told = failed.remove(failed.iter().position(is_loss).unwrap_or_default());
        for error in failed {
            tracing::warn!(%error, "could not release one of several locks");
        }
        Err(told)
    }

    /// Releases locks under which no work began.
    pub(super) async fn release_unused(self) -> Result<(), Error> {
        self.was_not_used();
        self.release().await
    }
}

impl Unused for MultiLockGuard {
    fn was_not_used(&self) {
        self.guards.iter().for_each(LockGuard::was_not_used);
    }
}

impl HoldHandle for MultiLockGuard {
    fn loss(&self) -> Option<LockLost> {
        self.guards.iter().find_map(LockGuard::loss)
    }

    fn lost(&self) -> impl Future<Output = LockLost> + Send {
        self.lost()
    }

    fn release(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.release()
    }
}

impl fmt::Debug for MultiLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.guards).finish()
    }
}
