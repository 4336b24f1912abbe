//! The client: one table, one set of settings, and all the background work of the locks named through it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::background::{Background, Job, Task};
use crate::chance::Chance;
use crate::clock::Clock;
use crate::config::{Config, Names, Settings};
use crate::entry::Nonce;
use crate::error::{Error, Invalid, Loss};
use crate::hold::Hold;
use crate::item::LockItem;
use crate::lock::FairLock;
use crate::moment::Moment;
use crate::name::LockName;
use crate::queue;
use crate::seats::{Ended, Seats};
use crate::store::{Attempt, Failure, Patience, Store};
use crate::ticket::Ticket;

/// What this process saw of a line serves to skip an enter that must fail for as long as this.
const HINT_LASTS: Duration = Duration::from_secs(5);
/// Hints and doubtful nonces kept at the most; beyond that the oldest knowledge is the least useful.
const REMEMBERED: usize = 1024;

/// Names locks in one table. Cheap to clone; all clones share settings and background work.
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
/// let locks = LockClient::builder(dynamodb).table("locks").build()?;
/// locks.create_table(&fairlock::TableOptions::default()).await?;
///
/// let guard = locks.fair_lock("account/42")?.acquire(RecordWait::default()).await?;
/// println!("turn {}", guard.ticket());
/// guard.release().await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct LockClient {
    pub(crate) core: Arc<Core>,
}

/// What all locks of a client share.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) background: Arc<Background>,
    /// Cancelled by `shutdown`; everything that waits stops waiting.
    pub(crate) closed: CancellationToken,
    memory: Mutex<Memory>,
}

/// What a client remembers of the lines it has met.
#[derive(Debug, Default)]
struct Memory {
    /// Lines that were not empty when this client last released.
    hints: HashMap<LockName, (LockItem, Moment)>,
    /// Nonces of ended attempts some request of which was never answered.
    doubtful: BTreeMap<Nonce, LockName>,
    holds: Vec<Weak<Hold>>,
}

impl LockClient {
    /// Starts from the caller's SDK client, whose credentials, region and endpoint are used; retries and time-outs
    /// are fairlock's own, whatever that client's are.
    pub fn builder(dynamodb: aws_sdk_dynamodb::Client) -> LockClientBuilder {
        LockClientBuilder {
            dynamodb,
            settings: Settings::default(),
        }
    }

    /// Names a lock; sends nothing. Locks of the same name and namespace in the same table are the same lock.
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
        let name = LockName::new(name.as_ref(), &self.core.store.config().namespace)?;
        Ok(FairLock::new(Arc::clone(&self.core), name))
    }

    /// Ends this client: whoever waits is told [`Error::ShutDown`] and leaves the line, and background work is
    /// awaited, for at most `within`. Each lock is dealt with by itself; what could not be done is reported.
    ///
    /// With [`HeldLocks::Keep`] locks that are held stay held and renewed until their guards are released or
    /// dropped: releasing one while its work goes on would let the next in before that work is over. With
    /// [`HeldLocks::Release`] they are released, and their [`lost`](crate::LockGuard::lost) resolves.
    ///
    /// # Cancel safety
    ///
    /// The client is closed by the first poll; dropping the future only stops the waiting.
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
        let core = &self.core;
        core.closed.cancel();
        if held == HeldLocks::Release {
            for hold in core.holds() {
                Arc::clone(core).release_behind(hold, Some(Loss::ShutDown));
            }
        }
        tokio::select! {
            biased;
            () = core.background.idle() => {}
            () = core.store.config().clock.sleep(within) => {}
        }
        ShutdownReport {
            unfinished: core
                .background
                .unfinished()
                .into_iter()
                .map(Unfinished)
                .collect(),
            held: core
                .holds()
                .iter()
                .filter(|hold| hold.is_held())
                .map(|hold| (hold.name.to_string(), hold.ticket))
                .collect(),
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
    /// Leave them to their guards.
    Keep,
    /// Release them, whatever their owners are doing.
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
    /// Background work that goes on, or was cut short by the end of the runtime; leases end what it leaves.
    pub unfinished: Vec<Unfinished>,
    /// Locks that are still held, with their tickets.
    pub held: Vec<(String, Ticket)>,
}

