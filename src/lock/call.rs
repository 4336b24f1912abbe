//! A single call of a lock, from its start until it returns.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot::error::RecvError;

use super::FairLock;
use crate::client_state::{AnswerReceiver, Batch, Caller, Claim, ClientInner, Holding, Refused};
use crate::error::{Closed, Error};
use crate::guard::LockGuard;
use crate::holder;
use crate::offer::Granted;
use crate::telemetry::Origin;
use crate::wait::RecordWait;
use fairlock_protocol::moment::Moment;

/// How often a call lets other tasks run before it reports that its time has ended.
const TURNS: usize = 64;

/// A single call of `acquire`. The acquisition runs in a task of its own, so that none of its requests is ever cut short.
pub(super) struct Call<'a> {
    inner: &'a ClientInner,
    pub(super) started: Moment,
    pub(super) until: Option<Moment>,
    waits: bool,
    pub(super) batch: Arc<Batch>,
    pub(super) number: u64,
    receiver: Mutex<Option<AnswerReceiver>>,
}

impl<'a> Call<'a> {
    /// Starts the call of a caller that has waited since `started` and stops waiting at `until`.
    pub(super) fn start(
        lock: &'a FairLock,
        permits: u64,
        wait: RecordWait,
        (started, until): (Moment, Option<Moment>),
        origin: &Origin,
    ) -> Self {
        let FairLock {
            inner,
            name,
            observer,
            sought,
            max_waiters,
            attributes,
            bounds,
            denies_self_wait: _,
        } = lock;
        let waits = wait != RecordWait::NoWait;
        let caller = Caller {
            until: until.filter(|_| waits),
            limit: *max_waiters,
            observer: observer.clone(),
            sought: sought.clone(),
            origin: origin.clone(),
        };
        // A call that waits for all permits may join a batch of this client. A call with attributes may not, because a batch is
        // shown as one participant. Nor may a call with bounds, because the callers of a batch share a lease, or a call whose hold becomes a
        // lease.
        let is_plain = attributes.is_empty() && bounds.is_unbounded() && sought.is_none();
        let is_for_batches = waits && Some(permits) == name.permits() && is_plain;
        let (batch, (number, receiver), doorway_turn) = if is_for_batches {
            inner.join_batch(name, caller)
        } else {
            let (batch, pending) = inner.alone(caller);
            (batch, pending, None)
        };
        if doorway_turn.is_some() || !is_for_batches {
            let claim = Claim {
                permits,
                attributes: attributes.clone(),
                waits,
                bounds: *bounds,
            };
            inner.acquire(name, Arc::clone(&batch), claim, doorway_turn);
        }
        Call {
            inner,
            started,
            until,
            waits,
            batch,
            number,
            receiver: Mutex::new(Some(receiver)),
        }
    }

    pub(super) async fn end(&self) -> Result<LockGuard, Refused> {
        let receiver = self
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut receiver) = receiver else {
            return Err(Refused::NotGranted);
        };
        let clock = &self.inner.store.config().clock;
        let Some(until) = self.until else {
            return taken(receiver.await);
        };
        tokio::select! {
            biased;
            answer = &mut receiver => return taken(answer),
            () = clock.sleep_until(until) => {}
        }
        let now = self.inner.store.now();
        self.batch.part(now);
        // A request under way may still bring the lock, or say why not. The steps after it are left to the background.
        let timeout = self.inner.store.config().request_timeout;
        let end = match self.waits || !self.batch.is_under_way() {
            true => now + timeout,
            false => (self.started + self.inner.no_wait_lasts()).max(now + timeout / 10),
        };
        tokio::select! {
            biased;
            answer = &mut receiver => return taken(answer),
            () = clock.sleep_until(end) => {}
        }
        if self.waits {
            return Err(Refused::NotGranted);
        }
        // On a machine that was busy for long, the last attempt may have ended in time while its answer still waits to be taken
        // in.
        let mut turns = TURNS;
        let others = poll_fn(|context| {
            turns -= 1;
            context.waker().wake_by_ref();
            match turns {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        });
        tokio::select! {
            biased;
            answer = &mut receiver => taken(answer),
            () = others => Err(self.batch.refusal().unwrap_or(Refused::Late)),
        }
    }
}

/// Takes the guard, unless it was given back before the caller came for it.
fn taken(
    answer: Result<Result<Granted<Holding>, Refused>, RecvError>,
) -> Result<LockGuard, Refused> {
    let granted = answer.unwrap_or(Err(Refused::Dropped))?;
    granted.take().map(LockGuard::of).ok_or(Refused::Untaken)
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.batch.leave(self.number);
    }
}

impl FairLock {
    /// Why the call did not get the lock.
    pub(super) fn explain(&self, refused: Refused, call: &Call) -> Error {
        let waited = self.inner.store.now().since(call.started);
        match refused {
            Refused::Gone => Error::ShutDown(Closed::NoRuntime),
            Refused::Dropped => Error::ShutDown(Closed::ObserverPanicked),
            Refused::ShuttingDown => Error::ShutDown(Closed::ShutDown),
            _ if self.inner.closed.is_cancelled() => Error::ShutDown(Closed::ShutDown),
            Refused::QueueFull { waiting, limit } => Error::QueueFull {
                lock: self.name().to_owned(),
                waiting,
                limit,
            },
            Refused::Failed(failure) => {
                Error::of(failure, &self.inner.store.config().table, waited)
            }
            Refused::Untaken => holder::untaken(&self.name, waited),
            Refused::Late if call.batch.has_answers() => {
                let why = "DynamoDB answers too slowly for a call that does not wait";
                self.inner.unavailable("acquire", waited, why)
            }
            Refused::Late | Refused::NotGranted => self.not_granted(call, waited),
        }
    }

    /// The error of a call whose time has ended: others are before it, DynamoDB did not answer it, or nothing was sent.
    fn not_granted(&self, call: &Call, waited: Duration) -> Error {
        let (batch, table) = (&call.batch, &self.inner.store.config().table);
        if let Some(failure) = batch.unserved() {
            return Error::of(failure, table, waited);
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
