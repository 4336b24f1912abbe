//! Changes how many permits a lock has, while callers hold it and wait for it.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, FusedFuture, MaybeDone, maybe_done};

use crate::agent::client_state::{ClientHandle, ClientInner};
use crate::lock::client::LockClient;
use crate::lock::fair_lock::FairLock;
use crate::lock::guard::LockGuard;
use crate::lock::semaphore::MAX_PERMITS;
use crate::store::requests::RetryPolicy;
use crate::store::{all_of, most_permits};
use crate::vocabulary::error::{Error, Invalid};
use crate::vocabulary::name::LockName;
use crate::vocabulary::wait::RecordWait;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::write::LockWrite;

/// How often a change is tried that other writes come before.
const ROUNDS: usize = 20;
/// How often a change to fewer permits is tried without a claim to all permits.
const ROUNDS_ALONE: usize = 5;
/// The pause between two tries beside such a claim, and how long it waits.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_CLAIM: Duration = Duration::from_secs(60);

/// What became of the number of permits that was to be [changed](LockClient::resize).
///
/// # Examples
///
/// ```
/// # fn tell(outcome: &fairlock::ResizeOutcome) {
/// match outcome {
///     fairlock::ResizeOutcome::Resized { before, taken } => println!("there were {before}, and {taken} are held"),
///     fairlock::ResizeOutcome::NotThere => println!("not used yet: its first caller says how many permits it has"),
///     fairlock::ResizeOutcome::Contended => println!("changed meanwhile, again and again: try again"),
///     _ => {}
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeOutcome {
    /// The lock has as many permits as was asked for.
    Resized {
        /// How many there were before.
        before: u64,
        /// How many are held now. That may be more than there are: holders keep their permits.
        taken: u64,
    },
    /// The table has no item of the lock: no caller has used it yet, or not for the idle retention. Its next caller says how many permits
    /// it has.
    NotThere,
    /// Another change of the number, or a change of the first place in the queue, came before each try. Nothing is changed. Or a try had no
    /// answer, and the number was changed again since. Then the newest change stands.
    Contended,
}

