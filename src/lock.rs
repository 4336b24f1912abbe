//! A name to be locked, and what a caller gets for asking.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::acquire::{Caller, Claim, Party, Refused, Told};
use crate::config::{MOST_SEATS, SHARERS};
use crate::core::Core;
use crate::data::MOST_DATA;
use crate::entry::Attributes;
use crate::error::{Error, Invalid};
use crate::guard::LockGuard;
use crate::moment::Moment;
use crate::name::LockName;
use crate::state::Waiting;
use crate::wait::RecordWait;

/// What a caller says of itself is written with each write of the lock item, by whomever.
const MOST_SAID: usize = 1024;

/// What DynamoDB allows an item is 400 KB: with data, so much of it is left for entries.
const ROOM: usize = 400 * 1024 - MOST_DATA - 8 * 1024;
/// What an entry has at most besides the owner's name and attributes, its nonce twice.
const ENTRY: usize = 256;

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
    pub(crate) core: Arc<Core>,
    pub(crate) name: LockName,
    observer: Option<Observer>,
    max_waiters: Option<usize>,
    attributes: Attributes,
}

/// Who is told how far an acquisition has come.
pub(crate) type Observer = Arc<dyn Fn(&Waiting) + Send + Sync>;

impl FairLock {
    pub(crate) fn new(core: Arc<Core>, name: LockName) -> Self {
        FairLock {
            core,
            name,
            observer: None,
            max_waiters: None,
            attributes: Attributes::default(),
        }
    }

