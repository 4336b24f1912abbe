//! What an operator does with a client: create, check and sweep its table.

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};

use crate::client::LockClient;
use crate::client_state::ClientInner;
use crate::error::{Closed, Error};
use crate::lock::FairLock;
use crate::store::Failure;
use crate::sweep::{
    IdleLocks, Pass, SweepMemory, SweepOptions, SweepReport, Sweeper, Sweeps, TableSweepReport,
    ToRemove,
};
use crate::table::{self, TableOptions, TableReport};

impl LockClient {
    /// Creates the table with this client's key names, on demand unless `options` say otherwise. Waits until the table is active, and
    /// switches DynamoDB's own deletion (TTL) on.
    ///
    /// An existing table with the right keys is left as it is, but for two settings. TTL is switched on if it is off, and so is
    /// point-in-time recovery if `options` ask for it. All others stay as they are: throughput, tags, deletion protection and the encryption
    /// key. [`check_table_with`](Self::check_table_with) finds which of these differ, and a warning is logged for each that the
    /// description of the table shows. So a service can call this at every start, from several hosts at once. Nothing else ever creates a
    /// table.
    ///
    /// The order is: the table, with tags, protection and key; TTL; recovery. A call that was interrupted is completed by the next one. An
    /// engine that does not know TTL or recovery gets a table without it, and a warning is logged.
    ///
    /// Takes some ten seconds on AWS, and at most five minutes. If TTL is still being switched on after a minute, which may take an hour,
    /// that is left to DynamoDB. Needs permission for `CreateTable`, `DescribeTable`, `UpdateTimeToLive` and `DescribeTimeToLive`. The
    /// methods of [`TableOptions`] say what they need besides.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the waiting. A table that DynamoDB was asked for is made all the same. Call this again to have the rest
    /// done.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for options that [`TableOptions::check`] refuses, even if the table exists; then nothing is sent. [`Error::Refused`] if the call is not
    /// permitted, if what answers is not DynamoDB, or if the existing table is another. In the last case its source is a
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
    /// use fairlock::{LockClient, TableOptions, embedded::Engine};
    ///
    /// let locks = LockClient::builder(Engine::memory()?.client()).table("locks").build()?;
    /// locks.create_table(&TableOptions::default()).await?;
    /// assert!(locks.check_table().await?.is_usable());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn create_table(&self, options: &TableOptions) -> Result<(), Error> {
        options.check()?;
        let stop = self.inner.closed.clone();
        let created = table::create(&self.inner.store, options, stop);
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
        self.check_table_with(&TableOptions::default()).await
    }

    /// Checks the table as [`check_table`](Self::check_table) does, and whether it has what `options` ask for. Each difference is a
    /// [`Finding::OtherSetting`](crate::Finding::OtherSetting), which is a note: locks do not depend on it. What `options` do not ask for
    /// may be as it is. Billing on demand, a key that AWS owns and the absence of a tag are nothing that options can ask for.
    ///
    /// A key that AWS manages cannot be told from a key of the account's own, and an alias not from another: that would take a request to
    /// KMS.
    ///
    /// Tags take one request for each ten, and permission for `ListTagsOfResource`. Point-in-time recovery takes one, and permission for
    /// `DescribeContinuousBackups`. The other settings take none.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for options that [`TableOptions::check`] refuses, and otherwise as [`check_table`](Self::check_table).
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
    /// use fairlock::{LockClient, TableOptions, embedded::Engine};
    ///
    /// let locks = LockClient::builder(Engine::memory()?.client()).table("locks").build()?;
    /// locks.create_table(&TableOptions::default()).await?;
    /// let protected = TableOptions::default().deletion_protection();
    /// let report = locks.check_table_with(&protected).await?;
    /// assert!(report.to_string().starts_with("note: deletion protection is off"));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn check_table_with(&self, options: &TableOptions) -> Result<TableReport, Error> {
        options.check()?;
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let report = table::check(&self.inner.store, &policy, options);
        self.inner.for_caller(report).await
    }

    /// Sweeps every lock of this client's namespace once, each with [`FairLock::sweep`]. With [`IdleLocks::Remove`] the items of idle locks
    /// are removed too; [`start_sweeper`](Self::start_sweeper) says why that is safe. A failure at a lock is logged and counted, and does
    /// not stop the sweep of the others.
    ///
    /// Reads the whole table with `Scan`, which is charged by its size, and each lock once more.
    ///
    /// # Cancel safety
    ///
    /// As [`FairLock::sweep`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] or [`Error::Refused`] if the table cannot be scanned. [`Error::ShutDown`] if the client is shut down.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn nightly(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let table = locks.sweep_table(fairlock::IdleLocks::Remove).await?;
    /// println!("{} locks: {}", table.locks, table.removed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sweep_table(&self, idle_locks: IdleLocks) -> Result<TableSweepReport, Error> {
        let mut pass = Pass::new(
            Arc::clone(&self.inner),
            self.inner.closed.clone(),
            idle_locks,
        );
        self.inner.for_caller(pass.run()).await?;
        match self.inner.closed.is_cancelled() {
            true => Err(Error::ShutDown(Closed::ShutDown)),
            false => Ok(pass.swept),
        }
    }

    /// Streams what sweeps of the table do, each as [`sweep_table`](Self::sweep_table) does it: one now, and one after each pause of
    /// `options`. Sweeps only while the stream is polled.
    ///
    /// Like [`start_sweeper`](Self::start_sweeper), a stream that goes on also times entries whose owners never wrote down DynamoDB's time.
    /// The stream goes on after an error. It ends when the client is shut down.
    ///
    /// # Cancel safety
    ///
    /// As [`FairLock::sweep`]. A sweep whose future is dropped is not reported.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the time between two sweeps is below a second. The stream returns the errors of
    /// [`sweep_table`](Self::sweep_table).
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which measure its pauses.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn keep_tidy(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use std::pin::pin;
    /// use fairlock::SweepOptions;
    /// use futures::TryStreamExt;
    ///
    /// let mut sweeps = pin!(locks.sweeps(SweepOptions::default())?);
    /// while let Some(swept) = sweeps.try_next().await? {
    ///     println!("{swept}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn sweeps(
        &self,
        options: SweepOptions,
    ) -> Result<impl Stream<Item = Result<TableSweepReport, Error>> + Send + use<>, Error> {
        options.check()?;
        let sweeps = Sweeps::new(self.inner.clone(), options);
        Ok(stream::unfold(sweeps, Sweeps::next).fuse())
    }

    /// Sweeps the table again and again in the background, for as long as the handle is kept and the client is not shut down. A failure is
    /// logged, and left to the next sweep.
    ///
    /// Nothing needs a sweeper where callers come for the lock and TTL is on. Callers clear their way themselves, and TTL deletes the rest
    /// within days. A sweeper is for tables without TTL, and for tables that are to be kept tidy. Several sweepers at once are safe.
    ///
    /// A sweeper that goes on also times entries whose owners never wrote down DynamoDB's time. It removes such an entry when it has seen
    /// the entry stand still for a lease.
    ///
    /// # Idle locks
    ///
    /// With [`IdleLocks::Remove`] the item of an idle lock goes too. The lock must be free, with no open ticket and no row left, and the
    /// idle retention must have passed since the last write. With the item goes the counter that fencing tokens come from.
    ///
    /// That is safe because a counter starts from the time in microseconds, and counts slower than time goes. A day later, which is the
    /// least retention, a lock that comes back starts above every ticket that it ever gave. The clocks of hosts must agree to within that
    /// time. The clocks of this host and of DynamoDB must both say that the time is past. The removal fails if any client has touched the
    /// lock since it was seen.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the time between two sweeps is below a second. [`Error::ShutDown`] if the client is shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn keep_tidy(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::{IdleLocks, SweepOptions};
    ///
    /// let options = SweepOptions::every(Duration::from_secs(3600)).idle_locks(IdleLocks::Remove);
    /// let sweeper = locks.start_sweeper(options)?;
    /// // the service runs
    /// sweeper.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_sweeper(&self, options: SweepOptions) -> Result<Sweeper, Error> {
        options.check()?;
        if self.inner.closed.is_cancelled() {
            return Err(Error::ShutDown(Closed::ShutDown));
        }
        Ok(Sweeper::start(&self.inner, options))
    }
}

