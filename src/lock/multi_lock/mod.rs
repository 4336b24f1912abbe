//! Several locks at once, all or none. They are taken in one order, so that callers that name them in different orders never wait
//! for each other in a ring.
//!
//! `docs/safety.md` says why the order is enough, and why the same ticket on each lock is not.

mod claim;
mod guard;
mod time;

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::agent::client_state::{ClientHandle, STANDSTILL};
use crate::agent::offer::{self, Granted};
use crate::lock::client::LockClient;
use crate::lock::fair_lock::FairLock;
use crate::lock::guard::LockGuard;
use crate::lock::run::{self, HoldHandle, RunOutcome};
use crate::runtime::background::Task;
use crate::vocabulary::error::{Closed, Error, Invalid, LockLost};
use crate::vocabulary::holder;
use crate::vocabulary::state::Waiting;
use crate::vocabulary::wait::RecordWait;

pub use claim::LockClaim;
pub use guard::MultiLockGuard;
use time::Time;

/// Sends the result to the caller of several locks.
type Tell = oneshot::Sender<Result<Granted<MultiLockGuard>, Error>>;

/// A handle to several locks that are held at the same time. Cheap to clone; naming them neither acquires them nor sends
/// anything.
///
/// # Limitations
///
/// - **Callers must take all of their locks this way**: only among such callers deadlocks are ruled out. A caller that holds one
///   lock and then asks for a lesser one by itself is outside of the order. Time-outs end what comes of that.
/// - **The first lock stays held and renewed while the call waits for the next.** A caller that wants only the first lock waits
///   for that too.
/// - **The locks are taken one after the other**: if all of them are free, it takes a round trip each.
/// - **Tickets are those of each lock.** Nothing orders one lock's holds against another's.
///
/// # Examples
///
/// ```
/// # async fn transfer(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
/// use std::time::Duration;
/// use fairlock::RecordWait;
///
/// let accounts = locks.multi_lock(["account/42", "account/7"])?;
/// let guard = accounts.acquire(RecordWait::Timeout(Duration::from_secs(60))).await?;
/// tokio::select! {
///     lost = guard.lost() => eprintln!("stop: {lost}"),
///     () = async { /* the work */ } => {}
/// }
/// guard.release().await
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming locks does not acquire them"]
pub struct MultiLock {
    inner: ClientHandle,
    /// In the order in which they are taken, each with how many of its permits a call asks for.
    locks: Vec<(FairLock, u64)>,
    /// Learns of each lock that is taken. Each lock tells it of the wait by itself.
    observer: Option<Observer>,
}

/// What is told of the lock with that name.
type Observer = Arc<dyn Fn(&str, &Waiting) + Send + Sync>;

impl LockClient {
    /// Names several locks, to be held all or none; sends nothing. A name stands for the lock alone; a [`LockClaim`] may also say that the
    /// lock is shared, or that permits of a semaphore are taken. The order in which they are named makes no difference. A lock
    /// that is named twice is one lock: the two accounts of a transfer may be the same. A lock that is to be shared and to be held
    /// alone is held alone.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if there is no name, or a name or a number of permits that [`fair_lock`](Self::fair_lock) or
    /// [`semaphore`](Self::semaphore) would refuse. Also if a semaphore is named twice with different permits.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn name(locks: &fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let accounts = locks.multi_lock(["account/7", "account/42", "account/7"])?;
    /// assert!(accounts.names().eq(["account/42", "account/7"]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi_lock(
        &self,
        claims: impl IntoIterator<Item: Into<LockClaim>>,
    ) -> Result<MultiLock, Error> {
        let mut one_each: BTreeMap<String, LockClaim> = BTreeMap::new();
        for claim in claims {
            let claim = claim.into();
            let claim = match one_each.remove(claim.name()) {
                Some(other) => other.joined(claim)?,
                None => claim,
            };
            one_each.insert(claim.name().to_owned(), claim);
        }
        if one_each.is_empty() {
            return Err(Invalid::new(
                "several locks at once take one name or more, and none was given",
            )
            .into());
        }
        let locks = one_each.values().map(|claim| claim.lock(self));
        Ok(MultiLock {
            inner: self.inner.clone(),
            locks: locks.collect::<Result<_, _>>()?,
            observer: None,
        })
    }
}