    /// The same lock, whose waiting calls tell `observer` how far they have come: when they first stand in line, and
    /// whenever a look shows another place or another holder.
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
    /// let lock = lock.observed(|waiting| eprintln!("{} before us", waiting.place));
    /// let guard = lock.acquire(RecordWait::Infinite).await?;
    /// guard.release().await
    /// # }
    /// ```
    pub fn observed(mut self, observer: impl Fn(&Waiting) + Send + Sync + 'static) -> FairLock {
        self.observer = Some(Arc::new(observer));
        self
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

    /// The same lock, in whose line no more than so many wait: a call of this value that would have to wait behind as many, or
    /// more, is refused with [`Error::LineFull`] as soon as the line is seen, and leaves nothing in the table. Calls of
    /// others with no limit, or a higher one, may still make the line longer. 0 is refused: that is
    /// [`RecordWait::NoWait`], which takes no place in line and to which this means nothing.
    ///
    /// The holder does not count; callers of this client who come together count one by one, in the order in which they asked. The
    /// condition of the write that draws a ticket sees to it that none is drawn beyond the limit, however many
    /// come at one moment. What is before a caller is counted as the lock item has it, so some count who do not wait: those
    /// who left or died behind the seats, until the line passes them, and, of several who share the holder's place, those
    /// who had their turn. Those who are dead by DynamoDB's clock are cleared away before anybody is refused, unless the holder
    /// is alive. Who has to draw another ticket, because it was passed or its place was lost, is counted anew.
    ///
    /// Costs nothing: the answer that shows the lock held shows how many wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use fairlock::{Error, RecordWait};
    ///
    /// match lock.max_waiters(10).acquire(RecordWait::Infinite).await {
    ///     Ok(guard) => guard.release().await,
    ///     Err(Error::LineFull { waiting, .. }) => {
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
    /// says that the holder is this very process.
    ///
    /// With [`RecordWait::NoWait`] a lock that somebody holds costs one request, or two in the first second of one whose process
    /// took it with its first request; and nothing of the call is left in the table. A
    /// holder, heir or waiter whose lease is over by DynamoDB's own clock does not count. The call tries for at most
    /// four request time-outs, and ends within one more. With
    /// [`RecordWait::Timeout`] the call returns at most one request time-out after the given time, which covers all
    /// of it; leaving the line goes on in the background.
    ///
    /// # Several callers of one client
    ///
    /// Those who ask for a lock while another caller of this client is on its way into the line go together: they draw a
    /// ticket each by one write, stand at one place, and have their turns one after the other, in the order in which they
    /// asked. They share one lease: if it is lost while one of them has the lock, the others go to the end of the line,
    /// with newer tickets, and a client that crashes loses the place of all of them. Other clients wait for the turns
    /// of all of them, as for so many callers. Whoever stops waiting leaves the others where they are.
    ///
    /// # Fairness
    ///
    /// First come, first served, from the moment DynamoDB applied the write that drew the ticket. Whoever drew one,
    /// joins within the gap grace and renews in time is never passed over, and those who crash are passed after a
    /// lease. Callers that do not wait take no ticket while others wait: they never barge in.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any point gives up the place in line, or the lock if it was just granted, in the
    /// background. A call made afterwards stands at the end of the line.
    ///
    /// # Errors
    ///
    /// [`Error::NotGranted`] when somebody else has it and the wait is over. [`Error::LineFull`] when more wait than
    /// [`max_waiters`](Self::max_waiters) allows. [`Error::Unavailable`] when DynamoDB did
    /// not answer: before a place in line is had, or had anew, after a few attempts, later when the wait is over. Being
    /// throttled is an answer, and backing off a part of waiting.
    /// [`Error::Refused`], [`Error::Unreadable`], [`Error::Invalid`] for what another try would not mend.
    /// [`Error::ShutDown`] when the client is, or was, shut down, or its runtime is gone.
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
    /// alone, in one line.
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
        self.check_size()?;
        if self.core.closed.is_cancelled() {
            return Err(Error::ShutDown);
        }
        let call = Call::start(self, permits, wait);
        let ended = call.end().await;
        ended.map_err(|refused| self.explain(refused, &call))
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

    /// Whoever has a permit must still be able to renew it when all are taken, and there is data as well.
    fn check_size(&self) -> Result<(), Invalid> {
        let permits = self.name.permits().unwrap_or_default();
        let entries = usize::try_from(permits)
            .unwrap_or(usize::MAX)
            .saturating_add(MOST_SEATS);
        let most = (ROOM / entries).saturating_sub(ENTRY);
        let bytes = self.core.store.config().owner.len() + self.attributes.bytes();
        if bytes > most {
            return Err(Invalid::TooLargeForPermits {
                bytes,
                most,
                permits,
            });
        }
        Ok(())
    }

    fn explain(&self, refused: Refused, call: &Call) -> Error {
        let waited = self.core.store.now().since(call.started);
        match refused {
            Refused::Gone => Error::ShutDown,
            _ if self.core.closed.is_cancelled() => Error::ShutDown,
            Refused::LineFull { waiting, limit } => Error::LineFull {
                lock: self.name().to_owned(),
                waiting,
                limit,
            },
            Refused::Failed(failure) => failure.into_error(&self.core.store.config().table, waited),
            Refused::GaveUp => call.party.not_granted(call.number, &self.name, waited),
        }
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
    if bytes > MOST_SAID {
        return Err(Invalid::TooManyAttributes {
            bytes,
            most: MOST_SAID,
        });
    }
    if attributes.iter().any(|(name, _)| name.is_empty()) {
        return Err(Invalid::Text {
            setting: "the name of an attribute",
            value: String::new(),
            rule: "takes 1 byte at least",
        });
    }
    Ok(())
}

/// One call of `acquire`: the acquisition runs in a task of its own, so that no request of it is ever cut short.
struct Call<'a> {
    core: &'a Core,
    started: Moment,
    until: Option<Moment>,
    party: Arc<Party>,
    number: u64,
    told: Mutex<Option<Told>>,
}

impl<'a> Call<'a> {
    fn start(lock: &'a FairLock, permits: u64, wait: RecordWait) -> Self {
        let FairLock {
            core,
            name,
            observer,
            max_waiters,
            attributes,
        } = lock;
        let started = core.store.now();
        let until = match wait {
            RecordWait::Timeout(span) => Some(started + span),
            RecordWait::NoWait | RecordWait::Infinite => None,
        };
        let waits = wait != RecordWait::NoWait;
        let caller = Caller {
            until,
            limit: *max_waiters,
            observer: observer.clone(),
        };
        // Those who wait for all of it go together with others of this client, who are shown as one.
        let is_for_parties = waits && Some(permits) == name.permits() && attributes.is_empty();
        let (party, (number, told), turnstile) = if is_for_parties {
            core.take_in(name, caller)
        } else {
            let (party, joined) = core.alone(caller);
            (party, joined, None)
        };
        if turnstile.is_some() || !is_for_parties {
            let claim = Claim {
                permits,
                attributes: attributes.clone(),
                waits,
            };
            core.acquire(name, Arc::clone(&party), claim, turnstile);
        }
        Call {
            core,
            started,
            until,
            party,
            number,
            told: Mutex::new(Some(told)),
        }
    }

    async fn end(&self) -> Result<LockGuard, Refused> {
        let told = self
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut told) = told else {
            return Err(Refused::GaveUp);
        };
        let clock = &self.core.store.config().clock;
        let Some(until) = self.until else {
            return told.await.unwrap_or(Err(Refused::Gone));
        };
        tokio::select! {
            biased;
            answer = &mut told => return answer.unwrap_or(Err(Refused::Gone)),
            () = clock.sleep_until(until) => {}
        }
        if !self.party.give_up(self.number) {
            return Err(Refused::GaveUp);
        }
        // A request under way may still bring the lock.
        tokio::select! {
            biased;
            answer = &mut told => answer.unwrap_or(Err(Refused::Gone)),
            () = clock.sleep(self.core.store.config().request_timeout) => Err(Refused::GaveUp),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.party.leave(self.number);
    }
}

impl fmt::Debug for FairLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairLock")
            .field("lock", &self.name())
            .finish_non_exhaustive()
    }
}
