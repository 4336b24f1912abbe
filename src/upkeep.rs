//! What an operator asks of a client: to create, check and sweep its table.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::background::{Job, Task};
use crate::client::{Core, LockClient};
use crate::error::{Error, Invalid};
use crate::lock::FairLock;
use crate::name::LockName;
use crate::store::{Failure, Patience, ScanPlace};
use crate::sweeper::{Observer, Sweep};
use crate::swept::{IdleLocks, Swept};
use crate::table::{self, TableOptions, TableReport};

/// Attempts at one request before somebody is told that it does not work.
const ATTEMPTS: usize = 4;
/// The shortest time between two sweeps of a whole table.
const LEAST_EVERY: Duration = Duration::from_secs(1);

impl LockClient {
    /// Creates the table with this client's key names, on demand unless `options` say otherwise, waits until it is
    /// active, and switches DynamoDB's own deletion (TTL) on.
    ///
    /// A table that is there with the right keys is left as it is, but for TTL, which is switched on if it is off;
    /// so this can be called at every start, by several hosts at once. Nothing else ever creates a table.
    ///
    /// Takes some ten seconds on AWS, and at most five minutes. TTL that is still being switched on after a minute,
    /// as it may be for an hour, is left to DynamoDB. Needs permission for `CreateTable`, `DescribeTable`,
    /// `UpdateTimeToLive` and `DescribeTimeToLive`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the waiting; a table that DynamoDB was asked for is made all the same. Call it again
    /// to have the rest done.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if it is not permitted, or if the table that is there is another: then its source is a
    /// [`Finding`](crate::Finding) that says what was found and what is needed. [`Error::Unavailable`] if it is not
    /// done within the time. [`Error::ShutDown`] if the client is shut down.
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
    /// assert!(locks.check_table().await?.is_fit());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn create_table(&self, options: &TableOptions) -> Result<(), Error> {
        let stop = self.core.closed.clone();
        let created = table::create(&self.core.store, options, stop);
        self.core.told(created).await
    }

    /// Looks at the table's keys, state, TTL and replicas, and tries every operation that fairlock uses in a way that
    /// changes nothing: on keys at which there is no item, with conditions that cannot hold. Each thing that is not as
    /// it should be is a finding that says what to do about it; an operation that is denied does not keep the others
    /// from being checked.
    ///
    /// The items tried are under the partition key `#fairlock-check`: a policy with `dynamodb:LeadingKeys` must
    /// permit it for this check. What no request tells is not checked: permission to create tables, and whether the
    /// table was restored from a backup, which brings old tickets back.
    ///
    /// About ten requests.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if DynamoDB does not answer, [`Error::Refused`] if it does not know this caller's
    /// credentials, [`Error::ShutDown`] if the client is shut down. Whatever is wrong with the table is no error but
    /// a finding.
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
        let patience = self.core.patience_of_few(self.core.closed.clone());
        let report = table::check(&self.core.store, &patience);
        self.core.told(report).await
    }

    /// Sweeps every lock of this client's namespace once: [`FairLock::sweep`] for each, and with
    /// [`IdleLocks::Remove`] the items of idle locks too. See [`start_sweeper`](Self::start_sweeper) for why that is
    /// safe. What goes wrong with one lock is logged and counted, and does not stop the others.
    ///
    /// Reads the whole table with `Scan`, which is paid for by its size, and each lock once more.
    ///
    /// # Cancel safety
    ///
    /// As [`FairLock::sweep`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] or [`Error::Refused`] if the table cannot be scanned, [`Error::ShutDown`] if the client
    /// is shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn nightly(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let table = locks.sweep_table(fairlock::IdleLocks::Remove).await?;
    /// println!("{} locks: {}", table.locks, table.swept);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sweep_table(&self, idle_locks: IdleLocks) -> Result<SweptTable, Error> {
        let mut pass = Pass::new(&self.core, self.core.closed.clone(), idle_locks);
        self.core.told(pass.run()).await?;
        match self.core.closed.is_cancelled() {
            true => Err(Error::ShutDown),
            false => Ok(pass.swept),
        }
    }

    /// Sweeps the table again and again in the background, for as long as the handle is kept and the client is not
    /// shut down. What goes wrong is logged, and left to the next sweep.
    ///
    /// Nothing needs it where others come for the lock, for they clear their way themselves, and where TTL is on,
    /// which deletes the rest within days. It is for tables without TTL, and for whoever wants them tidy. Several
    /// sweepers at once are safe. One that goes on also times those who never wrote down DynamoDB's time, and removes
    /// them when they were seen to stand still for a lease.
    ///
    /// # Idle locks
    ///
    /// With [`IdleLocks::Remove`] the item of a lock goes too, when it is free, no ticket is open, no row is left,
    /// and the idle retention has passed since the last write. With it goes the counter that fencing tokens come
    /// from. That is safe because a counter starts from the time in microseconds, and counts slower than time goes:
    /// a day later, the least retention there is, a lock that comes back starts above every ticket it ever gave, if
    /// the clocks of hosts agree to within that. The clocks of this host and of DynamoDB must both say that the time
    /// is past, and the removal fails if anybody has touched the lock since it was seen.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the time between two sweeps is below a second, [`Error::ShutDown`] if the client is shut
    /// down.
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
        if self.core.closed.is_cancelled() {
            return Err(Error::ShutDown);
        }
        let sweeper = Sweeper {
            stop: self.core.closed.child_token(),
            ended: CancellationToken::new(),
        };
        let job = Job {
            lock: self.core.store.config().table.clone(),
            ticket: None,
            task: Task::Sweep,
        };
        let (core, stop) = (Arc::clone(&self.core), sweeper.stop.clone());
        let ended = sweeper.ended.clone().drop_guard();
        self.core.background.spawn(job, async move {
            let _ended = ended;
            keep_sweeping(&core, &options, stop).await;
        });
        Ok(sweeper)
    }
}