/// One piece of background work that was not done in time.
///
/// # Examples
///
/// ```
/// # fn log(left: fairlock::Unfinished) {
/// eprintln!("{left} (lock {})", left.lock());
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished(Job);

impl Unfinished {
    /// The lock it was for.
    pub fn lock(&self) -> &str {
        &self.0.lock
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0.task {
            Task::Acquire => "leaving the line of",
            Task::Leave => "leaving the line of",
            Task::Release => "releasing",
            Task::Clean => "cleaning up behind",
            Task::Heartbeat => "renewing",
            Task::Sweep => "sweeping",
        };
        match self.0.ticket {
            Some(ticket) => write!(f, "{what} lock `{}` (ticket {ticket})", self.0.lock),
            None => write!(f, "{what} lock `{}`", self.0.lock),
        }
    }
}

impl Core {
    /// A new attempt to get a place.
    pub(crate) fn attempt(&self) -> Attempt {
        Attempt::new(self.store.config().chance.nonce())
    }

    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        task: Task,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.background.spawn(
            Job {
                lock: name.to_string(),
                ticket,
                task,
            },
            work,
        );
    }

    /// As long as what is left in the table could be in somebody's way: then others have removed it.
    pub(crate) fn patience_for_leaving(&self) -> Patience {
        let config = self.store.config();
        let until = self.store.now() + config.lease * 2 + config.gap_grace;
        Patience {
            until: Some(until),
            attempts: None,
            stop: CancellationToken::new(),
        }
    }

    /// Notes that an attempt is over. One that is in doubt may still turn up in the table.
    pub(crate) fn forget(&self, name: &LockName, attempt: &Attempt) {
        if attempt.is_in_doubt() {
            let mut memory = self.memory();
            while memory.doubtful.len() >= REMEMBERED {
                memory.doubtful.pop_first();
            }
            memory.doubtful.insert(attempt.nonce, name.clone());
        }
    }

    /// Takes in a lock item that an answer showed: a place on it that belongs to an attempt that is over was made by
    /// a request that came late, and is given up at once.
    pub(crate) fn saw(self: &Arc<Self>, name: &LockName, item: &LockItem) {
        let late: Vec<_> = {
            let mut memory = self.memory();
            if memory.doubtful.is_empty() {
                return;
            }
            item.entries()
                .filter(|entry| memory.doubtful.remove(&entry.nonce).is_some())
                .cloned()
                .collect()
        };
        for entry in late {
            tracing::info!(lock = %name, ticket = %entry.ticket, "a late request of an ended attempt took a place: gives it up");
            self.give_up(
                name,
                Attempt::new(entry.nonce),
                entry.ticket,
                Some(item.clone()),
            );
        }
    }

    /// Gives up whatever place an attempt got that was never answered, in the background.
    pub(crate) fn give_up_unseen(self: &Arc<Self>, name: &LockName, attempt: Attempt) {
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), None, Task::Leave, async move {
            let patience = core.patience_for_leaving();
            match core
                .store
                .persist(&patience, || core.store.read_lock(&name))
                .await
            {
                Ok(answer) => {
                    core.give_up_now(&name, &attempt, answer.value, &patience)
                        .await
                }
                Err(failure) => {
                    tracing::warn!(lock = %name, ?failure, "could not look for a place to give up")
                }
            }
        });
    }

    /// Leaves the line with a drawn ticket, in the background, whatever became of it since `seen`.
    pub(crate) fn leave(
        self: &Arc<Self>,
        name: &LockName,
        attempt: Attempt,
        ticket: Ticket,
        seen: LockItem,
    ) {
        if ticket <= seen.seated {
            return self.give_up(name, attempt, ticket, Some(seen));
        }
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), Some(ticket), Task::Leave, async move {
            let patience = core.patience_for_leaving();
            match queue::leave(&core.store, &name, &patience, &attempt, ticket).await {
                Ok(seen) => core.give_up_now(&name, &attempt, seen, &patience).await,
                Err(failure) => {
                    tracing::warn!(lock = %name, %ticket, ?failure, "could not leave the line: others pass this ticket in time");
                }
            }
        });
    }

    /// Deletes rows that are settled, in the background. What fails is left to the next who cleans.
    pub(crate) fn clean(self: &Arc<Self>, name: &LockName, settled: Vec<Ticket>) {
        if settled.is_empty() {
            return;
        }
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), None, Task::Clean, async move {
            if let Err(failure) = core.store.delete_rows(&name, &settled).await {
                tracing::debug!(lock = %name, ?failure, "left settled rows to the next who cleans");
            }
        });
    }

    /// Gives up a place on the lock item, in the background.
    pub(crate) fn give_up(
        self: &Arc<Self>,
        name: &LockName,
        attempt: Attempt,
        ticket: Ticket,
        seen: Option<LockItem>,
    ) {
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), Some(ticket), Task::Leave, async move {
            let patience = core.patience_for_leaving();
            core.give_up_now(&name, &attempt, seen, &patience).await;
        });
    }

    async fn give_up_now(
        &self,
        name: &LockName,
        attempt: &Attempt,
        seen: Option<LockItem>,
        patience: &Patience,
    ) {
        let seats = Seats {
            store: &self.store,
            name,
            patience,
        };
        if let Err(failure) = seats.give_up(attempt, seen).await {
            tracing::warn!(lock = %name, ?failure, "could not give up a place: it lapses with its lease");
        }
        self.forget(name, attempt);
    }

    /// What the lock's line looked like when this client last released, if that was a moment ago.
    pub(crate) fn hint(&self, name: &LockName) -> Option<LockItem> {
        let (item, seen) = self.memory().hints.remove(name)?;
        (self.store.now().since(seen) < HINT_LASTS).then_some(item)
    }

    pub(crate) fn remember(&self, name: &LockName, item: LockItem) {
        if item.holder.is_none() {
            return;
        }
        let now = self.store.now();
        let mut memory = self.memory();
        if memory.hints.len() >= REMEMBERED {
            memory
                .hints
                .retain(|_, (_, seen)| now.since(*seen) < HINT_LASTS);
        }
        if memory.hints.len() < REMEMBERED {
            memory.hints.insert(name.clone(), (item, now));
        }
    }

    /// Registers a hold and keeps it renewed.
    pub(crate) fn keep(self: &Arc<Self>, hold: &Arc<Hold>) {
        {
            let mut memory = self.memory();
            memory.holds.retain(|hold| hold.strong_count() > 0);
            memory.holds.push(Arc::downgrade(hold));
        }
        let (core, hold) = (Arc::clone(self), Arc::clone(hold));
        self.spawn(
            &hold.name.clone(),
            Some(hold.ticket),
            Task::Heartbeat,
            async move {
                crate::heartbeat::keep(&core.store, &hold, |item| core.saw(&hold.name, item)).await;
            },
        );
    }

    fn holds(&self) -> Vec<Arc<Hold>> {
        self.memory()
            .holds
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Releases a hold in the background, ending it locally first: as lost for a reason, or as given back.
    pub(crate) fn release_behind(self: Arc<Self>, hold: Arc<Hold>, loss: Option<Loss>) {
        let deadline = hold.believed_until();
        match loss {
            Some(loss) => hold.lose(loss),
            None => hold.give_back(),
        };
        let core = Arc::clone(&self);
        self.spawn(&hold.name.clone(), Some(hold.ticket), Task::Release, async move {
            match core.release(&hold, deadline).await {
                Ok(_) => {}
                Err(failure) => {
                    tracing::warn!(lock = %hold.name, ticket = %hold.ticket, ?failure, "could not release: the lease ends the hold");
                }
            }
        });
    }

    /// Hands the lock over, trying until the lease ends.
    pub(crate) async fn release(
        self: &Arc<Self>,
        hold: &Hold,
        deadline: Moment,
    ) -> Result<Ended, Failure> {
        let patience = Patience {
            until: Some(deadline),
            attempts: None,
            stop: CancellationToken::new(),
        };
        let seats = Seats {
            store: &self.store,
            name: &hold.name,
            patience: &patience,
        };
        let ended = seats.release(&hold.attempt).await;
        match &ended {
            Ok(Ended::HandedOver(item)) => {
                tracing::debug!(lock = %hold.name, ticket = %hold.ticket, "released");
                self.saw(&hold.name, item);
                self.remember(&hold.name, item.clone());
            }
            Ok(Ended::Before | Ended::NotOurs(_)) | Err(_) => {}
        }
        self.forget(&hold.name, &hold.attempt);
        ended
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.store.config();
        f.debug_struct("Core")
            .field("table", &config.table)
            .field("namespace", &config.namespace)
            .finish_non_exhaustive()
    }
}

