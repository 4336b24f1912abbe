//! What an operator does with a client: create, check and sweep its table.

use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};

use crate::lock::client::LockClient;
use crate::lock::fair_lock::FairLock;
use crate::operator::table::{self, CreateTableFluentBuilder, TableReport};
use crate::sweeper::{SweepReport, Sweeper, TableSweepReport, ToRemove};
use crate::vocabulary::error::Error;
use fairlock_protocol::judge::Judge;

impl LockClient {
    /// Creates the table with this client's key names, on demand. Waits until the table is active, and switches DynamoDB's own deletion (TTL)
    /// on.
    ///
    /// An existing table with the right keys is left as it is, but TTL is switched on if it is off. So a service can call this at every
    /// start, from several hosts at once. Nothing else ever creates a table. A call that was interrupted is completed by the next one. An
    /// engine that does not know TTL gets a table without it, and a warning is logged.
    ///
    /// Takes some ten seconds on AWS, and at most five minutes. If TTL is still being switched on after a minute, which may take an hour,
    /// that is left to DynamoDB. Needs permission for `CreateTable`, `DescribeTable`, `UpdateTimeToLive` and `DescribeTimeToLive`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the waiting. A table that DynamoDB was asked for is made all the same. Call this again to have the rest
    /// done.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the call is not permitted, if what answers is not DynamoDB, or if the existing table is another. In the last case its source is a
    /// [`Finding`](crate::Finding) that says what was found and what is needed. [`Error::Unavailable`] if it is not done within the time.
    /// [`Error::ShutDown`] if the client is shut down.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock::{LockClient, embedded::Engine};
    ///
    /// let locks = LockClient::builder(Engine::memory()?.client()).table("locks").build()?;
    /// locks.create_table().await?;
    /// assert!(locks.check_table().await?.is_usable());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn create_table(&self) -> Result<(), Error> {
        self.create_table_with(|request| request).await
    }

    /// Creates the table as [`create_table`](Self::create_table) does, with what `extend` adds to the request: throughput, tags, deletion
    /// protection, a key. The name of the table and its keys stay the client's. A table that exists is left as it is.
    ///
    /// # Cancel safety
    ///
    /// As [`create_table`](Self::create_table).
    ///
    /// # Errors
    ///
    /// As [`create_table`](Self::create_table). [`Error::Refused`] also if DynamoDB refuses what was added.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use fairlock::{LockClient, embedded::Engine};
    /// use aws_sdk_dynamodb::types::Tag;
    ///
    /// # let locks = LockClient::builder(Engine::memory()?.client()).table("locks").build()?;
    /// let team = Tag::builder().key("team").value("payments").build()?;
    /// locks
    ///     .create_table_with(|request| request.deletion_protection_enabled(true).tags(team.clone()))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn create_table_with(
        &self,
        extend: impl Fn(CreateTableFluentBuilder) -> CreateTableFluentBuilder + Send + Sync,
    ) -> Result<(), Error> {
        let stop = self.inner.closed.clone();
        let created = table::create(&self.inner.requests, &extend, stop);
        self.inner.for_caller(created).await
    }

    /// Checks the table's keys, state, TTL and replicas, and tries every operation that fairlock uses. The trials change nothing: they are
    /// on keys at which there is no item, with conditions that cannot hold. Each problem is a finding that says what to do about it. An
    /// operation that is denied does not keep the others from being checked. The locks among the first 300 items of the table are looked
    /// at too, for clients without a [notifier](crate::LockClientBuilder::notifier) beside clients that have one.
    ///
    /// The items tried are under the partition key `#fairlock-check`: a policy with `dynamodb:LeadingKeys` must permit it for this check.
    /// Two things are not checked, because no request tells them: permission to create tables, and whether the table was restored from a
    /// backup. A restore brings old tickets back.
    ///
    /// Costs about ten requests, and the read units of those items: some forty at most.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if DynamoDB does not answer. [`Error::Refused`] if it does not know this caller's credentials, or if what
    /// answers is not DynamoDB. [`Error::ShutDown`] if the client is shut down. A problem of the table is no error but a finding.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock::{Finding, LockClient, embedded::Engine};
    ///
    /// let locks = LockClient::builder(Engine::memory()?.client()).table("locks").build()?;
    /// let report = locks.check_table().await?;
    /// assert_eq!(report.findings, [Finding::NoTable]);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn check_table(&self) -> Result<TableReport, Error> {
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let report = table::check(&self.inner.requests, &policy);
        self.inner.for_caller(report).await
    }

    /// Streams what sweeps of the table do: one now, and one after each pause of `every`, a fifth more or less. A job that sweeps once takes
    /// the first item.
    ///
    /// Each sweeps every lock of this client's namespace as [`FairLock::sweep`] does. A failure at a lock is logged and counted, and does not
    /// stop the sweep of the others. Sweeps only while the stream is polled. The stream goes on after an error, and ends when the client is
    /// shut down.
    ///
    /// Nothing needs this where callers come for the lock and TTL is on. Callers clear their way themselves, and TTL deletes the rest within
    /// days. Sweeps are for tables without TTL, and for tables that are to be kept tidy. Several at once are safe.
    ///
    /// A stream that goes on also times entries whose owners never wrote down DynamoDB's time. It removes such an entry when it has seen the
    /// entry stand still for a lease.
    ///
    /// # Idle locks
    ///
    /// The item of an idle lock goes too, as TTL deletes it. The lock must be free, with no open ticket and no row left, and the
    /// idle retention must have passed since the last write. With the item goes the counter that fencing tokens come from.
    ///
    /// That is safe because a counter starts from the time in microseconds, and counts slower than time goes. A day later, which is the
    /// least retention, a lock that comes back starts above every ticket that it ever gave. The clocks of hosts must agree to within that
    /// time. The clocks of this host and of DynamoDB must both say that the time is past. The removal fails if any client has touched the
    /// lock since it was seen.
    ///
    /// # Costs
    ///
    /// Each sweep reads the whole table with `Scan`, which is charged by its size, and each lock once more.
    ///
    /// # Cancel safety
    ///
    /// As [`FairLock::sweep`]. A sweep whose stream is dropped is not reported.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the time between two sweeps is below a second. The stream returns [`Error::Unavailable`] or [`Error::Refused`]
    /// if the table cannot be scanned.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which measure its pauses.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn keep_tidy(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use futures::TryStreamExt;
    ///
    /// let mut sweeps = locks.sweeps(Duration::from_secs(600))?;
    /// while let Some(swept) = sweeps.try_next().await? {
    ///     println!("{swept}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A nightly job:
    ///
    /// ```
    /// # async fn nightly(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// # use std::time::Duration;
    /// # use futures::TryStreamExt;
    /// if let Some(table) = locks.sweeps(Duration::MAX)?.try_next().await? {
    ///     println!("{} locks, {} failed: {}", table.locks, table.failed, table.removed);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn sweeps(
        &self,
        every: Duration,
    ) -> Result<impl Stream<Item = Result<TableSweepReport, Error>> + Send + Unpin + use<>, Error>
    {
        let sweeper = Sweeper::new(self.inner.clone(), every)?;
        Ok(stream::unfold(sweeper, Sweeper::next).fuse().boxed())
    }
}

