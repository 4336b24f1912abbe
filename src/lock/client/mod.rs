//! The client: one table, one set of settings, and the locks named through it.

mod builder;

use std::time::Duration;

use crate::agent::Driven;
use crate::agent::client_state::ClientHandle;
use crate::lock::fair_lock::FairLock;
use crate::lock::lease_lock::LeaseLock;
use crate::lock::semaphore::{MAX_PERMITS, Semaphore};
use crate::runtime::background::Job;
use crate::vocabulary::config::SHARERS;
use crate::vocabulary::error::{Error, Invalid};
use crate::vocabulary::name::LockName;
use fairlock_protocol::ticket::Ticket;

pub use builder::LockClientBuilder;

/// Names locks in one table. Cheap to clone; all clones share settings and background work.
///
/// A client logs a warning if its last handle (itself, its locks, its guards) is dropped while it releases a lock or leaves a queue. The
/// warning names the locks: if the process ends then, other processes wait for a lease. A [`shutdown`](Self::shutdown) that returned has
/// reported them, so it leaves nothing to warn of. A shutdown that was dropped does, and so does a dropped [`scope`](Self::scope). A scope
/// that returns ends a client the right way.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::{LockClient, RecordWait, embedded::Engine};
///
/// // In production: aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)
/// let dynamodb = Engine::memory()?.client();
/// let locks = LockClient::builder(dynamodb).build()?;
/// locks.create_table().await?;
///
/// locks.scope(async |locks| {
///     let guard = locks.fair_lock("account/42")?.acquire(RecordWait::default()).await?;
///     println!("turn {}", guard.ticket());
///     guard.release().await?;
///     Ok(())
/// })
/// .await
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct LockClient {
    pub(crate) inner: ClientHandle,
}

impl LockClient {
    /// Starts a builder from the caller's SDK client. fairlock uses the credentials, the region and the endpoint of that client. Retries
    /// and time-outs are fairlock's own, whatever that client's are.
    ///
    /// So is the cache of credentials. A load may take 30 s, however short the requests are that wait for it. Credentials that expire are
    /// renewed five minutes before that, or after half of their time if that is later.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn build(dynamodb: aws_sdk_dynamodb::Client) {
    /// let builder = fairlock::LockClient::builder(dynamodb).table("locks");
    /// # drop(builder);
    /// # }
    /// ```
    pub fn builder(dynamodb: aws_sdk_dynamodb::Client) -> LockClientBuilder {
        LockClientBuilder::new(dynamodb)
    }