impl FairLock {
    /// Removes what is over in this lock: evicts a dead holder, unseats dead heirs, makes the tickets of dead waiters
    /// and those that never joined the line void, and deletes the rows of settled tickets. Whoever is alive is never
    /// touched: each removal fails if what it removes has changed since it was seen.
    ///
    /// Dead is whose lease, and the allowance, are over by DynamoDB's own clock. Nothing needs this where others come
    /// for the lock, for they clear their way themselves. After the last release and a sweep, a lock is one item.
    ///
    /// One request if there is nothing to do in a line of some twenty at the most, and one or two for each thing that
    /// is removed. A pass is bounded, and says if it left something.
    ///
    /// # Cancel safety
    ///
    /// Each removal is one write, so dropping the future leaves nothing half done.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Refused`] or [`Error::Unreadable`] if something could not be read or removed;
    /// what was removed before stays so. [`Error::ShutDown`] if the client is shut down.
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
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let patience = self.core.patience_of_few(self.core.closed.clone());
        let mut observer = Observer::default();
        let swept = self
            .core
            .sweep(&self.name, &patience, &mut observer, IdleLocks::Keep);
        self.core.told(swept).await
    }
}

/// How to sweep a table again and again.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fairlock::SweepOptions;
///
/// assert_eq!(SweepOptions::default(), SweepOptions::every(Duration::from_secs(600)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    every: Duration,
    idle_locks: IdleLocks,
}

impl Default for SweepOptions {
    /// Every ten minutes, without idle locks.
    fn default() -> Self {
        SweepOptions::every(Duration::from_secs(600))
    }
}

impl SweepOptions {
    /// Sweeps after each such time, a quarter more or less; at least a second.
    ///
    /// # Examples
    ///
    /// ```
    /// let hourly = fairlock::SweepOptions::every(std::time::Duration::from_secs(3600));
    /// ```
    pub fn every(every: Duration) -> Self {
        SweepOptions {
            every,
            idle_locks: IdleLocks::Keep,
        }
    }

    /// What to do with the items of idle locks. Default: [`IdleLocks::Keep`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::{IdleLocks, SweepOptions};
    ///
    /// let without_ttl = SweepOptions::default().idle_locks(IdleLocks::Remove);
    /// ```
    #[must_use]
    pub fn idle_locks(mut self, idle_locks: IdleLocks) -> Self {
        self.idle_locks = idle_locks;
        self
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.every < LEAST_EVERY {
            return Err(Invalid::TooShort {
                setting: "time between sweeps",
                value: self.every,
                bound: "each reads the whole table",
                bound_value: LEAST_EVERY,
            });
        }
        Ok(())
    }
}

/// Keeps a table swept until it is dropped or stopped, or the client is shut down.
///
/// # Examples
///
/// ```
/// # fn keep_tidy(locks: &fairlock::LockClient) -> Result<(), fairlock::Error> {
/// let _sweeper = locks.start_sweeper(fairlock::SweepOptions::default())?;
/// // swept until the end of this scope
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a sweeper stops when it is dropped"]
pub struct Sweeper {
    stop: CancellationToken,
    /// Cancelled by the task's end, whatever ends it.
    ended: CancellationToken,
}