/// Settings of a [`LockClient`]. [`build`](Self::build) checks them against each other and sends nothing.
///
/// # Examples
///
/// ```
/// # async fn build(dynamodb: aws_sdk_dynamodb::Client) -> Result<(), fairlock::Error> {
/// use std::time::Duration;
/// use fairlock::LockClient;
///
/// let locks = LockClient::builder(dynamodb)
///     .table("locks")
///     .namespace("billing")
///     .lease(Duration::from_secs(10))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct LockClientBuilder {
    dynamodb: aws_sdk_dynamodb::Client,
    settings: Settings,
}

impl LockClientBuilder {
    /// The table's name or ARN. Default: `fairlock`.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.settings.table = table.into();
        self
    }

    /// The names of the table's partition key, sort key and TTL attribute. Default: `pk`, `sk`, `expires_at`.
    pub fn key_names(
        mut self,
        partition_key: impl Into<String>,
        sort_key: impl Into<String>,
        ttl: impl Into<String>,
    ) -> Self {
        self.settings.names = Names {
            partition_key: partition_key.into(),
            sort_key: sort_key.into(),
            ttl: ttl.into(),
        };
        self
    }

    /// Keeps these locks apart from others of the same names in the same table; must not contain `/`.
    /// Default: `fairlock`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// Who to say holds a lock, for people. Default: `user@host:pid`.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.settings.owner = Some(owner.into());
        self
    }

    /// How long a holder, an heir or a waiter that is not heard of keeps its place. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How often a lease is renewed. Default: a third of the lease.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.settings.heartbeat = Some(heartbeat);
        self
    }

    /// How many heirs the lock item has room for, 1 to 16. Default: 4.
    pub fn seats(mut self, seats: usize) -> Self {
        self.settings.seats = seats;
        self
    }

    /// How long a drawn ticket may take to join the line before others pass it. Default: 5 s, or two and a half
    /// request time-outs if that is longer.
    pub fn gap_grace(mut self, grace: Duration) -> Self {
        self.settings.gap_grace = Some(grace);
        self
    }

    /// How long an unused lock's item stays in the table. Hosts' clocks must agree to within that. Default: 7 days.
    pub fn idle_retention(mut self, retention: Duration) -> Self {
        self.settings.idle_retention = retention;
        self
    }

    /// How long after its lease, by DynamoDB's own clock, an entry is dead to those who did not watch it.
    /// Default: 10 s.
    pub fn common_clock_allowance(mut self, allowance: Duration) -> Self {
        self.settings.allowance = allowance;
        self
    }

    /// The shortest and the longest time between two looks of a waiter. Default: 20 ms, and 1 s or a heartbeat if
    /// that is shorter.
    pub fn look_bounds(mut self, shortest: Duration, longest: Duration) -> Self {
        self.settings.shortest_look = shortest;
        self.settings.longest_look = Some(longest);
        self
    }

    /// How long one request may take before it is given up and tried again. Default: 2 s, or a sixth of the lease
    /// if that is shorter.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = Some(timeout);
        self
    }

    /// Where time comes from, for tests. Default: the system's clocks.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Where randomness comes from, for tests. Default: the operating system.
    pub fn chance(mut self, chance: Chance) -> Self {
        self.settings.chance = chance;
        self
    }

    /// Checks the settings against each other. Must be called inside a tokio runtime, on which the background work
    /// of this client then runs: a guard dropped outside of it still releases.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the values that do not go together.
    pub fn build(self) -> Result<LockClient, Error> {
        let runtime = Handle::try_current().map_err(|_| Invalid::NoRuntime)?;
        let config = Config::try_from(self.settings)?;
        let core = Core {
            store: Store::new(&self.dynamodb, config),
            background: Arc::new(Background::new(runtime)),
            closed: CancellationToken::new(),
            memory: Mutex::default(),
        };
        Ok(LockClient {
            core: Arc::new(core),
        })
    }
}