impl LockClient {
    /// Changes how many permits a semaphore has, while callers hold permits and wait for some. Programs go on to name the number that they
    /// [were written with](LockClient::semaphore), and need no restart. For readers of a fair lock, this is how many may share it: 64 as a
    /// rule.
    ///
    /// More permits are given out at once, in the order of the queue. With fewer permits, each holder keeps what it has. Further callers
    /// wait until fewer permits are held than there are. A call that asks for more than there are by now holds the lock alone, when its
    /// turn comes. So does a call that asks for all permits that its program names, however many there are.
    ///
    /// The change lasts for as long as the lock's item: until the lock was idle for the
    /// [idle retention](crate::LockClientBuilder::idle_retention), or is [deleted](Self::delete_lock). For good, change the program.
    ///
    /// Costs two requests, and one more where waiters are let in. With fewer permits, the first place in the queue must not change on the
    /// way. Where it does so five times, this client asks for all permits, for up to a minute, and gives that place up when the number is
    /// changed. No caller passes it, so for some round trips before then the lock gives out nothing.
    ///
    /// # Limitations
    ///
    /// With fewer permits, a holder may be given another position on the lock's item, which the client that holds it learns with its next
    /// renewal. Until then a transaction with its [check](crate::LockGuard::check_item) is refused, though it still holds its permits.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the number is changed: ask again.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if `permits` is 0, more than 1,000, or more than 80 where the program names fewer: the owners and attributes of
    /// more holders may not fit onto the item. Also if the programs name a single permit: each of their callers takes all there is.
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::InvalidItem`] and [`Error::ShutDown`] as [`FairLock::inspect`](crate::FairLock::inspect).
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn busy(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use fairlock::ResizeOutcome;
    ///
    /// // Eight exports at a time from now on, in place of the five that the workers name.
    /// if let ResizeOutcome::Resized { before, .. } = locks.resize("exports", 8).await? {
    ///     println!("{before} before");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resize(
        &self,
        lock: impl AsRef<str>,
        permits: u64,
    ) -> Result<ResizeOutcome, Error> {
        let name = LockName::new(lock.as_ref(), &self.inner.store.config().namespace)?;
        check(permits, MAX_PERMITS)?;
        let resized = self.inner.resize(&name, permits);
        Ok(self.inner.for_caller(resized).await??)
    }
}

fn check(said: u64, most: u64) -> Result<(), Invalid> {
    match (1..=most).contains(&said) {
        true => Ok(()),
        false => Err(Invalid::permits(said, most)),
    }
}

/// Whether a lock whose callers name so many permits can have this many.
fn fits(item: &LockItem, permits: u64) -> Result<(), Invalid> {
    match item.permits {
        1 => Err(Invalid::new(
            "the callers of this lock name one permit, so that each holds it alone: have them name more, and change that number",
        )),
        named => check(permits, most_permits(named)),
    }
}

/// A change of the number of permits, over all of its tries.
struct Change<'a> {
    inner: &'a Arc<ClientInner>,
    name: &'a LockName,
    permits: u64,
    policy: RetryPolicy,
    /// How often the number had been changed before a try that may have had no answer. It applies as the next change, or not at all.
    in_doubt: Option<u64>,
}

/// What became of the number, or why it cannot be changed.
type Ended = Result<ResizeOutcome, Invalid>;
/// Waits for all permits of a lock. Keeps the guard when they are granted.
type ClaimToAll = Pin<Box<MaybeDone<BoxFuture<'static, Result<LockGuard, Error>>>>>;

impl Change<'_> {
    /// Reads the item, and changes the number if it can. Goes on with the item that was read if another write came between.
    async fn tries_once(&mut self) -> Result<ControlFlow<Ended, LockItem>, Failure> {
        let read = || self.inner.store.read_lock(self.name);
        let Some(seen) = self.inner.requests.retry(&self.policy, read).await?.value else {
            return Ok(ControlFlow::Break(Ok(ResizeOutcome::NotThere)));
        };
        if let Err(invalid) = fits(&seen, self.permits) {
            return Ok(ControlFlow::Break(Err(invalid)));
        }
        let before = seen.there_are();
        let resized = |item: &LockItem| ResizeOutcome::Resized {
            before,
            taken: item.taken(),
        };
        if before == self.permits {
            return Ok(ControlFlow::Break(Ok(resized(&seen))));
        }
        let is_later = |count: u64| seen.resizes > count.saturating_add(1);
        if self.in_doubt.is_some_and(is_later) {
            // If the try applied, the newest change came after this one, and stands.
            return Ok(ControlFlow::Break(Ok(ResizeOutcome::Contended)));
        }
        Ok(match self.sends(&seen).await? {
            Some(after) => ControlFlow::Break(Ok(resized(&after))),
            None => ControlFlow::Continue(seen),
        })
    }

    /// Returns the item that shows the change, if one does.
    async fn sends(&mut self, seen: &LockItem) -> Result<Option<LockItem>, Failure> {
        let name = &self.name.with_permits(seen.permits);
        let (inner, permits) = (self.inner, self.permits);
        let resize = LockWrite::resize(all_of(name), seen, permits);
        let resize = || inner.store.write(name, &resize);
        let (answer, is_in_doubt) = inner.requests.retry_in_doubt(&self.policy, resize).await?;
        let after = answer.value.shown();
        self.in_doubt = match is_in_doubt {
            true => Some(seen.resizes),
            false => self.in_doubt.filter(|count| *count == seen.resizes),
        };
        // A refusal may be due to this very change, whose answer was lost.
        let is_ours = |after: &LockItem| {
            after.resizes == seen.resizes.saturating_add(1) && after.there_are() == permits
        };
        let after = after.filter(is_ours);
        if let Some(after) = &after {
            let before = seen.there_are();
            tracing::warn!(lock = %name, before, permits, "the number of permits was changed");
            inner.tell_of_resize(name, seen, after);
        }
        Ok(after)
    }
}

impl ClientInner {
    /// Each round of the loop but the last has seen that another write came between the read and the change. Rounds beside a claim that
    /// waits are not counted: its time ends them.
    async fn resize(self: &Arc<Self>, name: &LockName, permits: u64) -> Result<Ended, Failure> {
        let mut change = Change {
            inner: self,
            name,
            permits,
            policy: self.policy_of_few(self.closed.clone()),
            in_doubt: None,
        };
        let (mut rounds, mut claim) = (0, None::<ClaimToAll>);
        while rounds < ROUNDS {
            let seen = match change.tries_once().await? {
                ControlFlow::Continue(seen) => seen,
                ControlFlow::Break(ended) => {
                    self.gives_up(claim).await;
                    return Ok(ended);
                }
            };
            let waits = claim.as_ref().is_some_and(|it| !it.is_terminated());
            rounds += usize::from(!waits);
            if permits < seen.there_are() && rounds >= ROUNDS_ALONE {
                let claim = claim.get_or_insert_with(|| self.claims_all(name, seen.permits));
                tokio::select! {
                    biased;
                    () = claim => {}
                    () = self.store.config().clock.sleep(PAUSE) => {}
                }
            }
        }
        self.gives_up(claim).await;
        Ok(Ok(ResizeOutcome::Contended))
    }

    /// Asks for all permits. No caller passes this claim, so from the moment at which it stands in the first slot, the slot is this client's.
    fn claims_all(self: &Arc<Self>, name: &LockName, permits: u64) -> ClaimToAll {
        tracing::info!(lock = %name, "its holders change faster than a change of the permits arrives: waits for all of them");
        let lock = FairLock::new(ClientHandle::new(self), name.with_permits(permits));
        let wait = RecordWait::Timeout(LONGEST_CLAIM);
        let granted = async move { lock.acquire_permits(permits, wait).await };
        Box::pin(maybe_done(granted.boxed()))
    }

    /// Gives back what was claimed, before the process may end.
    async fn gives_up(&self, claim: Option<ClaimToAll>) {
        let Some(mut claim) = claim else { return };
        if let Some(Ok(guard)) = claim.as_mut().take_output() {
            self.let_go(guard.release(), None).await;
            return;
        }
        drop(claim);
        self.within_a_request(None, self.background.idle()).await;
    }

    /// Notifies the next holder, and lets in the successors that need not wait any more.
    fn tell_of_resize(self: &Arc<Self>, name: &LockName, before: &LockItem, after: &LockItem) {
        if let Some(notifications) = &self.notifications {
            let promoted = after.promoted_since(before);
            promoted.for_each(|entry| notifications.tell_change(entry));
        }
        self.saw(name, after);
        self.admit(name, after);
    }
}