impl Sweeper {
    /// Stops it, and waits for what is under way with one lock to end.
    ///
    /// # Cancel safety
    ///
    /// It is told to stop by the first poll; dropping the future only stops the waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn stop(sweeper: fairlock::Sweeper) {
    /// sweeper.stop().await;
    /// # }
    /// ```
    pub async fn stop(self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What one sweep of a table did.
///
/// # Examples
///
/// ```
/// assert_eq!(fairlock::SweptTable::default().to_string(), "0 locks, 0 failed: nothing to remove");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweptTable {
    /// Locks looked at.
    pub locks: u64,
    /// Locks among them that could not be swept to the end; the log says why.
    pub failed: u64,
    /// What was removed of all of them.
    pub swept: Swept,
}

impl fmt::Display for SweptTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SweptTable {
            locks,
            failed,
            swept,
        } = self;
        write!(f, "{locks} locks, {failed} failed: {swept}")
    }
}

/// One sweep of a whole table after another. Ends when told to stop.
async fn keep_sweeping(core: &Arc<Core>, options: &SweepOptions, stop: CancellationToken) {
    let config = core.store.config();
    let mut pass = Pass::new(core, stop.clone(), options.idle_locks);
    loop {
        let pause = options.every.mul_f64(config.chance.jitter());
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = config.clock.sleep(pause) => {}
        }
        match pass.run().await {
            Ok(()) => {
                tracing::debug!(table = %config.table, swept = %pass.swept, "swept the table")
            }
            Err(failure) => {
                tracing::warn!(table = %config.table, ?failure, "could not sweep the table: tries again later");
            }
        }
    }
}

/// A sweep of a whole table, and what it remembers for the next.
struct Pass<'a> {
    core: &'a Arc<Core>,
    patience: Patience,
    idle_locks: IdleLocks,
    /// Of locks that somebody used when they were last swept.
    observers: HashMap<LockName, Observer>,
    swept: SweptTable,
}

impl<'a> Pass<'a> {
    fn new(core: &'a Arc<Core>, stop: CancellationToken, idle_locks: IdleLocks) -> Self {
        Pass {
            core,
            patience: core.patience_of_few(stop),
            idle_locks,
            observers: HashMap::new(),
            swept: SweptTable::default(),
        }
    }

    /// Ends because each page of a scan starts behind the one before.
    async fn run(&mut self) -> Result<(), Failure> {
        self.swept = SweptTable::default();
        let mut before = std::mem::take(&mut self.observers);
        let mut from = None;
        loop {
            let (names, next) = self.scan(from).await?;
            for name in names {
                if self.patience.stop.is_cancelled() {
                    return Ok(());
                }
                let observer = before.remove(&name).unwrap_or_default();
                self.sweep(name, observer).await;
            }
            match next {
                Some(_) => from = next,
                None => return Ok(()),
            }
        }
    }

    async fn scan(
        &self,
        from: Option<ScanPlace>,
    ) -> Result<(Vec<LockName>, Option<ScanPlace>), Failure> {
        let store = &self.core.store;
        let scan = || store.scan_locks(from.clone());
        Ok(store.persist(&self.patience, scan).await?.value)
    }

    async fn sweep(&mut self, name: LockName, mut observer: Observer) {
        self.swept.locks += 1;
        let swept = self
            .core
            .sweep(&name, &self.patience, &mut observer, self.idle_locks);
        match swept.await {
            Ok(swept) => self.swept.swept += swept,
            Err(failure) => {
                self.swept.failed += 1;
                tracing::warn!(lock = %name, ?failure, "could not sweep a lock");
            }
        }
        if observer.watches_somebody() {
            self.observers.insert(name, observer);
        }
    }
}

impl Core {
    async fn sweep(
        self: &Arc<Self>,
        name: &LockName,
        patience: &Patience,
        observer: &mut Observer,
        idle_locks: IdleLocks,
    ) -> Result<Swept, Failure> {
        let mut sweep = Sweep {
            store: &self.store,
            name,
            patience,
            observer,
            idle_locks,
            swept: Swept::default(),
        };
        // On the heap: callers' futures would get too deep for the compiler's limits.
        if let Some(item) = Box::pin(sweep.run()).await? {
            self.saw(name, &item);
        }
        let swept = sweep.swept;
        if !swept.is_nothing() {
            tracing::info!(lock = %name, %swept, "swept");
        }
        Ok(swept)
    }

    fn patience_of_few(&self, stop: CancellationToken) -> Patience {
        Patience {
            until: None,
            attempts: Some(ATTEMPTS),
            stop,
        }
    }

    /// Does the work, and tells its failure as a caller is told it.
    async fn told<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Error> {
        if self.closed.is_cancelled() {
            return Err(Error::ShutDown);
        }
        let started = self.store.now();
        work.await.map_err(|failure| {
            if self.closed.is_cancelled() {
                return Error::ShutDown;
            }
            let waited = self.store.now().since(started);
            failure.into_error(&self.store.config().table, waited)
        })
    }
}
