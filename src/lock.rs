//! A name to be locked, and what a caller gets for asking.

mod call;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use call::Call;

use crate::client_inner::{ClientHandle, Observer, READS, Refused};
use crate::config::{SHARERS, unusable};
use crate::error::{Closed, Error, Invalid, LockLost};
use crate::guard::LockGuard;
use crate::hold;
use crate::name::LockName;
use crate::state::Waiting;
use crate::store::check_room;
use crate::wait::RecordWait;
use fairlock_protocol::entry::Attributes;
use fairlock_protocol::moment::Moment;

/// What a caller says of itself is written with each write of the lock item, by whomever.
const MAX_SAID: usize = 1024;

/// A name to be locked. Cheap to clone; naming a lock neither acquires it nor sends anything.
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
    observer: Option<Observer>,
    max_waiters: Option<usize>,
    attributes: Attributes,
    reads_first: bool,
}

impl FairLock {
    pub(crate) fn new(inner: ClientHandle, name: LockName) -> Self {
        FairLock {
            inner,
            name,
            observer: None,
            max_waiters: None,
            attributes: Attributes::default(),
            reads_first: false,
        }
    }

    /// The same lock, whose waiting calls tell `observer` how far they have come: when they first stand in the queue, whenever a
    /// look shows another place or another holder, and when an outage begins, in which DynamoDB does not answer, or ends.
    ///
    /// The observer runs in the client's background tasks, so it must be quick, never block and not panic: a panic ends
    /// the call with [`Error::ShutDown`].
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

    /// The same lock, whose waiting calls tell `also` what they tell its observer.
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

    /// The same lock, whose calls say this of themselves: a job's number, a place, whatever helps to know who has the lock. It is kept
    /// with the call's place from its first write until its release, and shown with each
    /// [`Participant`](crate::Participant). At most 1 KB, in place of what was said before.
    ///
    /// Nothing is decided by it. Calls that say something go each for themselves, not together with
    /// others of this client, as [there](Self::acquire).
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

    /// The same lock, in whose queue no more than so many wait: a call of this value that would have to wait behind as many, or
    /// more, is refused with [`Error::QueueFull`] as soon as the queue is seen, and leaves nothing in the table. Calls of
    /// others with no limit, or a higher one, may still make the queue longer. 0 is refused: that is
    /// [`RecordWait::NoWait`], which takes no place in the queue and to which this means nothing.
    ///
    /// The holder does not count; callers of this client who come together count one by one, in the order in which they asked. The
    /// condition of the write that draws a ticket sees to it that none is drawn beyond the limit, however many
    /// come at one moment. What is before a caller is counted as the lock item has it, so some count who do not wait: those
    /// who left or died behind the slots, until the queue passes them, and, of several who share the holder's place, those
    /// who had their turn. Those who are dead by DynamoDB's clock are cleared away before anybody is refused, unless the holder
    /// is alive. Who has to draw another ticket, because it was passed or its place was lost, is counted again.
    ///
    /// Costs nothing: the answer that shows the lock held shows how many wait. A call is refused by an answer to its own requests
    /// only, never by what its client saw of the queue before.
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

    /// The same lock, whose calls read it first in a process to which no answer has told the time yet: for programs that live for
    /// one turn, such as cron jobs and Lambdas.
    ///
    /// An entry is dated by what an answer has told its process, so what a process writes with its very first request has no date,
    /// and gets one within a second, when it is renewed. One that dies in this second leaves a hold without a date. The next call
    /// that does not wait can only give it one, and comes away without the lock, however much later it comes; a nightly job
    /// misses a night. With this, the first write is dated.
    ///
    /// It costs one read more in each process, two where the host's wall clock is off by more than eight seconds, up to
    /// four where answers disagree, and nothing once the time is known. The read is a part of the call's time, and takes
    /// one request time-out of it at most; a call that does not wait may take that much longer. If it fails, the call goes
    /// on without it. With answers that have no `Date`, as those of DynamoDB Local, it does nothing but read.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn nightly(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let lock = locks.fair_lock("nightly-report")?.read_first();
    /// if let Some(guard) = lock.try_acquire().await? {
    ///     // this host makes the report
    ///     guard.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_first(mut self) -> FairLock {
        self.reads_first = true;
        self
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

