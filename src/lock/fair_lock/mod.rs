//! The handle to a named lock, and the calls that acquire it.

mod bounds;
mod call;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use call::{Turn, Wish};

use crate::agent::client_state::ClientHandle;
use crate::lock::guard::LockGuard;
use crate::store::{Said, check_room};
use crate::telemetry::{Origin, Wait};
use crate::vocabulary::config::SHARERS;
use crate::vocabulary::error::{Closed, Error, Invalid, LockLost};
use crate::vocabulary::hold_bounds::HoldBounds;
use crate::vocabulary::holder;
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::{WaitObserver, Waiting};
use crate::vocabulary::wait::RecordWait;
use fairlock_protocol::entry::Attributes;
use fairlock_protocol::moment::Moment;
use tracing::Instrument;

/// Limit in bytes. Each write of the lock item, by any client, writes the attributes of all its participants again.
const MAX_SAID: usize = 1024;

/// A handle to a named lock. Cheap to clone; naming a lock neither acquires it nor sends anything.
///
/// # Examples
///
/// ```
/// # async fn turn(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
/// let lock = locks.fair_lock("nightly-report")?;
/// if let Some(guard) = lock.try_acquire().await? {
///     // this host makes the report
///     guard.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming a lock does not acquire it"]
pub struct FairLock {
    pub(crate) inner: ClientHandle,
    pub(crate) name: LockName,
    observer: Option<WaitObserver>,
    max_waiters: Option<usize>,
    attributes: Attributes,
    bounds: HoldBounds,
    denies_self_wait: bool,
}

impl FairLock {
    pub(crate) fn new(inner: ClientHandle, name: LockName) -> Self {
        FairLock {
            inner,
            name,
            observer: None,
            max_waiters: None,
            attributes: Attributes::default(),
            bounds: HoldBounds::default(),
            denies_self_wait: false,
        }
    }

