//! The guard of a held lock: until the lock is released, dropped, or lost.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::Stream;

use crate::client_inner::{ClientHandle, Holding, STANDSTILL};
use crate::error::{Closed, Error, Invalid, LockLost, LossReason};
use crate::events::{self, HoldEvent};
use crate::hold::{self, Hold, HoldStatus};
use crate::place_id::PlaceId;
use crate::slots::Ended;
use crate::state::YieldRequest;
use crate::store::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Ticket;

/// A held lock, whose lease is renewed in the background until the guard is released, dropped, or lost.
///
/// A guard does not protect by itself against a process that stops for longer than its lease. Watch [`lost`](Self::lost), and
/// [fence](Self::fence) what must never be written late with the [`ticket`](Self::ticket).
///
/// [`release`](Self::release) says how it went: a lock that was lost meanwhile is an error. Dropping the guard releases in the background
/// as best it can, also outside of a runtime, and reports nothing. A failure is logged, and the lease then ends the hold.
///
/// # Examples
///
/// ```
/// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
/// use fairlock::RecordWait;
///
/// let guard = lock.acquire(RecordWait::default()).await?;
/// tokio::select! {
///     lost = guard.lost() => eprintln!("stop: {lost}"),
///     () = async { /* the work */ } => {}
/// }
/// guard.release().await
/// # }
/// ```
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct LockGuard {
    part: Part,
    /// The hold, of which other guards may have parts too. The last of them to go releases it.
    holding: Arc<Holding>,
}

/// The permits of a hold on which one guard counts. Dropping it gives them back in the background.
struct Part {
    hold: Arc<Hold>,
    permits: u64,
}

impl Part {
    /// The guard and the hold count on these permits no more, from the same moment on.
    fn lets_go(&mut self, permits: u64) {
        let permits = permits.min(self.permits);
        self.permits -= permits;
        self.hold.counts_on_fewer(permits);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.lets_go(self.permits);
    }
}

impl LockGuard {
    /// Makes the guard of a hold that its caller has taken.
    pub(crate) fn of(holding: Holding) -> LockGuard {
        let hold = Arc::clone(&holding.hold);
        LockGuard {
            part: Part {
                permits: hold.permits(),
                hold,
            },
            holding: Arc::new(holding),
        }
    }

    pub(crate) fn inner(&self) -> &ClientHandle {
        &self.holding.inner
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.holding.hold
    }