    /// Waits for its turn and takes the lock.
    ///
    /// Not re-entrant: who holds the lock and acquires it again waits for itself, and the error that ends the wait
    /// says that the holder is in this very process.
    ///
    /// With [`RecordWait::NoWait`] a lock that somebody holds costs one request, or two in the first second of one whose process
    /// took it with its first request; and nothing of the call is left in the table. A
    /// holder, successor or waiter whose lease is over by DynamoDB's own clock does not count. The call tries for at most
    /// four request time-outs, and ends within one more. If it has not found out by then whether somebody has the lock, it says
    /// [`Error::Unavailable`]. With
    /// [`RecordWait::Timeout`] the call returns at most one request time-out after the given time, which covers all
    /// of it.
    ///
    /// An error is returned when the call's place in the queue is left, so that a process may end with it. If leaving takes longer than
    /// one request time-out, the error is returned then, and leaving goes on in the background.
    ///
    /// # A call that is not polled
    ///
    /// The wait runs in the client's background, and ends there in time though the call is not polled: a `select!` may be at work in
    /// another arm, a `FuturesUnordered` waits for its turn, a thread is blocked. A guard that the caller does not take within two
    /// request time-outs after the grant is given back: others have the lock, and the call, polled at last, returns
    /// [`Error::NotGranted`], which says so as `untaken`. So a future that is never polled again holds no lock, also with
    /// [`RecordWait::Infinite`]. A call that is not dropped and not polled keeps its place in the queue until its time is over.
    ///
    /// A hold that is lost before its caller comes for the guard is no grant: the call asks again, within the same wait.
    ///
    /// A guard that the caller has taken is its own, however long the future is not polled that has it.
    ///
    /// # Several callers of one client
    ///
    /// Those who ask for a lock while another caller of this client is on its way into the queue go together: they draw a
    /// ticket each by one write, stand at one place, and have their turns one after the other, in the order in which they
    /// asked. They share one lease: if it is lost while one of them has the lock, the others go to the end of the queue,
    /// with newer tickets, and a client that crashes loses the place of all of them. Other clients wait for the turns
    /// of all of them, as for so many callers. Whoever stops waiting leaves the others where they are.
    ///
    /// # Fairness
    ///
    /// First come, first served, from the moment DynamoDB applied the write that drew the ticket. Whoever drew one,
    /// joins within the join timeout and renews in time is never passed over, and those who crash are passed after a
    /// lease. Callers that do not wait take no ticket while others wait: they never barge in.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any point gives up the place in the queue, or the lock if it was just granted, in the
    /// background. A call made afterwards stands at the end of the queue.
    ///
    /// # Errors
    ///
    /// [`Error::NotGranted`] when another caller has it and the wait is over, or the call was not polled when it was granted.
    /// [`Error::QueueFull`] when more wait than [`max_waiters`](Self::max_waiters) allows. [`Error::Unavailable`] when DynamoDB
    /// did not answer and the wait is over, or the [outage time-out](crate::LockClientBuilder::outage_timeout) is. With
    /// [`RecordWait::Infinite`] and without an outage time-out no outage ends the call, not even a wrong endpoint: the log and
    /// the [observer](Self::observed) are told when it begins. Credentials that cannot be loaded or are not taken, and a
    /// signature that is not taken, are outages too. So is a client's runtime that does not run. Being throttled is an answer,
    /// and backing off a part of waiting.
    /// [`Error::Refused`], [`Error::InvalidItem`], [`Error::Invalid`] for what another try would not mend.
    /// [`Error::ShutDown`] when the client is, or was, shut down, when its runtime is gone, or when the lock's observer
    /// panicked in this call.
    ///
    /// # Panics
    ///
    /// With [`RecordWait::Timeout`], when polled outside of a tokio runtime, whose timer counts the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use std::time::Duration;
    /// use fairlock::RecordWait;
    ///
    /// let guard = lock.acquire(RecordWait::Timeout(Duration::from_secs(5))).await?;
    /// // the work
    /// guard.release().await
    /// # }
    /// ```
    pub async fn acquire(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        self.acquire_permits(SHARERS, wait).await
    }

