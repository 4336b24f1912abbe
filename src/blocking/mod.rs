//! The locks for programs without a runtime: the same nouns, whose calls block the calling thread.
//!
//! A [`LockClient`] of this module has a thread of its own, named `fairlock`. That thread runs what the client does in the background: it
//! renews leases, leaves queues and releases the locks of dropped guards, while the program computes or waits elsewhere. The client, its
//! locks and its guards share the thread, and may be used from any number of threads at once.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use fairlock::{RecordWait, blocking::LockClient, embedded::Engine};
//!
//! // In production: `LockClient::connect`, whose example loads the credentials
//! let dynamodb = Engine::memory()?.client();
//! let locks = LockClient::new(fairlock::LockClient::builder(dynamodb).table("locks"))?;
//! locks.create_table()?;
//!
//! let lock = locks.fair_lock("account/42")?;
//! let guard = lock.acquire(RecordWait::Timeout(Duration::from_secs(60)))?;
//! println!("working under token {}", guard.ticket());
//! guard.check()?; // before each step that cannot be undone: is the lock still held?
//! guard.release()?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # A loss does not interrupt
//!
//! Nothing can stop a thread that computes. Work under a lock asks [`check`](LockGuard::check) before each step that cannot be undone, or
//! [fences](LockGuard::fence) it. [`LockGuard::wait_lost`] is for a thread that watches over the work.
//!
//! # The end
//!
//! The thread ends with the last handle of its client: the client itself, its locks, its guards, and their clones. Dropping that handle
//! closes the client, releases what it still holds, and waits for that, for at most four request time-outs (8 s by default). So a `main`
//! that returns, early by `?` too, leaves no lock held. What is not done by then is logged as a warning, and left to the leases.
//! [`LockClient::shutdown`] returns a report instead.
//!
//! A process that ends by `std::process::exit` or a signal, or that keeps a handle in a `static`, drops no handle. Call
//! [`LockClient::shutdown`] before.
//!
//! # Forks
//!
//! A process that is forked off has none of the program's threads. There each call returns [`Closed::NoRuntime`](crate::Closed::NoRuntime),
//! and each guard counts as lost. Fork, or become a daemon, before you build the client.
//!
//! # Async code
//!
//! A blocking call would stop all tasks of the runtime thread that makes it. In a task or a future that tokio polls, each blocking call
//! returns [`Error::Invalid`], and sends nothing. Threads of `spawn_blocking` and sections of
//! `block_in_place` may block. Handles and guards may be dropped anywhere: dropped in async code they wait for nothing, and the client's
//! thread does what is left. Two kinds of async code are not recognised, and their threads block: futures of other executors, and futures
//! in `tokio::task::unconstrained`.
//!
//! [`LockClient::as_async`] is the client for the async part of a program, and [`LockClient::block_on`] runs any other call of it.

mod context;
mod guard;
mod lease_lock;
mod lock;
mod multi_lock;
mod thread;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::lock::client::{self, HeldLocks, LockClientBuilder, ShutdownReport};
use crate::lock::multi_lock::LockClaim;
use crate::vocabulary::error::Error;
use thread::ClientThread;

pub use guard::LockGuard;
pub use lease_lock::LeaseLock;
pub use lock::{FairLock, Semaphore};
pub use multi_lock::{MultiLock, MultiLockGuard};

/// Names locks in one table, for threads that block. Cheap to clone; all clones share settings and one thread in the background.
///
/// # Examples
///
/// ```
/// # fn build(dynamodb: aws_sdk_dynamodb::Client) -> Result<(), fairlock::Error> {
/// use fairlock::{RecordWait, blocking::LockClient};
///
/// let locks = LockClient::new(fairlock::LockClient::builder(dynamodb).table("locks"))?;
/// let guard = locks.fair_lock("account/42")?.acquire(RecordWait::default())?;
/// println!("turn {}", guard.ticket());
/// guard.release()
/// # }
/// ```
#[derive(Clone)]
pub struct LockClient {
    // Dropped before the thread, which ends with its last handle.
    client: client::LockClient,
    thread: ClientThread,
}