    /// Returns the lock's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn log(guard: &fairlock::LockGuard) {
    /// println!("working on {}", guard.name());
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.hold().name.lock()
    }

    /// Returns the ticket of this hold, which is its fencing token. It is greater than the ticket of every hold of this lock before it,
    /// including holds of other callers of this client.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn fence(guard: &fairlock::LockGuard, newest_seen: fairlock::Ticket) {
    /// assert!(guard.ticket() > newest_seen, "a stale writer");
    /// # }
    /// ```
    pub fn ticket(&self) -> Ticket {
        self.hold().ticket
    }

    /// Returns how many of the lock's permits the guard holds: all if it holds the lock exclusively, one if it shares a fair lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn log(guard: &fairlock::LockGuard) {
    /// println!("{} of {} permits", guard.permits(), guard.total_permits());
    /// # }
    /// ```
    pub fn permits(&self) -> u64 {
        self.part.permits.min(self.hold().permits())
    }

    /// Returns how many permits the lock has.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn is_alone(guard: &fairlock::LockGuard) -> bool {
    /// guard.permits() == guard.total_permits()
    /// # }
    /// ```
    pub fn total_permits(&self) -> u64 {
        self.hold().name.permits().unwrap_or_default()
    }

    /// Returns how long this hold may still be trusted if no renewal succeeds from now on. Zero once it is lost.
    ///
    /// Local: nothing is sent. The time counts from before the last successful renewal was sent, less 2 % of the lease. Its clock goes on
    /// while the process is stopped, and while the machine sleeps [where the system tells](crate::Clock::system).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn enough(guard: &fairlock::LockGuard) -> bool {
    /// guard.remaining() > std::time::Duration::from_secs(5)
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    /// Returns whether the lock is still held, as far as can be known without a request. It is if the lease has not run out and no answer
    /// has shown the lock in other hands.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::LockGuard) {
    /// if !guard.is_held() {
    ///     return; // before the next irreversible step
    /// }
    /// # }
    /// ```
    pub fn is_held(&self) -> bool {
        self.hold().is_held()
    }

    /// Returns the name of this hold's place, so that another process can [give it up](crate::LockClient::give_up) if this process is
    /// killed. It must not do so before the work that the lock protects has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn tell(guard: &fairlock::LockGuard) {
    /// println!("{}", guard.place_id()); // to a process that watches over this one
    /// # }
    /// ```
    pub fn place_id(&self) -> PlaceId {
        self.hold().place_id()
    }

    /// Returns whether a third of the lease is left, or less, and renewals are failing. Finish soon then, or save what can be saved. A lost
    /// hold can also be in danger, so ask [`is_held`](Self::is_held) first.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::LockGuard) {
    /// if guard.in_danger() {
    ///     // start nothing new
    /// }
    /// # }
    /// ```
    pub fn in_danger(&self) -> bool {
        self.hold().is_in_danger()
    }

    /// Returns what became of the last renewal, as a text for people, if it failed. Returns `None` if it was answered. The text stays when
    /// the hold is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn step(guard: &fairlock::LockGuard) {
    /// if let Some(trouble) = guard.trouble() {
    ///     eprintln!("{:?} left: {trouble}", guard.remaining());
    /// }
    /// # }
    /// ```
    pub fn trouble(&self) -> Option<String> {
        self.hold().trouble()
    }

    /// Resolves when the hold is lost, with an error that says which hold it was and why. Resolves at the local deadline at the latest,
    /// also when DynamoDB cannot be reached. Never resolves once the guard was released or dropped.
    ///
    /// The future borrows nothing, so it can be given to the work that the lock protects. It counts the time itself where it is polled, in
    /// any runtime with timers. So it works even while the runtime in which the client was built stands still.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a loss is remembered, and every future of this hold gets it.
    ///
    /// # Panics
    ///
    /// When polled in a tokio runtime without timers. Outside of any runtime, only the heartbeat reports the loss.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn watch(guard: &fairlock::LockGuard) {
    /// let lost = guard.lost();
    /// tokio::spawn(async move { eprintln!("stop: {}", lost.await) });
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LockLost> + Send + use<> {
        let (lock, ticket) = (self.name().to_owned(), self.ticket());
        let hold = Arc::clone(self.hold());
        async move {
            match hold.wait_ended().await {
                Some(reason) => LockLost {
                    lock,
                    ticket,
                    reason,
                },
                None => std::future::pending().await,
            }
        }
    }

    /// Keeps one permit and frees the others. An exclusive holder shares the lock from now on. It shares it with callers that come to share
    /// it, or that wait first in the queue to share it. Costs one write, or none if there is nothing to free.
    ///
    /// Callers of this client that came together with this caller may wait for the next turn. They want the lock exclusively, and are
    /// before all callers that would share it. So the table keeps all permits for them. Nothing is written then, unless a
    /// [check](Self::check_item) or a write of data may be under way: a write ends these. If all of these callers give up, or their time
    /// runs out, while this guard is held, the client frees the permits at once.
    ///
    /// Once this returned `Ok`, in either case, [`permits`](Self::permits) is one. A check that was asked for before refuses its
    /// transaction, and [`set_data`](Self::set_data) refuses too.
    ///
    /// The ticket stays the same. There is no way back: two sharing holders that both wanted the lock exclusively would wait for each
    /// other.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the guard no longer held the lock. [`Error::Unavailable`] or [`Error::Refused`] if the write did not succeed
    /// before the lease ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits are free. The guard keeps one permit in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// let mut guard = lock.acquire(fairlock::RecordWait::default()).await?;
    /// // write
    /// guard.downgrade().await?;
    /// // read what was written, while others read it too
    /// guard.release().await
    /// # }
    /// ```
    pub async fn downgrade(&mut self) -> Result<(), Error> {
        let permits = self.permits().saturating_sub(1);
        self.gives_back(permits).await
    }

    /// Gives some of the guard's permits back, and keeps the others. The next callers in the queue get them at once. Costs one
    /// request.
    ///
    /// A holder of all permits shares the lock from then on, as after [`downgrade`](Self::downgrade). Permits are given back later, and this
    /// returns at once, while the [shortest time](crate::Semaphore::min_hold) of the hold is not over. So they are while callers of this
    /// client that came together with this caller wait for the next turn.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] with [`Invalid::Part`] if the guard has no more permits than these: [`release`](Self::release) gives all back.
    /// [`Error::Lost`] if the hold was lost. [`Error::Unavailable`] or [`Error::Refused`] if the request did not succeed before the lease
    /// ended. The guard counts on these permits no more then, and its client goes on to give them back while it holds the others.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits are given back: [`permits`](Self::permits) tells what the guard has. The guard
    /// keeps the others in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn export(exports: fairlock::Semaphore) -> Result<(), fairlock::Error> {
    /// let mut guard = exports.acquire_many(3, fairlock::RecordWait::Infinite).await?;
    /// // the large part is done
    /// guard.release_some(2).await?;
    /// assert_eq!(guard.permits(), 1);
    /// guard.release().await
    /// # }
    /// ```
    pub async fn release_some(&mut self, permits: u64) -> Result<(), Error> {
        self.check_part(permits)?;
        self.gives_back(permits).await
    }

    async fn gives_back(&mut self, permits: u64) -> Result<(), Error> {
        let started = self.inner().store.now();
        if let Some(reason) = self.hold().loss() {
            return Err(self.lost_by(reason).into());
        }
        if permits == 0 {
            return Ok(());
        }
        let LockGuard { part, holding } = self;
        let lets_go = || part.lets_go(permits);
        let given = holding
            .inner
            .give_back(&holding.hold, &holding.batch, lets_go);
        match given.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(item)) => Err(self.lose_to(item)),
            Err(failure) => Err(self.not_told(failure, self.inner().store.now().since(started))),
        }
    }

    /// Splits the guard: the returned guard has so many of its permits, and this one keeps the others. Sends nothing.
    ///
    /// Both guards are of one hold, with one ticket, one lease and one loss. Each can go to a task of its own. When one is released or
    /// dropped, its permits are given back, and the hold goes on until the last of them is gone. To the table, and to whoever inspects the
    /// lock, the hold is one participant.
    ///
    /// # Limitations
    ///
    /// A [check](Self::check_item) names how many permits the hold has. A transaction with a check that was made before another part was
    /// given back is refused.
    ///
    /// # Errors
    ///
    /// [`Invalid::Part`] if no permit were left on one of the sides.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn halves(exports: fairlock::Semaphore) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut guard = exports.acquire_many(4, fairlock::RecordWait::Infinite).await?;
    /// let half = guard.split(2)?;
    /// let other = tokio::spawn(async move { /* work */ half.release().await });
    /// // work
    /// guard.release().await?;
    /// other.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&mut self, permits: u64) -> Result<LockGuard, Invalid> {
        self.check_part(permits)?;
        self.part.permits -= permits;
        Ok(LockGuard {
            part: Part {
                hold: Arc::clone(self.hold()),
                permits,
            },
            holding: Arc::clone(&self.holding),
        })
    }

    /// Merges a guard that was [split](Self::split) off into this one. Sends nothing. Returns the other guard if it is of another hold.
    ///
    /// # Errors
    ///
    /// The other guard, unchanged, if the two were not split from one.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn both(mut guard: fairlock::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
    /// let part = guard.split(1)?;
    /// guard.merge(part).map_err(|_| "of another hold")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge(&mut self, mut other: LockGuard) -> Result<(), LockGuard> {
        if !Arc::ptr_eq(&self.holding, &other.holding) {
            return Err(other);
        }
        self.part.permits += std::mem::take(&mut other.part.permits);
        Ok(())
    }

    fn check_part(&self, said: u64) -> Result<(), Invalid> {
        let held = self.permits();
        match (1..held).contains(&said) {
            true => Ok(()),
            false => Err(Invalid::Part { said, held }),
        }
    }

    /// Returns the events of this hold: granted, in danger, recovered, and lost or released. The stream ends with lost or released.
    ///
    /// The stream borrows nothing, sends nothing and keeps nothing but its last event. So there may be any number of streams, begun at any
    /// time. Each reports first that the lock was granted.
    ///
    /// A listener that does not poll for a while learns how the hold stands at its next poll, and not what came and went meanwhile. The end
    /// is reported however late the listener polls. Danger is reported as soon as the clock shows it, also while a renewal waits for its
    /// answer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a listener that stops waiting for the next event gets it by waiting again.
    ///
    /// # Panics
    ///
    /// When polled in a tokio runtime without timers. Also when polled outside of any runtime while renewals fail, because the time until
    /// danger must be counted then.
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
    /// use fairlock::HoldEvent;
    /// use futures::StreamExt;
    ///
    /// let guard = locks.fair_lock("account/42")?.try_acquire().await?.ok_or("it is free")?;
    /// let events = guard.events();
    /// let listening = tokio::spawn(async move {
    ///     let mut events = std::pin::pin!(events);
    ///     let mut last = None;
    ///     while let Some(event) = events.next().await {
    ///         println!("{event}"); // in danger: start nothing new; lost: stop
    ///         last = Some(event);
    ///     }
    ///     last
    /// });
    /// guard.release().await?;
    /// assert_eq!(listening.await?, Some(HoldEvent::Released));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub fn events(&self) -> impl Stream<Item = HoldEvent> + Send + use<> {
        events::of(Arc::clone(self.hold()))
    }

    /// The request of another client that this hold give way, as of the last renewal: [`LockClient::ask_to_yield`] makes one. It takes
    /// nothing from this hold, which may heed it or not. A request at a batch of callers is for all of their turns. Local: no request is
    /// sent.
    ///
    /// [`LockClient::ask_to_yield`]: crate::LockClient::ask_to_yield
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(guard: fairlock::LockGuard) -> Result<(), fairlock::Error> {
    /// if let Some(request) = guard.yield_requested() {
    ///     eprintln!("{} asks for the lock: {}", request.by, request.reason);
    ///     guard.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn yield_requested(&self) -> Option<YieldRequest> {
        self.hold().yield_requested()
    }

    /// Waits until this hold is asked to give way. A request is seen with the next renewal, after a heartbeat at the most. Does not end if
    /// no request comes.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a request stays until a later one replaces it.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn long_work() {}
    /// # async fn turn(guard: fairlock::LockGuard) -> Result<(), fairlock::Error> {
    /// tokio::select! {
    ///     () = long_work() => {}
    ///     request = guard.asked_to_yield() => eprintln!("gives way: {}", request.reason),
    /// }
    /// guard.release().await
    /// # }
    /// ```
    pub fn asked_to_yield(&self) -> impl Future<Output = YieldRequest> + Send + use<> {
        let hold = Arc::clone(self.hold());
        async move { hold.wait_yield_requested().await }
    }

    /// Hands the lock off with one write, and the next in the queue holds it. Costs no write if the next is a caller of this client that
    /// came together with this caller.
    ///
    /// Tries again until the lease ends, and returns within one request time-out of that.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the guard no longer held the lock: what this hold protected may have overlapped with the next hold.
    /// [`Error::Unavailable`] or [`Error::Refused`] if the release did not succeed before the lease ended. The end of the lease then ends
    /// the hold as well, and no other caller held the lock before that. [`Error::ShutDown`] if the runtime of the client went away
    /// meanwhile. Then the lease ends the hold too.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release, which goes on in the background.
    ///
    /// # Panics
    ///
    /// When polled in a tokio runtime without timers.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn done(guard: fairlock::LockGuard) {
    /// match guard.release().await {
    ///     Ok(()) => {}
    ///     Err(fairlock::Error::Lost { reason, .. }) => eprintln!("roll back: {reason}"),
    ///     Err(other) => eprintln!("the next in the queue waits for the lease to end: {other}"),
    /// }
    /// # }
    /// ```
    pub async fn release(self) -> Result<(), Error> {
        let LockGuard { mut part, holding } = self;
        let (inner, hold) = (holding.inner.clone(), Arc::clone(&holding.hold));
        let batch = Arc::clone(&holding.batch);
        // Of several guards of a hold that are released at one time, exactly one is the last.
        if let Some(holding) = Arc::into_inner(holding) {
            return release_all(holding).await;
        }
        let started = inner.store.now();
        if let Some(reason) = hold.loss() {
            return Err(hold.lost_by(reason).into());
        }
        let lets_go = || part.lets_go(part.permits);
        match inner.give_back(&hold, &batch, lets_go).await {
            Ok(Ok(())) => Ok(()),
            // The last guard has released the hold meanwhile.
            Ok(Err(_)) if hold.status() == HoldStatus::Released => Ok(()),
            Ok(Err(item)) => Err(hold.lose_to(item).into()),
            Err(failure) => Err(not_told(&inner, failure, started)),
        }
    }

    /// The loss of this hold, if it was lost. Also covers a lease that ran out without any task having noticed.
    pub(crate) fn loss(&self) -> Option<LockLost> {
        self.hold().loss().map(|reason| self.lost_by(reason))
    }

    pub(crate) fn lost_by(&self, reason: LossReason) -> LockLost {
        self.hold().lost_by(reason)
    }

    /// Ends a hold that the item does not show any more.
    pub(crate) fn lose_to(&self, item: Option<LockItem>) -> Error {
        self.hold().lose_to(item).into()
    }

    pub(crate) fn not_told(&self, failure: Failure, waited: Duration) -> Error {
        failure.into_error(&self.inner().store.config().table, waited)
    }
}