    /// Waits for its turn and takes the lock together with others who share it, up to 64 of them: readers together, writers
    /// alone, in one queue.
    ///
    /// One request if nobody has the lock, or others share it, and nobody waits. Who asks while a writer waits, stands behind
    /// it; when it has released, all readers up to the next writer have the lock. So neither starves.
    ///
    /// Tickets of those who share a lock do not exclude each other. They are larger than those of all writers
    /// before them, and smaller than those of all after.
    ///
    /// Waits, fairness, cancel safety, errors and panics are those of [`acquire`](Self::acquire), except that callers of
    /// one client go each for themselves. Not re-entrant: who shares the lock and asks for it alone waits for itself; so
    /// does who shares it and shares it again, if a writer came between.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use fairlock::RecordWait;
    ///
    /// let reading = lock.acquire_shared(RecordWait::default()).await?;
    /// // others may read too; nobody writes
    /// reading.release().await
    /// # }
    /// ```
    pub async fn acquire_shared(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        self.acquire_permits(1, wait).await
    }

    pub(crate) async fn acquire_permits(
        &self,
        permits: u64,
        wait: RecordWait,
    ) -> Result<LockGuard, Error> {
        if wait == RecordWait::Timeout(Duration::ZERO) {
            return Err(Invalid::ZeroTimeout.into());
        }
        if self.max_waiters == Some(0) {
            return Err(Invalid::ZeroWaiters.into());
        }
        check_attributes(&self.attributes)?;
        let owner = &self.inner.store.config().owner;
        let permits_there = self.name.permits().unwrap_or_default();
        check_room(owner, &self.attributes, permits_there)?;
        if self.inner.closed.is_cancelled() {
            return Err(Error::ShutDown(Closed::ShutDown));
        }
        let started = self.inner.store.now();
        if self.reads_first {
            self.know_the_time(self.until(wait, started)).await;
        }
        let begins = match wait {
            // Its time is that of its tries, which begin here.
            RecordWait::NoWait => self.inner.store.now(),
            RecordWait::Timeout(_) | RecordWait::Infinite => started,
        };
        let until = self.until(wait, begins);
        // Each turn but the last had a hold that was lost before its caller came for it.
        loop {
            let call = Call::start(self, permits, wait, (started, until));
            let ended = call.end().await;
            let guard = ended.map_err(|refused| self.explain(refused, &call))?;
            match guard.loss() {
                Some(lost) => self.begin_again(guard, &lost, &call).await?,
                None => return Ok(guard),
            }
        }
    }