impl MultiLock {
    /// The names of the locks in the order in which they are taken, which is that of their bytes. Each name comes once.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(accounts: &fairlock::MultiLock) {
    /// accounts.names().for_each(|name| println!("waiting for {name}"));
    /// # }
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.locks.iter().map(|(lock, _)| lock.name())
    }

    /// Sets an observer for the waiting calls of the returned handle. It gets the name of the lock that the call asks for, and what the
    /// observer of [that lock alone](FairLock::observed) would get.
    ///
    /// When a lock is granted, the observer gets the place of its hold, with position 0. The call keeps this place while it waits for the
    /// other locks, and another process can [give it up](LockClient::give_up). If the call loses a lock meanwhile, it gives back all of
    /// them without telling the observer, and each lock has another place afterwards.
    ///
    /// As there, the observer must be quick, never block and not panic: a panic ends the call.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn transfer(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let accounts = locks.multi_lock(["account/42", "account/7"])?;
    /// let accounts = accounts.observed(|lock, waiting| match waiting.position {
    ///     Some(0) => eprintln!("{lock} is taken"),
    ///     position => eprintln!("before us at {lock}: {position:?}"),
    /// });
    /// accounts.acquire(RecordWait::Infinite).await?.release().await
    /// # }
    /// ```
    pub fn observed(
        mut self,
        observer: impl Fn(&str, &Waiting) + Send + Sync + 'static,
    ) -> MultiLock {
        let observer: Observer = Arc::new(observer);
        let observed = |lock: FairLock| {
            let (name, observer) = (lock.name().to_owned(), Arc::clone(&observer));
            lock.observed(move |waiting| observer(&name, waiting))
        };
        self.observer = Some(Arc::clone(&observer));
        self.each(observed)
    }

    fn each(mut self, set: impl Fn(FairLock) -> FairLock) -> MultiLock {
        let each = self.locks.into_iter();
        self.locks = each.map(|(lock, permits)| (set(lock), permits)).collect();
        self
    }

    /// Limits how long each of the locks is held, as [`FairLock::max_hold`] does. The time counts from when the call has all of them. So a
    /// lock that the call takes before the others may be held for longer, and its lease is cut short with its next renewal.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn transfer(accounts: fairlock::MultiLock) -> Result<(), fairlock::Error> {
    /// let accounts = accounts.max_hold(std::time::Duration::from_secs(60));
    /// accounts.acquire(fairlock::RecordWait::Infinite).await?.release().await
    /// # }
    /// ```
    pub fn max_hold(self, most: Duration) -> MultiLock {
        self.each(|lock| lock.max_hold(most).begins_with_all())
    }

    /// Keeps each of the locks for this long at least, as [`FairLock::min_hold`] does. The time counts from when the call has all of them. Locks
    /// that are given back because another one was not granted are not kept.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn nightly(jobs: fairlock::MultiLock) -> Result<(), fairlock::Error> {
    /// let jobs = jobs.min_hold(std::time::Duration::from_secs(60));
    /// jobs.acquire(fairlock::RecordWait::Infinite).await?.release().await
    /// # }
    /// ```
    pub fn min_hold(self, least: Duration) -> MultiLock {
        self.each(|lock| lock.min_hold(least).begins_with_all())
    }

    /// Makes calls of the returned handle fail at once where they could only wait for their own client at one of the locks, as
    /// [`FairLock::deny_self_wait`] does. Such a call takes none of the locks, unless this client comes to hold one of them while the call takes
    /// others.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn transfer(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::{Error, RecordWait};
    ///
    /// let one = locks.fair_lock("account/42")?.acquire(RecordWait::Infinite).await?;
    /// let accounts = locks.multi_lock(["account/42", "account/7"])?.deny_self_wait();
    /// let both = accounts.acquire(RecordWait::Infinite).await;
    /// assert!(matches!(both, Err(Error::NotGranted { lock, .. }) if lock == "account/42"));
    /// one.release().await
    /// # }
    /// ```
    pub fn deny_self_wait(self) -> MultiLock {
        self.each(FairLock::deny_self_wait)
    }

    /// Waits for this call's turn at each of the locks, in the order of their names, and takes all of them, or none.
    ///
    /// All callers that take several locks take them in this one order, so no holder of a lock waits for a caller that waits for
    /// this lock. A lock that was taken stays held and renewed while the call waits for the others. If it is lost meanwhile, the
    /// call releases all of them, and begins again within the same time.
    ///
    /// With [`RecordWait::NoWait`] the call tries each lock once, for [as long as a call for one lock does](FairLock::acquire),
    /// and the first held lock ends it. Of calls that stand in each other's way, one call takes its locks. The call returns
    /// within five request time-outs for each lock, and one more in which it releases the locks that it took. After a loss it
    /// begins again unless no more than the time of one lock is left.
    ///
    /// With [`RecordWait::Timeout`] the time covers all of the locks together, and the call returns at most one request time-out
    /// after it. A call that is not polled [keeps nothing either](FairLock::acquire).
    ///
    /// # Fairness
    ///
    /// First come, first served at each lock by itself, as [`FairLock::acquire`]. Calls that want several locks have no order
    /// among them: a later call that wants fewer locks may be done sooner.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any point releases the locks that were taken, and gives up the place in the queue, in the
    /// background.
    ///
    /// # Errors
    ///
    /// As [`FairLock::acquire`], for the lock that could not be taken: [`Error::NotGranted`] names the lock and its holder. The
    /// call returns the error when it has released the locks that it took. What takes longer than one request time-out goes on in
    /// the background.
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
    /// match locks.multi_lock(["account/42", "account/7"])?.acquire(RecordWait::default()).await {
    ///     Ok(guard) => guard.release().await,
    ///     Err(Error::NotGranted { lock, .. }) => {
    ///         eprintln!("{lock} is busy, try again later");
    ///         Ok(())
    ///     }
    ///     Err(other) => Err(other),
    /// }
    /// # }
    /// ```
    pub async fn acquire(&self, wait: RecordWait) -> Result<MultiLockGuard, Error> {
        let mut locks = self.locks.iter();
        if let Some(denied) = locks.find_map(|(lock, permits)| lock.denies(*permits)) {
            return Err(denied);
        }
        let time = Time::from_now(&self.inner, wait, self.locks.len());
        // Each round but the last has lost a lock after the last lock was granted, and before this future was polled again.
        loop {
            let ended = self.take_behind(time).await;
            let granted = ended.map_err(|error| in_all(error, time.waited(&self.inner)))?;
            let Some(guard) = granted.take() else {
                return Err(holder::untaken(
                    &self.locks[0].0.name,
                    time.waited(&self.inner),
                ));
            };
            match guard.loss() {
                Some(lost) => self.begin_again(guard, &lost, time).await?,
                None => return Ok(guard),
            }
        }
    }

    /// Runs in a task of its own, so that the locks are given back in time even if the call is not polled.
    async fn take_behind(&self, time: Time) -> Result<Granted<MultiLockGuard>, Error> {
        let (tell, told) = oneshot::channel();
        let stop = CancellationToken::new();
        let _stops_when_dropped = stop.clone().drop_guard();
        let taking = self.clone().take_and_tell(time, stop, tell);
        let first = &self.locks[0].0.name;
        self.inner.spawn_then(first, None, Task::Acquire, taking);
        let clock = &self.inner.store.config().clock;
        let late = time.ends_late(&self.inner).map(|late| late + STANDSTILL);
        tokio::select! {
            biased;
            // If no answer comes, the task's runtime is gone.
            told = told => told.unwrap_or(Err(Error::ShutDown(Closed::NoRuntime))),
            () = clock.sleep_until_if_counted(late.unwrap_or_default()), if late.is_some() => {
                Err(self.inner.stands_still("acquire", time.waited(&self.inner)))
            }
        }
    }

    /// Returns a closure that reports an error. Reports a guard itself, and gives it back if the caller does not take it in time.
    async fn take_and_tell(self, time: Time, stop: CancellationToken, tell: Tell) -> impl FnOnce() {
        let taken = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            taken = self.take_in_time(time) => Some(taken),
        };
        let failed = match taken {
            Some(Ok(guard)) => {
                self.offer(guard, tell).await;
                None
            }
            Some(Err(error)) => Some((tell, error)),
            None => None,
        };
        // A caller that has gone need not be told.
        move || drop(failed.map(|(tell, error)| tell.send(Err(error))))
    }

    async fn offer(&self, guard: MultiLockGuard, tell: Tell) {
        let (granted, offer) = offer::offer(guard);
        if tell.send(Ok(granted)).is_ok() {
            drop(self.inner.untaken(offer).await);
        }
    }

    async fn take_in_time(&self, time: Time) -> Result<MultiLockGuard, Error> {
        // Each round but the last has lost a lock on the way.
        loop {
            match self.take_all(time).await {
                Taken::All(guard) => return Ok(guard),
                Taken::Part(guard, lost) => self.begin_again(guard, &lost, time).await?,
                Taken::Failed(guard, error) => {
                    let late = time.ends_late(&self.inner);
                    self.inner.let_go(guard.release_unused(), late).await;
                    return Err(in_all(error, time.waited(&self.inner)));
                }
            }
        }
    }

    /// Gives back the locks that were taken before the call asks again, because one of them was lost. Returns the error if the
    /// time has ended by then.
    async fn begin_again(
        &self,
        guard: MultiLockGuard,
        lost: &LockLost,
        time: Time,
    ) -> Result<(), Error> {
        tracing::info!(lock = %lost.lock, ticket = %lost.ticket, reason = %lost.reason, "lost while it waited for others: begins again");
        if time.is_over(&self.inner) {
            let late = time.ends_late(&self.inner);
            self.inner.let_go(guard.release_unused(), late).await;
            let known = self
                .locks
                .iter()
                .find(|(known, _)| known.name() == lost.lock);
            let (FairLock { name, .. }, _) = known.unwrap_or(&self.locks[0]);
            let waited = time.waited(&self.inner);
            return Err(holder::not_granted(name, None, None, waited));
        }
        self.inner.let_go(guard.release_unused(), time.ends).await;
        Ok(())
    }

    /// Takes the locks if all of them are available now: [`acquire`](Self::acquire) with [`RecordWait::NoWait`], for callers to
    /// which a held lock is no error. Returns `None` if another caller holds one of them, or waits for it.
    ///
    /// # Fairness, cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that [`Error::NotGranted`] is returned as `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn once(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// match locks.multi_lock(["account/42", "account/7"])?.try_acquire().await? {
    ///     Some(guard) => guard.release().await,
    ///     None => Ok(()), // another caller holds one of them
    /// }
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<MultiLockGuard>, Error> {
        match self.acquire(RecordWait::NoWait).await {
            Ok(guard) => Ok(Some(guard)),
            Err(Error::NotGranted { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the locks, runs `work` for as long as all of them are held, and releases them: [`FairLock::run`] for several
    /// locks.
    ///
    /// # Fairness, panics
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the locks that were taken so far. If the work has begun, it drops the work, and then releases
    /// the locks in the background.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), if the work never began. [`Error::Lost`] if one of the locks was lost before the work was
    /// done.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn transfer(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let accounts = locks.multi_lock(["account/42", "account/7"])?;
    /// let ran = accounts.run(RecordWait::default(), async |guard| guard.ticket("account/42")).await?;
    /// assert!(ran.value.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(
        &self,
        wait: RecordWait,
        work: impl AsyncFnOnce(&MultiLockGuard) -> T,
    ) -> Result<RunOutcome<T>, Error> {
        run::run(self.acquire(wait).await?, work).await
    }

    /// Takes one lock after the other, until one cannot be taken, or one that was taken is lost.
    async fn take_all(&self, time: Time) -> Taken {
        let inner = &self.inner;
        let mut taken = MultiLockGuard {
            guards: Vec::with_capacity(self.locks.len()),
        };
        for (lock, permits) in &self.locks {
            // The lock before this one came after the time had ended, so this one is not asked for any more.
            if !taken.guards.is_empty() && time.is_over(inner) {
                let error = holder::not_granted(&lock.name, None, None, time.waited(inner));
                return Taken::Failed(taken, error);
            }
            let lost = async {
                match time.wait {
                    // The attempt ends soon, and must run to its end: a request that it leaves under way would be in the way of
                    // the next try.
                    RecordWait::NoWait => pending().await,
                    RecordWait::Timeout(_) | RecordWait::Infinite => taken.lost().await,
                }
            };
            // Once the time has ended there is no other try, and the error of this one names the holder.
            let granted = tokio::select! {
                biased;
                lost = time.or_never(inner, lost) => return Taken::Part(taken, lost),
                granted = lock.acquire_permits(*permits, time.left(inner)) => granted,
            };
            match granted {
                Ok(guard) => {
                    let told = self.tell_of(&guard);
                    taken.guards.push(guard);
                    if let Err(error) = told {
                        return Taken::Failed(taken, error);
                    }
                }
                Err(error) => return Taken::Failed(taken, error),
            }
            if let Some(lost) = taken.loss() {
                return Taken::Part(taken, lost);
            }
        }
        for guard in &taken.guards {
            guard.begin_bounds();
        }
        Taken::All(taken)
    }

    /// A panic of the caller's own observer ends this call alone.
    fn tell_of(&self, guard: &LockGuard) -> Result<(), Error> {
        let Some(observer) = &self.observer else {
            return Ok(());
        };
        let tells = || observer(guard.name(), &Waiting::over(guard.place_id()));
        catch_unwind(AssertUnwindSafe(tells)).map_err(|_| Error::ShutDown(Closed::ObserverPanicked))
    }
}

/// The result of taking one lock after the other.
enum Taken {
    All(MultiLockGuard),
    /// A lock that was taken was lost.
    Part(MultiLockGuard, LockLost),
    /// The next lock could not be taken.
    Failed(MultiLockGuard, Error),
}

/// Replaces the waiting time in a single lock's error by that of the whole call.
fn in_all(mut error: Error, in_all: Duration) -> Error {
    if let Error::NotGranted { waited, .. } | Error::Unavailable { waited, .. } = &mut error {
        *waited = in_all;
    }
    error
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