impl LockClient {
    /// Checks the settings of an async client's builder against each other, and makes a client with a thread of its own. Sends nothing, so
    /// it does not block, and async code may call it too.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the values that do not go together. Also if the system starts no thread.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn build(dynamodb: aws_sdk_dynamodb::Client) -> Result<(), fairlock::Error> {
    /// let builder = fairlock::LockClient::builder(dynamodb).table("locks").lease_duration(Duration::from_secs(20));
    /// let locks = fairlock::blocking::LockClient::new(builder)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(builder: LockClientBuilder) -> Result<LockClient, Error> {
        let thread = ClientThread::start()?;
        LockClient::on(thread, builder)
    }

    /// Runs `set_up`, which makes the SDK's client and the builder, and then makes a client as [`new`](Self::new) does. So a program that
    /// has no runtime loads the settings and credentials of the SDK, which is async. The connections of the SDK's client live in this
    /// client's thread.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new). [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Panics
    ///
    /// When `set_up` panics.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # // A stand-in for the crate, on which fairlock does not depend.
    /// # mod aws_config { pub async fn load_from_env<T>() -> T { unimplemented!() } }
    /// # fn main() -> Result<(), fairlock::Error> {
    /// let locks = fairlock::blocking::LockClient::connect(async {
    ///     let dynamodb = aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await);
    ///     fairlock::LockClient::builder(dynamodb).table("locks")
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect(set_up: impl Future<Output = LockClientBuilder>) -> Result<LockClient, Error> {
        let thread = ClientThread::start()?;
        let builder = thread.block_on(set_up)?;
        LockClient::on(thread, builder)
    }

    fn on(mut thread: ClientThread, builder: LockClientBuilder) -> Result<LockClient, Error> {
        let client = thread.build(builder)?;
        Ok(LockClient { client, thread })
    }

    /// Returns the same client for async code, which shares locks, settings and background work with this one. It is shut down when the last
    /// handle of the blocking client is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn part(locks: fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
    /// let guard = locks.as_async().fair_lock("account/42")?.try_acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_async(&self) -> &client::LockClient {
        &self.client
    }

    /// Waits for a future of the async client, for example for a call that this module does not have. The calling thread polls it, beside
    /// this client's background work.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Panics
    ///
    /// When `work` panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn look(locks: fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
    /// let report = locks.block_on(locks.as_async().check_table())??;
    /// println!("{report}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Items of the caller's own, changed only as they were read:
    ///
    /// ```
    /// # fn close(locks: fairlock::blocking::LockClient, accounts: fairlock::VersionedTable) -> Result<(), Box<dyn std::error::Error>> {
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use fairlock::{Change, Item};
    /// let key = [("id", AttributeValue::S("42".into()))];
    /// let close = accounts.update(key, |_: Option<Item>| Ok::<_, std::convert::Infallible>(Change::Keep));
    /// locks.block_on(close)??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        self.thread.block_on(work)
    }

    /// Returns a handle to a lock. Sends nothing: [`fairlock::LockClient::fair_lock`](crate::LockClient::fair_lock).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the name is empty or longer than the 2,048 bytes of a partition key.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn name(locks: &fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
    /// let lock = locks.fair_lock("account/42")?;
    /// assert_eq!(lock.name(), "account/42");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Result<FairLock, Error> {
        let lock = self.client.fair_lock(name)?;
        Ok(FairLock::new(lock, self.thread.clone()))
    }

    /// Returns a handle to a semaphore with `permits` permits. Sends nothing:
    /// [`fairlock::LockClient::semaphore`](crate::LockClient::semaphore).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] as [`fair_lock`](Self::fair_lock). Also if there are no permits, or more than 1,000.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn call(locks: &fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
    /// let exports = locks.semaphore("exports", 5)?;
    /// exports.acquire(fairlock::RecordWait::default())?.release()
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u64) -> Result<Semaphore, Error> {
        let semaphore = self.client.semaphore(name, permits)?;
        Ok(Semaphore::new(semaphore, self.thread.clone()))
    }

    /// Names several locks, to be held all or none. Sends nothing:
    /// [`fairlock::LockClient::multi_lock`](crate::LockClient::multi_lock).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn name(locks: &fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
    /// let accounts = locks.multi_lock(["account/42", "account/7"])?;
    /// accounts.acquire(fairlock::RecordWait::default())?.release()
    /// # }
    /// ```
    pub fn multi_lock(
        &self,
        claims: impl IntoIterator<Item: Into<LockClaim>>,
    ) -> Result<MultiLock, Error> {
        let locks = self.client.multi_lock(claims)?;
        Ok(MultiLock::new(locks, self.thread.clone()))
    }

    /// Returns a handle to a lock that is held for a time, by a name of the caller's own, across processes. Sends nothing:
    /// [`fairlock::LockClient::lease_lock`](crate::LockClient::lease_lock).
    ///
    /// # Errors
    ///
    /// As [`fair_lock`](Self::fair_lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(locks: &fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
    /// let lock = locks.lease_lock("import/7")?;
    /// let lease = lock.acquire("transaction-1234", std::time::Duration::from_secs(60))?;
    /// lock.release(&lease)
    /// # }
    /// ```
    pub fn lease_lock(&self, name: impl AsRef<str>) -> Result<LeaseLock, Error> {
        let lock = self.client.lease_lock(name)?;
        Ok(LeaseLock::new(lock, self.thread.clone()))
    }

    /// Creates the table if it is not there: [`fairlock::LockClient::create_table`](crate::LockClient::create_table).
    ///
    /// # Errors
    ///
    /// As there. [`Error::Invalid`] in async code, where nothing may block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set_up(locks: &fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
    /// locks.create_table()
    /// # }
    /// ```
    pub fn create_table(&self) -> Result<(), Error> {
        self.block_on(self.client.create_table())?
    }

    /// Shuts this client down, as [`fairlock::LockClient::shutdown`](crate::LockClient::shutdown) does: calls of other threads that wait end
    /// with [`Error::ShutDown`], and `held` says what becomes of locks that are held. Waits for background work, for at most `within`.
    ///
    /// The thread of the client ends with the last handle, not here: guards that are kept are renewed.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] in async code, where nothing may block. The client is open then as before.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn stop(locks: fairlock::blocking::LockClient) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::HeldLocks;
    ///
    /// let report = locks.shutdown(HeldLocks::Release, Duration::from_secs(5))?;
    /// for left in report.unfinished {
    ///     eprintln!("not done: {left}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown(&self, held: HeldLocks, within: Duration) -> Result<ShutdownReport, Error> {
        self.block_on(self.client.shutdown(held, within))
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient").finish_non_exhaustive()
    }
}