    /// Takes the lock if it can be had now: [`acquire`](Self::acquire) with [`RecordWait::NoWait`], for callers to
    /// whom somebody else's hold is no error.
    ///
    /// # Fairness, cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), but for [`Error::NotGranted`], which is `None` here.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn once(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// match lock.try_acquire().await? {
    ///     Some(guard) => guard.release().await,
    ///     None => Ok(()), // another host is at it
    /// }
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        if_granted(self.acquire(RecordWait::NoWait).await)
    }

    /// Shares the lock if that can be had now: [`acquire_shared`](Self::acquire_shared) with [`RecordWait::NoWait`],
    /// for callers to whom a writer is no error.
    ///
    /// # Fairness, cancel safety
    ///
    /// As [`acquire_shared`](Self::acquire_shared). None also while others wait.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), but for [`Error::NotGranted`], which is `None` here.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn once(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// match lock.try_acquire_shared().await? {
    ///     Some(reading) => reading.release().await,
    ///     None => Ok(()), // somebody writes, or waits to
    /// }
    /// # }
    /// ```
    pub async fn try_acquire_shared(&self) -> Result<Option<LockGuard>, Error> {
        if_granted(self.acquire_shared(RecordWait::NoWait).await)
    }

    /// When a call gives up that has waited since `started`.
    fn until(&self, wait: RecordWait, started: Moment) -> Option<Moment> {
        match wait {
            RecordWait::Timeout(span) => Some(started + span),
            RecordWait::NoWait => self.inner.gives_up_at_once(started),
            RecordWait::Infinite => None,
        }
    }

    /// By an answer, or two where nothing confirms the first, if none has told it lately. What fails here the call itself meets.
    async fn know_the_time(&self, until: Option<Moment>) {
        let store = &self.inner.store;
        let reads = async {
            for _ in 0..READS {
                if store.knows_the_time() || store.read_lock(&self.name).await.is_err() {
                    return;
                }
            }
        };
        self.inner.within_a_request(until, reads).await;
    }

    fn explain(&self, refused: Refused, call: &Call) -> Error {
        let waited = self.inner.store.now().since(call.started);
        match refused {
            Refused::Gone => Error::ShutDown(Closed::NoRuntime),
            Refused::Dropped => Error::ShutDown(Closed::ObserverPanicked),
            _ if self.inner.closed.is_cancelled() => Error::ShutDown(Closed::ShutDown),
            Refused::QueueFull { waiting, limit } => Error::QueueFull {
                lock: self.name().to_owned(),
                waiting,
                limit,
            },
            Refused::Failed(failure) => {
                failure.into_error(&self.inner.store.config().table, waited)
            }
            Refused::Untaken => hold::untaken(&self.name, waited),
            Refused::Late if call.batch.has_answers() => {
                let why = "DynamoDB answers too slowly for a call that does not wait";
                self.inner.unavailable("acquire", waited, why)
            }
            Refused::Late | Refused::GaveUp => self.gave_up(call, waited),
        }
    }

    /// Gives back what was lost before it is asked for again, with a newer ticket; the error if the time is over by then, or the
    /// client shut down.
    async fn begin_again(
        &self,
        guard: LockGuard,
        lost: &LockLost,
        call: &Call<'_>,
    ) -> Result<(), Error> {
        tracing::info!(lock = %lost.lock, ticket = %lost.ticket, reason = %lost.reason, "lost before its caller came for it: begins again");
        self.inner.let_go(guard.release(), call.until).await;
        if self.inner.closed.is_cancelled() {
            return Err(Error::ShutDown(Closed::ShutDown));
        }
        let now = self.inner.store.now();
        if call.until.is_some_and(|until| until <= now) {
            let waited = now.since(call.started);
            return Err(hold::not_granted(&self.name, None, None, waited));
        }
        Ok(())
    }

    /// Others are before a call whose time is over, or DynamoDB did not answer it, or nothing was asked.
    fn gave_up(&self, call: &Call, waited: Duration) -> Error {
        let (batch, table) = (&call.batch, &self.inner.store.config().table);
        if let Some(failure) = batch.unanswered() {
            return failure.into_error(table, waited);
        }
        if batch.has_answers() {
            return batch.not_granted(call.number, &self.name, waited);
        }
        let why = match self.inner.is_under_way(&self.name, batch) {
            true => "the first request at this lock has no answer yet",
            false => {
                "the runtime in which this client was built does not run, and nothing was sent"
            }
        };
        self.inner.unavailable("acquire", waited, why)
    }
}

/// None if somebody else has it.
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
        return Err(Invalid::TooManyAttributes {
            bytes,
            most: MAX_SAID,
        });
    }
    if attributes.iter().any(|(name, _)| name.is_empty()) {
        return Err(unusable(
            "the name of an attribute",
            "",
            "takes 1 byte at least",
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