fn not_told(inner: &ClientHandle, failure: Failure, started: Moment) -> Error {
    let waited = inner.store.now().since(started);
    failure.into_error(&inner.store.config().table, waited)
}

/// Hands the lock off, for the last guard of a hold.
async fn release_all(mut holding: Holding) -> Result<(), Error> {
    let (lost, started) = (holding.hold.loss(), holding.inner.store.now());
    let told = holding.release();
    let (inner, hold) = (&holding.inner, &holding.hold);
    // Nothing renews the hold from here on.
    let deadline = hold.lease_until();
    let config = inner.store.config();
    // A hold that was lost may have ended long ago.
    let late = deadline.max(started) + config.request_timeout + STANDSTILL;
    let told = tokio::select! {
        biased;
        told = told => Some(told),
        () = config.clock.sleep_until_if_counted(late) => None,
    };
    if let Some(reason) = lost {
        return Err(hold.lost_by(reason).into());
    }
    match told {
        Some(Ok((
            Ok(Ended::PassedOn | Ended::KeptOn | Ended::HandedOff(_) | Ended::Before(_)),
            _,
        ))) => Ok(()),
        Some(Ok((Ok(Ended::NotOurs(item)), _))) => {
            Err(hold.lost_by(hold::evicted(item, hold.ticket)).into())
        }
        Some(Ok((Err(failure), waited))) => Err(failure.into_error(&config.table, waited)),
        // The runtime is gone: the lease ends the hold.
        Some(Err(_)) => Err(Error::ShutDown(Closed::NoRuntime)),
        None => Err(inner.stands_still("release", inner.store.now().since(started))),
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("lock", &self.name())
            .field("ticket", &self.ticket())
            .finish_non_exhaustive()
    }
}