impl FairLock {
    /// Removes what has expired in this lock. Evicts an expired holder and expired successors. Voids the tickets of expired waiters, and
    /// the tickets that never joined the queue. Deletes the rows of settled tickets. A live holder, successor or waiter is never touched:
    /// each removal fails if what it removes has changed since it was seen.
    ///
    /// An entry has expired when its lease, and the allowance, have passed by DynamoDB's own clock. Nothing needs this where other callers
    /// come for the lock, because they clear their way themselves. After the last release and a sweep, a lock is one item.
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
    /// # use fairlock::{LockClient, TableOptions, embedded::Engine};
    /// # let locks = LockClient::builder(Engine::memory()?.client()).build()?;
    /// # locks.create_table(&TableOptions::default()).await?;
    /// let lock = locks.fair_lock("account/42")?;
    /// let guard = lock.try_acquire().await?;
    /// assert!(lock.sweep().await?.is_nothing(), "who is alive is left alone");
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn sweep(&self) -> Result<SweepReport, Error> {
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let mut memory = SweepMemory::default();
        let swept = self
            .inner
            .sweep(&self.name, &policy, &mut memory, ToRemove::None);
        self.inner.for_caller(swept).await
    }
}

impl ClientInner {
    /// Does the work, and turns its failure into the error that a caller gets.
    pub(crate) async fn for_caller<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        if self.closed.is_cancelled() {
            return Err(Error::ShutDown(Closed::ShutDown));
        }
        let started = self.store.now();
        work.await.map_err(|failure| {
            if self.closed.is_cancelled() {
                return Error::ShutDown(Closed::ShutDown);
            }
            let waited = self.store.now().since(started);
            failure.into_error(&self.store.config().table, waited)
        })
    }
}
