//! A lock that a name holds for a time, across processes: nothing runs in the background.

mod acquire;
mod guards;
mod handle;
mod writes;

use std::fmt;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::agent::client_state::ClientHandle;
use crate::lock::fair_lock::{FairLock, check_attributes};
use crate::store::{Timed, dateless};
use crate::vocabulary::config;
use crate::vocabulary::error::{Error, Invalid, LossReason};
use crate::vocabulary::holder;
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::Waiting;
use crate::vocabulary::wait::RecordWait;
use fairlock_protocol::entry::{Entry, Nonce, ServerTime};
use fairlock_protocol::item::{At, Footing, ItemHold, LockItem};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::stamps::{Reading, Stamps};
use fairlock_protocol::ticket::Ticket;

pub use handle::Lease;
use handle::check_id;
use writes::{Ended, extend};

/// DynamoDB's dates have whole seconds.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The most tries to enter. A try is repeated if the participant that was in its way is gone by now.
const TRIES: u8 = 6;

/// A lock that a name of the caller's choice holds for a time of the caller's choice, across processes: for Lambdas and jobs that
/// end before their work does. Nothing runs in the background, and dropping a handle releases nothing.
///
/// It is the same lock as the [fair lock](crate::LockClient::fair_lock) of its name. Callers in its queue wait until the lease is
/// released or ends, and a lease never goes before callers that wait. Only a lease that has expired and that no other caller has
/// taken yet begins again for its own name.
///
/// **A lease expires by DynamoDB's own clock.** Other callers, those in the queue included, take the lock when the lease's time has ended.
/// They take it 5 s later, or up to 10 s where clocks differ. The owner goes by [`Lease::expires_at`]. That is early by as much as hosts'
/// clocks may run apart and by the grain of that clock (2 % of the time that was asked for). The owner fences with the
/// [`ticket`](Lease::ticket) what must not be written late.
///
/// Where answers have no `Date`, calls that take or extend a lease return [`Error::Refused`], unless the client has a
/// [clock that stands in for it](crate::LockClientBuilder::fallback_date).
///
/// A call that does not wait, and each call for a lease that there is, returns within five request time-outs. If its requests together take
/// longer, it returns [`Error::Unavailable`], and DynamoDB may still apply the request that is under way. A call that waits holds what it gets
/// like any caller first. It returns when the lease of its client has ended, at the latest.
///
/// No task is left to undo what a delayed request does. A request that took the lock may arrive a second time after the release.
/// A request of a call that failed, or that returned [`Error::NotGranted`], may arrive after that call. The name then holds the
/// lock for the lease's time, unless a caller [finds](Self::find) the lease under its name and releases it. This client does not
/// give it up by itself, because another process may have asked under the same name and been told that it holds the lease. So
/// take leases no longer than the work needs, and extend them.
///
/// # Examples
///
/// ```
/// # async fn step(locks: fairlock::LockClient) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use fairlock::Lease;
///
/// let lock = locks.lease_lock("import/7")?;
/// let lease = lock.acquire("transaction-1234", Duration::from_secs(300)).await?;
/// let handle = lease.to_string(); // keep it in a message or a workflow's state
///
/// // another process, later
/// let lease: Lease = handle.parse()?;
/// let lease = lock.extend(&lease, Duration::from_secs(300)).await?;
/// lock.release(&lease).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming a lock does not acquire it"]
pub struct LeaseLock {
    /// Whose turn a call waits for, if it waits.
    lock: FairLock,
    /// How many of the lock's permits a lease takes.
    permits: u64,
}

impl LeaseLock {
    /// Leases of this lock take so many of its permits.
    pub(crate) fn new(lock: FairLock, permits: u64) -> Self {
        LeaseLock { lock, permits }
    }

    /// Leases that a hold with so many permits can become.
    fn of_hold(inner: &ClientHandle, name: LockName, permits: u64) -> Self {
        LeaseLock::new(FairLock::new(inner.clone(), name), permits)
    }