    /// Returns a handle to a lock. Sends nothing. Locks of the same name and namespace in the same table are the same lock.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the name is empty or longer than the 2,048 bytes of a partition key.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn name(locks: &fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let lock = locks.fair_lock("account/42")?;
    /// assert_eq!(lock.name(), "account/42");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Result<FairLock, Error> {
        Ok(FairLock::new(
            self.inner.clone(),
            self.name(name.as_ref(), SHARERS)?,
        ))
    }

    /// Returns a handle to a semaphore with `permits` permits. Sends nothing. At most `permits` callers hold it at one time, or fewer if
    /// some callers take several permits each.
    ///
    /// Every user must pass the same number. It stands on the lock's item from its first use on, and a caller that passes another number is
    /// refused.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the name is empty or longer than the 2,048 bytes of a partition key. Also if there are no permits, or more
    /// than 1,000.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn call(locks: &fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// // At most five exports at a time, on all hosts together.
    /// let exports = locks.semaphore("exports", 5)?;
    /// let permit = exports.acquire(RecordWait::default()).await?;
    /// permit.release().await
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u64) -> Result<Semaphore, Error> {
        if !(1..=MAX_PERMITS).contains(&permits) {
            return Err(Invalid::permits(permits, MAX_PERMITS).into());
        }
        let name = self.name(name.as_ref(), permits)?;
        Ok(Semaphore::new(
            FairLock::new(self.inner.clone(), name),
            permits,
        ))
    }

    /// Returns a handle to a lock that is held for a time, by a name of the caller's own, across processes. Sends nothing.
    ///
    /// # Errors
    ///
    /// As [`fair_lock`](Self::fair_lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(locks: &fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let lock = locks.lease_lock("import/7")?;
    /// let lease = lock.acquire("transaction-1234", std::time::Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease_lock(&self, name: impl AsRef<str>) -> Result<LeaseLock, Error> {
        let name = self.name(name.as_ref(), SHARERS)?;
        let permits = name.permits().unwrap_or_default();
        let lock = FairLock::new(self.inner.clone(), name);
        Ok(LeaseLock::new(lock, permits))
    }

    /// How many notifications this client has sent, received, and dropped of these. Users have the metric `fairlock_notifications_total`.
    #[doc(hidden)]
    pub fn notification_counts(&self) -> Option<[u64; 3]> {
        Some(self.inner.notifications.as_ref()?.counts())
    }

    fn name(&self, name: &str, permits: u64) -> Result<LockName, Error> {
        let name = LockName::new(name, &self.inner.store.config().namespace)?;
        Ok(name.with_permits(permits))
    }

    /// Shuts this client down. Calls that wait end with [`Error::ShutDown`] and leave the queue. Waits for background work, for at most
    /// `within`. Treats each lock by itself, and reports what could not be done.
    ///
    /// With [`HeldLocks::Keep`], locks that are held stay held and renewed until their guards are released or dropped. To release a lock
    /// while its work goes on would let the next holder in before that work has ended. With [`HeldLocks::Release`], they are released, and
    /// their [`lost`](crate::LockGuard::lost) resolves.
    ///
    /// A lock whose release is still under way after `within` is in [`unfinished`](ShutdownReport::unfinished). Other callers then wait
    /// until its lease ends at the latest. Drop its guard then: to await its [`release`](crate::LockGuard::release) is to wait for the
    /// same.
    ///
    /// # Cancel safety
    ///
    /// The client is closed by the first poll. Dropping the future only stops the waiting. The client's last handle then warns of what is
    /// not done.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn stop(locks: fairlock::LockClient) {
    /// use std::time::Duration;
    /// use fairlock::HeldLocks;
    ///
    /// let report = locks.shutdown(HeldLocks::Keep, Duration::from_secs(5)).await;
    /// for left in report.unfinished {
    ///     eprintln!("not done: {left}");
    /// }
    /// # }
    /// ```
    pub async fn shutdown(&self, held: HeldLocks, within: Duration) -> ShutdownReport {
        self.close(held);
        let inner = &self.inner;
        tokio::select! {
            biased;
            () = inner.background.idle() => {}
            () = inner.store.config().clock.sleep(within) => {}
        }
        inner.background.reported();
        ShutdownReport {
            unfinished: inner
                .background
                .undone()
                .map(|job| job.to_string())
                .collect(),
            held: inner
                .used()
                .map(Driven::held)
                .unwrap_or_default()
                .iter()
                .map(|view| (view.name.to_string(), view.ticket))
                .collect(),
            rows_left: inner.requests.denials.left(),
        }
    }

    /// Ends all waits, and treats held locks as `held` says. A second call treats the locks that were granted meanwhile.
    pub(crate) fn close(&self, held: HeldLocks) {
        let inner = &self.inner;
        // Earlier failures were for the log. Failures from here on are for the report.
        if !inner.closed.is_cancelled() {
            inner.background.forget_failures();
        }
        inner.closed.cancel();
        if let Some(driven) = inner.used() {
            let open = inner.background.open(Job::closes());
            driven.closes(held == HeldLocks::Keep, open);
        }
    }
}

/// What [`LockClient::shutdown`] does with locks that are still held.
///
/// # Examples
///
/// ```
/// assert_ne!(fairlock::HeldLocks::Keep, fairlock::HeldLocks::Release);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldLocks {
    /// Leaves them to their guards.
    Keep,
    /// Releases them, whatever their owners are doing.
    Release,
}

/// What [`LockClient::shutdown`] could not do.
///
/// # Examples
///
/// ```
/// # fn check(report: fairlock::ShutdownReport) {
/// assert!(report.unfinished.is_empty() && report.held.is_empty());
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Background work that goes on, or that was tried since the client was closed and failed, each as a text that names the lock. Leases end
    /// what it leaves.
    pub unfinished: Vec<String>,
    /// Locks that are still held by their guards, with their tickets.
    pub held: Vec<(String, Ticket)>,
    /// How many rows of past turns this client left in the table since it was built, because a policy denies their deletion. TTL and sweeps
    /// remove them. Permit `dynamodb:BatchWriteItem`, or `dynamodb:DeleteItem`.
    pub rows_left: u64,
}