impl FairLock {
    /// Removes what has expired in this lock. Evicts an expired holder and expired successors. Voids the tickets of expired waiters, and
    /// the tickets that never joined the queue. Deletes the rows of settled tickets, and the item of a lock that is idle, as
    /// [`sweeps`](LockClient::sweeps) says. A live holder, successor or waiter is never touched: each removal fails if what it
    /// removes has changed since it was seen.
    ///
    /// An entry has expired when its lease and 5 s have passed by DynamoDB's clock and by the hosts'. Nothing needs this where other
    /// callers come for the lock, because they clear their way themselves. After the last release and a sweep, a lock is one item.
    ///
    /// Costs one request if there is nothing to do in a queue of some twenty waiters at the most. Each removal costs one or two. A pass is
    /// bounded, and says if it left something.
    ///
    /// # Cancel safety
    ///
    /// Each removal is one write, so dropping the future leaves nothing half done.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Refused`] or [`Error::InvalidItem`] if something could not be read or removed. Earlier removals
    /// stay done. [`Error::ShutDown`] if the client is shut down.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use fairlock::{LockClient, embedded::Engine};
    /// # let locks = LockClient::builder(Engine::memory()?.client()).build()?;
    /// # locks.create_table().await?;
    /// let lock = locks.fair_lock("account/42")?;
    /// let guard = lock.try_acquire().await?;
    /// assert_eq!(lock.sweep().await?.holders, 0, "who is alive is left alone");
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn sweep(&self) -> Result<SweepReport, Error> {
        let mut judge = Judge::default();
        let swept = (self.inner).sweep(&self.name, &mut judge, ToRemove::OutOfUse);
        self.inner.for_caller(swept).await
    }
}
