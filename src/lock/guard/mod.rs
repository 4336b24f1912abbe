//! The guard of a held lock: until the lock is released, dropped, or lost.

mod fence;
mod permits;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::stream::Stream;

use crate::agent::client_state::ClientHandle;
use crate::agent::{Held, Ordered, View, Watch};
use crate::lock::events::{self, HoldEvent};
use crate::vocabulary::error::{Closed, Error, LockLost, LossReason};
use crate::vocabulary::place_id::PlaceId;
use crate::vocabulary::state::YieldRequest;
use fairlock_protocol::agent::{Done, LeaseTerm, Order};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
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
    inner: ClientHandle,
    held: Held,
}

impl LockGuard {
    /// Makes the guard of a hold that its caller has taken.
    pub(crate) fn of(inner: ClientHandle, held: Held) -> LockGuard {
        LockGuard { inner, held }
    }

    pub(crate) fn inner(&self) -> &ClientHandle {
        &self.inner
    }

    /// The hold, as those see it who watch it.
    pub(crate) fn watch(&self) -> &Watch {
        self.held.watch()
    }

    pub(crate) fn view(&self) -> &View {
        &self.watch().view
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
        self.view().name.lock()
    }

    /// Returns the ticket of this hold, which is its fencing token. It is greater than the ticket of every hold of this lock before it,
    /// including holds of other callers of this client.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn fence(guard: &fairlock::LockGuard, newest_seen: fairlock::Ticket) {
    /// assert!(guard.ticket() >= newest_seen, "a stale writer"); // equal: its own earlier write
    /// # }
    /// ```
    pub fn ticket(&self) -> Ticket {
        self.view().ticket
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
        self.view().permits()
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
        self.view().name.permits().unwrap_or_default()
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
        self.watch().remaining()
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
        self.watch().is_held()
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
        self.view().place_id()
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
        self.view().is_in_danger()
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
        self.view().trouble()
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
        let watch = self.watch().clone();
        async move {
            match watch.ended().await {
                Some(reason) => watch.view.lost_by(reason),
                None => std::future::pending().await,
            }
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
    /// # use fairlock::{LockClient, embedded::Engine};
    /// # let locks = LockClient::builder(Engine::memory()?.client()).build()?;
    /// # locks.create_table().await?;
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
        events::of(self.watch().clone())
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
        self.view().yield_requested()
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
        let watch = self.watch().clone();
        async move { watch.view.wait_yield_requested().await }
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
    pub async fn release(mut self) -> Result<(), Error> {
        let given_back = self.held.gives_back();
        self.told(given_back, "release").await.map(drop)
    }

    /// Turns the hold into a lease. Returns the entry of the lease.
    pub(crate) async fn becomes(
        mut self,
        term: LeaseTerm,
        verb: &'static str,
    ) -> Result<Entry, Error> {
        let leased_out = self.held.leases_out(term);
        match self.told(leased_out, verb).await? {
            Done::LeasedOut(entry) => Ok(*entry),
            // No other outcome comes of a hold that becomes a lease, but that of a hold that ended in the same moment.
            _ => Err(self.lost_by(LossReason::Expired).into()),
        }
    }

    /// Notes that no work began under this hold.
    pub(crate) fn was_not_used(&self) {
        self.held.was_not_used();
    }

    /// Begins its bounds.
    pub(crate) fn begin_bounds(&self) {
        drop(self.watch().orders(Order::BeginBounds));
    }

    /// Releases a hold that was lost before its caller took the guard.
    pub(crate) async fn release_unused(self) -> Result<(), Error> {
        self.was_not_used();
        self.release().await
    }

    /// The loss of this hold, if it was lost. Also covers a lease that ran out without any task having noticed.
    pub(crate) fn loss(&self) -> Option<LockLost> {
        self.watch().loss().map(|reason| self.lost_by(reason))
    }

    pub(crate) fn lost_by(&self, reason: LossReason) -> LockLost {
        self.view().lost_by(reason)
    }

    /// What became of an order that was given then.
    pub(crate) async fn ordered(&self, told: Ordered, started: Moment) -> Result<Done, Error> {
        match told.await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(failure)) => {
                let waited = self.inner().store.now().since(started);
                Err(self.not_told(failure, waited))
            }
            Err(_) => Err(Error::ShutDown(Closed::NoRuntime)),
        }
    }

    /// What became of the last order.
    async fn told(
        &self,
        (lost, told): (Option<LossReason>, Ordered),
        verb: &'static str,
    ) -> Result<Done, Error> {
        let (inner, view, started) = (&self.inner, self.view(), self.inner.store.now());
        // A hold that was lost may have ended long ago.
        let told = inner.hears(told, view.seen().until.max(started)).await;
        if let Some(reason) = lost {
            return Err(view.lost_by(reason).into());
        }
        let waited = inner.store.now().since(started);
        match told {
            Some(Ok(Ok(Done::NotOurs(item)))) => {
                Err(view.lost_by(view.evicted(item.as_deref())).into())
            }
            Some(Ok(Ok(done))) => Ok(done),
            Some(Ok(Err(failure))) => Err(self.not_told(failure, waited)),
            // The runtime is gone: the lease ends the hold.
            Some(Err(_)) => Err(Error::ShutDown(Closed::NoRuntime)),
            None => Err(inner.stands_still(verb, waited)),
        }
    }

    fn not_told(&self, failure: Failure, waited: Duration) -> Error {
        Error::of(failure, &self.inner().store.config().table, waited)
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