    fn inner(&self) -> &ClientHandle {
        &self.lock.inner
    }

    fn name(&self) -> &LockName {
        &self.lock.name
    }

    /// Whether a lease takes all permits of the lock.
    fn is_exclusive(&self) -> bool {
        Some(self.permits) == self.name().permits()
    }

    /// Returns a handle whose leases share the lock with other leases and with readers: each takes one permit.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let reading = locks.lease_lock("catalogue")?.shared();
    /// let lease = reading.acquire("export-4711", std::time::Duration::from_secs(300)).await?;
    /// // other processes read the catalogue too; none writes it
    /// reading.release(&lease).await
    /// # }
    /// ```
    pub fn shared(mut self) -> LeaseLock {
        self.permits = 1;
        self
    }

    /// Sets an observer for calls of the returned handle that [wait](Self::acquire_in_turn), as for those of a
    /// [lock](FairLock::observed).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// let lock = lock.observed(|waiting| eprintln!("before us: {:?}", waiting.position));
    /// let (span, wait) = (std::time::Duration::from_secs(60), fairlock::RecordWait::Infinite);
    /// let lease = lock.acquire_in_turn("transaction-1234", span, wait).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn observed(mut self, observer: impl Fn(&Waiting) + Send + Sync + 'static) -> LeaseLock {
        self.lock = self.lock.observed(observer);
        self
    }

    /// Limits the queue for calls of the returned handle that [wait](Self::acquire_in_turn). If `most` callers or more already wait, the
    /// call fails with [`Error::QueueFull`], as at a [lock](FairLock::max_waiters).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// let lock = lock.max_waiters(10);
    /// let (span, wait) = (std::time::Duration::from_secs(60), fairlock::RecordWait::Infinite);
    /// match lock.acquire_in_turn("transaction-1234", span, wait).await {
    ///     Err(fairlock::Error::QueueFull { .. }) => {} // try again later
    ///     other => drop(other?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_waiters(mut self, most: usize) -> LeaseLock {
        self.lock = self.lock.max_waiters(most);
        self
    }

    /// Sets attributes that leases of the returned handle [publish about themselves](crate::FairLock::attributes) as long as they
    /// last.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// let lock = lock.attributes([("workflow", "import")]);
    /// let lease = lock.acquire("transaction-1234", std::time::Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn attributes<N: Into<String>, V: Into<String>>(
        mut self,
        attributes: impl IntoIterator<Item = (N, V)>,
    ) -> LeaseLock {
        self.lock = self.lock.attributes(attributes);
        self
    }

    /// Takes the lock if it is available now, under the name `id` and for `span`: from one second to a day, and at most half of the [idle
    /// retention](crate::LockClientBuilder::idle_retention). A single request if the lock is free, and two for a share or for some of the
    /// permits. Another if no answer has told this client the time.
    ///
    /// A call under the same name again is recognised. If the name holds the lock, the call returns the lease as it stands, not a
    /// longer one. A lease that has expired, and that no other caller has taken, begins again. So a name is for one piece of
    /// work, and a retried step may ask again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lock was taken: ask again with the same name, or let the lease expire.
    ///
    /// # Errors
    ///
    /// [`Error::NotGranted`] if another caller holds the lock, or waits for it. [`Error::Refused`] where answers have no `Date`, as those
    /// of DynamoDB Local: no clock could tell then when the lease ends. After [`Error::Unavailable`] the name may hold the lock for the
    /// lease's time, and a call under the same name finds it again. [`Error::Invalid`] for a name that is empty or longer than 256 bytes,
    /// or a time out of its range. Else as [`FairLock::acquire`](crate::FairLock::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// match lock.acquire("transaction-1234", std::time::Duration::from_secs(60)).await {
    ///     Ok(lease) => println!("until {:?}", lease.expires_at()),
    ///     Err(fairlock::Error::NotGranted { .. }) => {} // another caller holds the lock
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self, id: impl Into<String>, span: Duration) -> Result<Lease, Error> {
        let id = id.into();
        self.check_call(&id, span)?;
        self.take_at_once(&id, span).await
    }

    /// Waits for this call's turn in the queue of the lock, and takes the lock under the name `id` for `span`. The lease begins when
    /// the turn comes. Until then this client keeps the place in the queue renewed, as that of any other caller.
    ///
    /// Begins with what [`acquire`](Self::acquire) does: a call under a name that has the lock returns its lease, and a free lock costs a
    /// single request. If DynamoDB does not serve that try, the call waits on, as at a lock. If another process waits under the same name
    /// and is granted the lock before, this call leaves the queue, and returns that lease. So a step that is started twice works once. Only
    /// where two processes get permits, or a share, under one name at the same moment, each of them has a lease of its own. A lease with
    /// fewer permits than this handle asks for counts as another one.
    ///
    /// With [`RecordWait::NoWait`] it is [`acquire`](Self::acquire). With [`RecordWait::Timeout`] the time covers the whole wait, and a call
    /// that is granted nothing returns at most one request time-out after it. The grant costs one request more than that of a [`FairLock`]: it
    /// turns the hold into the lease. If that request has no answer, the call tries until the client's own lease ends.
    ///
    /// # Fairness
    ///
    /// As [`FairLock::acquire`]: a lease, a caller with a guard and a reader stand in one queue.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue in the background. It leaves it open whether a lease that was just granted has
    /// begun: ask again with the same name, or [find](Self::find) it.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire) and [`FairLock::acquire`]. If the request that turns the hold into a lease had no answer, the error is
    /// [`Error::Unavailable`], and a call under the same name finds the lease, if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::RecordWait;
    ///
    /// let wait = RecordWait::Timeout(Duration::from_secs(60));
    /// let lease = lock.acquire_in_turn("transaction-1234", Duration::from_secs(300), wait).await?;
    /// println!("{lease}"); // for the process that goes on
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_in_turn(
        &self,
        id: impl Into<String>,
        span: Duration,
        wait: RecordWait,
    ) -> Result<Lease, Error> {
        let id = id.into();
        self.check_call(&id, span)?;
        self.lock.check_call(wait)?;
        self.take_in_turn(&id, span, wait).await
    }

    /// Returns the lease under this name if it holds the lock now. That includes an expired lease, as long as no other caller has
    /// taken the lock. Costs a single read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`FairLock::inspect`](crate::FairLock::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn undo(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// if let Some(lease) = lock.find("transaction-1234").await? {
    ///     lock.release(&lease).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find(&self, id: &str) -> Result<Option<Lease>, Error> {
        let item = self.in_time("find", self.read()).await?.value;
        let found = item.as_ref().and_then(|item| item.leases_of(id, 1).next());
        Ok(found.and_then(|entry| Lease::of(self.name(), entry)))
    }

    /// Extends the lease to `by` from now. Never shortens it: another process may rely on the later expiry. Two requests.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease was extended.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease no longer holds the lock; the lock is then as it was. [`Error::Invalid`] if the time is out
    /// of its range, or the lease is of another lock. Else as [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock, lease: fairlock::Lease) -> Result<(), fairlock::Error> {
    /// let lease = lock.extend(&lease, std::time::Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, lease: &Lease, by: Duration) -> Result<Lease, Error> {
        self.check(lease)?;
        self.check_span(by)?;
        self.in_time("extend", self.go_on(lease, by)).await
    }

    async fn go_on(&self, lease: &Lease, by: Duration) -> Result<Lease, Error> {
        let (answer, expires) = (self.read().await?, Some(lease.expires));
        let seen = self
            .holder_of(lease.nonce, lease.ticket, expires, answer.value)
            .await?;
        self.prolong(seen, by, answer.reading).await
    }

    /// Releases the lease and hands the lock off. A single request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease was released.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease no longer holds the lock; the lock is then as it was. The reason is
    /// [`LossReason::Released`](crate::LossReason::Released) if the lease was released before and its time has not ended. Also
    /// [`Error::Lost`] if its time has ended and a request that had no answer may have released it. [`Error::Invalid`] if the
    /// lease is of another lock. Else as [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn done(lock: fairlock::LeaseLock, lease: fairlock::Lease) -> Result<(), fairlock::Error> {
    /// lock.release(&lease).await
    /// # }
    /// ```
    pub async fn release(&self, lease: &Lease) -> Result<(), Error> {
        self.check(lease)?;
        self.in_time("release", self.give_back(lease)).await
    }

    async fn give_back(&self, lease: &Lease) -> Result<(), Error> {
        let (inner, name) = (self.inner(), self.name());
        // If it stands elsewhere, the refusal shows where it is.
        let held = ItemHold {
            footing: Footing {
                at: self.usual_place(lease.nonce),
                ticket: lease.ticket,
                expires_at: 0,
            },
            permits: self.permits,
        };
        let ended = Box::pin(inner.for_caller(self.end(lease.nonce, held))).await?;
        match ended {
            Ended::HandedOff(item) => {
                inner.saw(name, &item);
                inner.admit(name, &item);
                Ok(())
            }
            // The request that had no answer released it, unless the lease had expired and others could end it.
            Ended::ReleasedEarlier(_) if self.is_before(lease.expires).await => Ok(()),
            Ended::ReleasedEarlier(item) | Ended::NotOurs(item) => {
                Err(self.lost(lease.ticket, Some(lease.expires), item).await)
            }
        }
    }

    /// Where a lease stands, unless it came to a free lock or the number of permits was changed.
    fn usual_place(&self, nonce: Nonce) -> At {
        match self.is_exclusive() {
            true => At::Slot(0),
            false => At::Sharer(nonce),
        }
    }

    /// Bounds a call by the time of one that does not wait, whatever becomes of its requests. DynamoDB may still apply the
    /// request that is under way then.
    async fn in_time<T>(
        &self,
        verb: &'static str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let inner = self.inner();
        self.by(verb, Some(inner.store.now() + inner.no_wait_lasts()), work)
            .await
    }

    /// Bounds work by this moment, if there is one.
    async fn by<T>(
        &self,
        verb: &'static str,
        late: Option<Moment>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let (inner, started) = (self.inner(), self.inner().store.now());
        tokio::select! {
            biased;
            done = Box::pin(work) => done,
            () = inner.store.config().clock.sleep_until(late.unwrap_or_default()), if late.is_some() => {
                let waited = inner.store.now().since(started);
                Err(inner.unavailable(verb, waited, "its requests together took too long"))
            }
        }
    }

    /// Each further round of the loop means that another caller has extended the lease meanwhile.
    async fn prolong(
        &self,
        seen: (At, Entry),
        by: Duration,
        mut reading: Reading,
    ) -> Result<Lease, Error> {
        let (inner, name) = (self.inner(), self.name());
        let policy = inner.policy_of_a_lease(&CancellationToken::new());
        let (mut at, mut seen, mut read_at) = (seen.0, seen.1, inner.store.now());
        loop {
            if reading.date.is_none() {
                let table = &inner.store.config().table;
                return Err(Error::of(dateless("extend a lease"), table, Duration::ZERO));
            }
            // What tries have taken since the answer was read is added.
            let extend = || {
                let by = by.saturating_add(inner.store.now().since(read_at));
                extend(&inner.store, name, (at, &seen), (by, reading))
            };
            let extended = inner.requests.retry(&policy, extend);
            let answer = Box::pin(inner.for_caller(extended)).await?;
            (reading, read_at) = (answer.reading, answer.arrived);
            let answer = answer.value;
            let is_done = answer.is_applied();
            let expires = Lease::of(name, &seen).map(|lease| lease.expires);
            let shown = answer.shown();
            (at, seen) = self
                .holder_of(seen.nonce, seen.ticket, expires, shown)
                .await?;
            if is_done {
                return match Lease::of(name, &seen) {
                    Some(lease) => Ok(lease),
                    None => Err(self.lost(seen.ticket, None, None).await),
                };
            }
        }
    }

    async fn holder_of(
        &self,
        nonce: Nonce,
        ticket: Ticket,
        expires: Option<ServerTime>,
        item: Option<LockItem>,
    ) -> Result<(At, Entry), Error> {
        let hold = item.as_ref().and_then(|item| item.hold_of(nonce, ticket));
        match hold {
            Some((at, entry)) => Ok((at, entry.clone())),
            None => Err(self.lost(ticket, expires, item).await),
        }
    }

    /// Returns a time at which a lease may begin. Reads the lock to learn it, if no answer has told it.
    pub(crate) async fn know_the_past(&self, verb: &'static str) -> Result<Stamps, Error> {
        let store = &self.inner().store;
        let started = store.now();
        if !store.knows_the_date_well() {
            self.read().await?;
        }
        let waited = store.now().since(started);
        let dateless = || Error::of(dateless(verb), &store.config().table, waited);
        store.past().ok_or_else(dateless)
    }

    /// Whether `then` is still to come. Returns `false` where nothing tells, which costs the caller no more than an error that
    /// says less.
    async fn is_before(&self, then: ServerTime) -> bool {
        let store = &self.inner().store;
        let is_told = store.knows_the_date() || self.read().await.is_ok();
        is_told && store.is_before(then)
    }

    async fn read(&self) -> Result<Timed<Option<LockItem>>, Error> {
        let inner = self.inner();
        let policy = inner.policy_of_a_lease(&inner.closed);
        let read = || inner.store.read_lock(self.name());
        let read = inner.requests.retry(&policy, read);
        Box::pin(inner.for_caller(read)).await
    }

    /// No task renews the item's TTL while the lease lasts, so the lease must end before DynamoDB may delete the item.
    pub(crate) fn check_span(&self, lease: Duration) -> Result<(), Invalid> {
        let setting = "the time of a lease";
        config::at_least(setting, lease, "the grain of DynamoDB's dates", SHORTEST)?;
        let kept = self.inner().store.config().idle_retention / 2;
        let (bound, most) = match kept < LONGEST {
            true => ("half of the idle retention", kept),
            false => ("the longest lease", LONGEST),
        };
        config::at_most(setting, lease, bound, most)
    }

    /// Before a lease's time ends, no caller takes the lock from it. So a lease that is gone earlier was released.
    async fn lost(
        &self,
        ticket: Ticket,
        expires: Option<ServerTime>,
        item: Option<LockItem>,
    ) -> Error {
        let is_in = item.is_some();
        let reason = match (holder::evicted(item.as_ref(), ticket), expires) {
            (broken @ LossReason::Broken { .. }, _) => broken,
            (_, Some(end)) if is_in && self.is_before(end).await => LossReason::Released,
            (evicted, _) => evicted,
        };
        Error::Lost {
            lock: self.name().to_string(),
            ticket,
            reason,
        }
    }

    fn check_call(&self, id: &str, span: Duration) -> Result<(), Invalid> {
        check_id(id)?;
        self.check_span(span)?;
        check_attributes(self.lock.said())?;
        self.lock.check_room(Some(id))
    }

    fn check(&self, lease: &Lease) -> Result<(), Invalid> {
        if lease.lock == self.name().lock() {
            Ok(())
        } else {
            Err(Invalid::text(
                "a lease of lock",
                &lease.lock,
                "must be of this lock",
            ))
        }
    }
}

impl fmt::Debug for LeaseLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseLock")
            .field("lock", &self.name().lock())
            .finish_non_exhaustive()
    }
}