    /// Sets an observer for the waiting calls of the returned handle. A call reports when it first stands in the queue, and
    /// whenever a poll shows another position or another holder. It also reports when an outage, in which DynamoDB does not
    /// answer, begins or ends.
    ///
    /// The observer runs in the client's background tasks, so it must be quick, never block and not panic. A panic ends the call
    /// with [`Error::ShutDown`].
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let lock = lock.observed(|waiting| match &waiting.outage {
    ///     Some(outage) => eprintln!("DynamoDB does not answer: {}", outage.cause),
    ///     None => eprintln!("before us: {:?}", waiting.position),
    /// });
    /// let guard = lock.acquire(RecordWait::Infinite).await?;
    /// guard.release().await
    /// # }
    /// ```
    pub fn observed(mut self, observer: impl Fn(&Waiting) + Send + Sync + 'static) -> FairLock {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Adds an observer beside the one that is set, if any.
    pub(crate) fn also_observed(
        &self,
        also: impl Fn(&Waiting) + Send + Sync + 'static,
    ) -> FairLock {
        let first = self.observer.clone();
        self.clone().observed(move |waiting| {
            if let Some(first) = &first {
                first(waiting);
            }
            also(waiting);
        })
    }

    /// The attributes that are set.
    pub(crate) fn said(&self) -> &Attributes {
        &self.attributes
    }

    /// Sets attributes that calls of the returned handle publish about themselves, such as a job's number or a location: anything
    /// that helps people to recognise the holder. DynamoDB keeps them with the call's place from its first write until its
    /// release, and each [`Participant`](crate::Participant) shows them. At most 1 KB; they replace attributes set before.
    ///
    /// No decision depends on them. A call with attributes joins no batch with other callers of this client: see
    /// [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// let lock = lock.attributes([("job", "4711"), ("region", "eu-west-1")]);
    /// let guard = lock.acquire(fairlock::RecordWait::default()).await?;
    /// let holder = lock.inspect().await?.holder;
    /// assert_eq!(holder.map(|holder| holder.attributes["job"].clone()), Some("4711".to_owned()));
    /// guard.release().await
    /// # }
    /// ```
    pub fn attributes<N: Into<String>, V: Into<String>>(
        mut self,
        attributes: impl IntoIterator<Item = (N, V)>,
    ) -> FairLock {
        self.attributes = Attributes::said(attributes);
        self
    }

    /// Limits the queue for calls through the returned handle. If `most` callers or more already wait, the call fails with
    /// [`Error::QueueFull`] as soon as it sees the queue, and leaves nothing in the table. Calls through handles with no limit,
    /// or a higher one, may still make the queue longer. Zero is refused: use [`RecordWait::NoWait`], which takes no place in the
    /// queue and ignores this limit.
    ///
    /// The holder does not count. Callers of this client that form a batch count one by one, in the order in which they asked.
    /// The write that draws a ticket is conditional on the limit, so no ticket is drawn beyond it, however many callers come at
    /// one moment.
    ///
    /// The lock item gives the count, so some tickets count whose callers no longer wait. These are callers that left or crashed behind the
    /// slots, until the queue passes them, and members of the holder's batch that had their turn already. Before a call is refused, entries
    /// that have expired by DynamoDB's clock and this host's are cleared away, unless the holder is alive. A caller that has to draw
    /// another ticket, because it was passed or lost its place, is counted again.
    ///
    /// The limit costs no request: the answer that shows the lock held also shows how many callers wait. Only an answer to a
    /// call's own requests refuses it, never what its client saw of the queue before.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use fairlock::{Error, RecordWait};
    ///
    /// match lock.max_waiters(10).acquire(RecordWait::Infinite).await {
    ///     Ok(guard) => guard.release().await,
    ///     Err(Error::QueueFull { waiting, .. }) => {
    ///         eprintln!("busy: {waiting} wait already");
    ///         Ok(())
    ///     }
    ///     Err(error) => Err(error),
    /// }
    /// # }
    /// ```
    pub fn max_waiters(mut self, most: usize) -> FairLock {
        self.max_waiters = Some(most);
        self
    }

    /// Makes calls of the returned handle fail at once where they could only wait for their own client. So a second acquire that would be a
    /// deadlock is an error, and not a wait. Off by default: locks are not re-entrant, and such a call waits.
    ///
    /// A call fails with [`Error::NotGranted`], whose holder [is of this process](crate::Holder::is_this_process), and sends no request. It
    /// fails if live guards of this client hold the lock so that it cannot be granted beside them.
    ///
    /// - A call for the lock alone fails while this client holds the lock in any way.
    /// - A call to share it fails while this client holds it alone, or shares it as often as it can be shared.
    /// - A call for permits of a [semaphore](crate::Semaphore::deny_self_wait) fails while this client's own holds leave too few of them.
    ///
    /// [`try_acquire`](Self::try_acquire) returns `None` then. A hold that was lost or given back does not count, nor does a hold of another
    /// client of this process.
    ///
    /// # Limitations
    ///
    /// By this setting the caller asserts that no other task of this client would release the lock. Where several tasks take turns at it, calls
    /// are refused that would have been granted after a wait. A call that waits behind other clients is not refused, though a task of this
    /// client may take the lock before it. The terms of a [candidate](Self::candidate) wait in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use fairlock::{Error, RecordWait};
    ///
    /// let lock = lock.deny_self_wait();
    /// let outer = lock.acquire(RecordWait::Infinite).await?;
    /// // Without the setting, this would wait for ever.
    /// let inner = lock.acquire(RecordWait::Infinite).await;
    /// assert!(matches!(inner, Err(Error::NotGranted { .. })));
    /// outer.release().await
    /// # }
    /// ```
    pub fn deny_self_wait(mut self) -> FairLock {
        self.denies_self_wait = true;
        self
    }

    /// The same lock, whose calls wait for their own client.
    pub(crate) fn with_self_wait(&self) -> FairLock {
        FairLock {
            denies_self_wait: false,
            ..self.clone()
        }
    }

    /// The error of a call that asks for so many permits, if it may not wait for its own client.
    pub(crate) fn denies(&self, permits: u64) -> Option<Error> {
        let denies = self.denies_self_wait && !self.inner.closed.is_cancelled();
        denies.then(|| self.inner.self_wait(&self.name, permits))?
    }

    /// The lock's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(lock: &fairlock::FairLock) {
    /// println!("waiting for {}", lock.name());
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.name.lock()
    }

    /// Waits for this call's turn and takes the lock.
    ///
    /// Not re-entrant: a caller that holds the lock and acquires it again waits for itself. The error that ends the wait says
    /// that the holder is in the same process. With [`deny_self_wait`](Self::deny_self_wait) such a call fails at once.
    ///
    /// With [`RecordWait::NoWait`], finding the lock held costs one request, or two within the first second of a hold that its process took
    /// with its first request. The call leaves nothing in the table. A holder, successor or waiter does not count whose lease ended 5 s ago
    /// by DynamoDB's clock and by this host's. The call tries for at most four request time-outs, and ends within one more. If it does not
    /// know by then whether the lock is held, it returns [`Error::Unavailable`].
    ///
    /// With [`RecordWait::Timeout`], the call returns at most one request time-out after the given time, which covers the whole
    /// call.
    ///
    /// The call returns an error once it has left its place in the queue, so a process may end with that error. If leaving takes
    /// longer than one request time-out, the call returns then, and the client goes on leaving in the background.
    ///
    /// # A call that is not polled
    ///
    /// The wait runs in the client's background and ends in time even if the caller does not poll the call. A `select!` may work
    /// in another arm, a `FuturesUnordered` may wait for its turn, or a thread may be blocked. The client gives a guard back that
    /// the caller does not take within two request time-outs after the grant. Others can hold the lock then, and the call, once
    /// polled, returns [`Error::NotGranted`] with `untaken` set. So a future that is never polled again holds no lock, not even
    /// with [`RecordWait::Infinite`]. A call that is neither dropped nor polled keeps its place in the queue until its time ends.
    ///
    /// A hold that is lost before the caller takes its guard is no grant: the call asks again, within the same wait.
    ///
    /// A guard that the caller has taken belongs to the caller, however long it does not poll the future that owns the guard.
    ///
    /// # Several callers of one client
    ///
    /// Calls that wait for the whole lock, and have neither attributes nor bounds, form a batch if another such call of this client is on its
    /// way into the queue. They draw a ticket each by one write, stand at one place, and have their turns one after the other, in the order in which they asked.
    /// A caller that stops waiting leaves the others where they are.
    ///
    /// The batch shares one lease. If it is lost while one of them holds the lock, the others go to the end of the queue, with
    /// newer tickets. A client that crashes loses the place of all of them. Other clients wait for the turns of the whole batch,
    /// as for the same number of single callers.
    ///
    /// # Fairness
    ///
    /// First come, first served, from the moment DynamoDB applied the write that drew the ticket. A waiter that joins the queue
    /// within the join timeout and renews its lease in time is never overtaken. A crashed waiter is passed after its lease.
    /// Callers that do not wait take no ticket while others wait: they never barge in.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any point gives up the place in the queue, or the lock if it was just granted, in the background. A
    /// later call stands at the end of the queue.
    ///
    /// # Errors
    ///
    /// [`Error::NotGranted`] if another caller holds the lock when the wait ends, or if the call was not polled when the lock was
    /// granted. [`Error::QueueFull`] if more callers wait than [`max_waiters`](Self::max_waiters) allows. [`Error::Refused`],
    /// [`Error::InvalidItem`] and [`Error::Invalid`] for what another try would not mend. [`Error::ShutDown`] if the client is
    /// shut down before or during the call, if its runtime is gone, or if the lock's observer panicked in this call.
    ///
    /// [`Error::Unavailable`] if DynamoDB does not answer when the wait ends. With [`RecordWait::Infinite`] no outage ends the call, not
    /// even a wrong endpoint. The log and the [observer](Self::observed) report when an outage begins. Credentials that cannot be loaded or
    /// are rejected are outages too, and so are a rejected signature and a client's runtime that does not run. Credentials that are still
    /// being loaded are none. Throttling is an answer, and backing off is a part of waiting.
    ///
    /// # Panics
    ///
    /// With [`RecordWait::Timeout`], when polled outside of a tokio runtime, whose timer measures the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::RecordWait;
    ///
    /// let guard = lock.acquire(RecordWait::Timeout(Duration::from_secs(5))).await?;
    /// // do the work
    /// guard.release().await
    /// # }
    /// ```
    pub async fn acquire(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        self.acquire_permits(SHARERS, wait).await
    }

    /// Waits for this call's turn and takes the lock together with other callers that share it, up to 64 of them: readers
    /// together, writers alone, in one queue.
    ///
    /// The call costs one request if no caller waits and the lock is free or shared. A reader that asks while a writer waits
    /// stands behind it. When the writer has released, all readers up to the next writer hold the lock. So neither readers nor
    /// writers starve.
    ///
    /// Tickets of callers that share a lock do not exclude each other. They are larger than those of all writers before them, and
    /// smaller than those of all writers after them.
    ///
    /// Waits, fairness, cancel safety, errors and panics are those of [`acquire`](Self::acquire), except that callers of one
    /// client form no batch. Not re-entrant: a caller that shares the lock and asks for it alone waits for itself. So does a
    /// caller that shares the lock and shares it again, if a writer came between.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let reading = lock.acquire_shared(RecordWait::default()).await?;
    /// // other readers may hold the lock too; no writer does
    /// reading.release().await
    /// # }
    /// ```
    pub async fn acquire_shared(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        self.acquire_permits(1, wait).await
    }

    /// Checks that there is room for an entry of this handle, with this id if it is to be a lease.
    pub(crate) fn check_room(&self, id: Option<&str>) -> Result<(), Invalid> {
        let said = Said {
            owner: &self.inner.store.config().owner,
            attributes: &self.attributes,
            address: self.inner.address(),
            id,
        };
        check_room(said, self.name.permits().unwrap_or_default())
    }

    pub(crate) async fn acquire_permits(
        &self,
        permits: u64,
        wait: RecordWait,
    ) -> Result<LockGuard, Error> {
        let wish = Wish {
            permits,
            wait,
            lease: None,
        };
        match self.comes_to(wish).await? {
            Turn::Held(guard) => Ok(guard),
            // No lease answers a call that asks for none.
            Turn::Leased(item, ..) => Err(holder::not_granted(
                &self.name,
                Some(&item),
                None,
                Duration::ZERO,
            )),
        }
    }

    /// What a call comes to that asks for this.
    pub(crate) async fn comes_to(&self, wish: Wish) -> Result<Turn, Error> {
        self.check_call(wish.wait)?;
        self.check_room(wish.lease.as_ref().map(|lease| &*lease.id))?;
        let told = Wait::begin(self.inner.store.config(), &self.name);
        let turn = self.turn(&wish, told.origin());
        let comes = turn.instrument(told.span()).await;
        match &comes {
            Ok(turn) => told.granted(turn.ticket()),
            Err(error) => told.refused(error, wish.wait),
        }
        comes
    }

    /// Refuses what no call of this handle could do.
    pub(crate) fn check_call(&self, wait: RecordWait) -> Result<(), Invalid> {
        if wait == RecordWait::Timeout(Duration::ZERO) {
            return Err(Invalid::new(
                "RecordWait::Timeout(0) never waits: say RecordWait::NoWait",
            ));
        }
        if self.max_waiters == Some(0) {
            return Err(Invalid::new(
                "max_waiters(0) never waits: say RecordWait::NoWait",
            ));
        }
        let config = self.inner.store.config();
        self.bounds.check(config.idle_retention)?;
        check_attributes(&self.attributes)
    }

    /// Waits for the call's turn.
    async fn turn(&self, wish: &Wish, origin: Origin) -> Result<Turn, Error> {
        if self.inner.closed.is_cancelled() {
            return Err(Error::ShutDown(Closed::ShutDown));
        }
        if let Some(denied) = self.denies(wish.permits) {
            return Err(denied);
        }
        let started = self.inner.store.now();
        if self.inner.store.config().reads_first {
            // Boxed, as whatever few calls need, so that a call that waits does not reserve memory for it.
            Box::pin(self.know_the_time(self.until(wish.wait, started))).await;
        }
        let begins = match wish.wait {
            // A call that does not wait is given time for its tries only, and they begin here.
            RecordWait::NoWait => self.inner.store.now(),
            RecordWait::Timeout(_) | RecordWait::Infinite => started,
        };
        let until = self.until(wish.wait, begins);
        let times = (started, until);
        // Each round but the last ended with a hold that was lost before its caller took the guard.
        loop {
            let guard = match Box::pin(self.asks(wish, times, &origin)).await? {
                Turn::Held(guard) => guard,
                leased @ Turn::Leased(..) => return Ok(leased),
            };
            match guard.loss() {
                Some(lost) => Box::pin(self.begin_again(guard, &lost, times)).await?,
                None => return Ok(Turn::Held(guard)),
            }
        }
    }

    /// Takes the lock if it is available now: [`acquire`](Self::acquire) with [`RecordWait::NoWait`], for callers to which a held
    /// lock is no error. Returns `None` if another caller holds the lock, or waits for it.
    ///
    /// The very first request of a process writes an entry without a date, which a renewal adds within a second. A process that dies in
    /// that second leaves a hold that the next call of this kind can only date, however much later it comes. A program that asks once may
    /// [`inspect`](Self::inspect) the lock before: the answer tells it the time.
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
    /// # async fn once(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// match lock.try_acquire().await? {
    ///     Some(guard) => guard.release().await,
    ///     None => Ok(()), // another host holds the lock
    /// }
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        if_granted(self.acquire(RecordWait::NoWait).await)
    }

    /// Shares the lock if that is possible now: [`acquire_shared`](Self::acquire_shared) with [`RecordWait::NoWait`], for callers
    /// to which a writer is no error. Returns `None` if a writer holds the lock.
    ///
    /// # Fairness, cancel safety
    ///
    /// As [`acquire_shared`](Self::acquire_shared). Returns `None` also while others wait.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that [`Error::NotGranted`] is returned as `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn once(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// match lock.try_acquire_shared().await? {
    ///     Some(reading) => reading.release().await,
    ///     None => Ok(()), // a writer holds the lock, or others wait
    /// }
    /// # }
    /// ```
    pub async fn try_acquire_shared(&self) -> Result<Option<LockGuard>, Error> {
        if_granted(self.acquire_shared(RecordWait::NoWait).await)
    }

    /// When a call that has waited since `started` gives up. Returns `None` if it never does.
    fn until(&self, wait: RecordWait, started: Moment) -> Option<Moment> {
        match wait {
            RecordWait::Timeout(span) => Some(started + span),
            RecordWait::NoWait => self.inner.gives_up_at_once(started),
            RecordWait::Infinite => None,
        }
    }

    /// Reads the lock if no answer has told the time. Ignores failures, because the call itself meets them.
    async fn know_the_time(&self, until: Option<Moment>) {
        let store = &self.inner.store;
        let reads = async {
            if !store.knows_the_time() {
                let _ = store.read_lock(&self.name).await;
            }
        };
        self.inner.within_a_request(until, reads).await;
    }

    /// Gives a lost hold back before the call asks again, with a newer ticket. Returns the error if the time has ended by then,
    /// or if the client is shut down.
    async fn begin_again(
        &self,
        guard: LockGuard,
        lost: &LockLost,
        (started, until): (Moment, Option<Moment>),
    ) -> Result<(), Error> {
        tracing::info!(lock = %lost.lock, ticket = %lost.ticket, reason = %lost.reason, "lost before its caller came for it: begins again");
        let release = guard.release_unused();
        self.inner.let_go(release, until).await;
        if self.inner.closed.is_cancelled() {
            return Err(Error::ShutDown(Closed::ShutDown));
        }
        let now = self.inner.store.now();
        if until.is_some_and(|until| until <= now) {
            let waited = now.since(started);
            return Err(holder::not_granted(&self.name, None, None, waited));
        }
        Ok(())
    }
}

/// Returns `None` if the lock was not granted.
pub(crate) fn if_granted(ended: Result<LockGuard, Error>) -> Result<Option<LockGuard>, Error> {
    match ended {
        Ok(guard) => Ok(Some(guard)),
        Err(Error::NotGranted { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn check_attributes(attributes: &Attributes) -> Result<(), Invalid> {
    let bytes = attributes.bytes();
    if bytes > MAX_SAID {
        return Err(Invalid::new(format!(
            "{bytes} bytes of attributes are too many, of which a call has at most {MAX_SAID}"
        )));
    }
    if attributes.iter().any(|(name, _)| name.is_empty()) {
        return Err(Invalid::new(
            "the name of an attribute takes 1 byte at least",
        ));
    }
    Ok(())
}

impl fmt::Debug for FairLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairLock")
            .field("lock", &self.name())
            .finish_non_exhaustive()
    }
}
