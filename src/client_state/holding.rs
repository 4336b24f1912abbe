//! A hold in the hands of the caller to which it was granted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Batch, ClientHandle, ClientInner};
use crate::hold::Hold;
use crate::offer::Unused;
use crate::place_writes::Ended;
use crate::runtime::background::{Listed, Task};
use fairlock_protocol::agent::LeaseTerm;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;

/// The outcome of a release, and how long it took.
pub(crate) type Released = (Result<Ended, Failure>, Duration);

/// Tells the task of a place that its hold is given back, and where to report the outcome. If the guard was dropped, the channel closes
/// without a message.
pub(crate) type GivenBack = oneshot::Receiver<GiveBack>;

pub(crate) struct GiveBack {
    pub(crate) started: Moment,
    /// The lease that the hold becomes. `None` if the lock is handed off.
    pub(crate) lease: Option<LeaseTerm>,
    pub(crate) tell: oneshot::Sender<Released>,
}

impl GiveBack {
    /// The lease that the hold becomes. `None` also if the caller has gone: the lease would stand there without an owner.
    pub(crate) fn lease_for_caller(&self) -> Option<&LeaseTerm> {
        self.lease.as_ref().filter(|_| !self.tell.is_closed())
    }
}

/// A granted hold. Dropping it gives the lock back.
pub(crate) struct Holding {
    pub(crate) inner: ClientHandle,
    pub(crate) hold: Arc<Hold>,
    /// The callers that take their turns at its place, one after the other.
    pub(crate) batch: Arc<Batch>,
    /// The task's job in the list of background work.
    listed: Listed,
    give_back: Option<oneshot::Sender<GiveBack>>,
}

impl Holding {
    pub(crate) fn new(
        inner: &Arc<ClientInner>,
        hold: Arc<Hold>,
        batch: Arc<Batch>,
        listed: Listed,
    ) -> (Self, GivenBack) {
        let (give_back, given_back) = oneshot::channel();
        let holding = Holding {
            inner: ClientHandle::new(inner),
            hold,
            batch,
            listed,
            give_back: Some(give_back),
        };
        (holding, given_back)
    }

    /// Gives the lock back. The receiver brings the outcome, or an error if there is no task that could do it, because its runtime is gone.
    pub(crate) fn release(&mut self) -> oneshot::Receiver<Released> {
        self.gives_back(None)
    }

    /// Turns the hold into a lease. The receiver brings the outcome, as that of `release`.
    pub(crate) fn lease_out(&mut self, lease: LeaseTerm) -> oneshot::Receiver<Released> {
        self.gives_back(Some(lease))
    }

    fn gives_back(&mut self, lease: Option<LeaseTerm>) -> oneshot::Receiver<Released> {
        let (tell, told) = oneshot::channel();
        let give_back = self.give_back.take();
        self.ends();
        let started = self.inner.store.now();
        if let Some(give_back) = give_back {
            // If the task is gone, this drops `tell`, and the receiver ends with an error.
            let _ = give_back.send(GiveBack {
                started,
                lease,
                tell,
            });
        }
        told
    }

    /// Marks the hold as given back. A shutdown that comes after this waits for the release, though the task of the place has yet to hear
    /// of it.
    fn ends(&self) {
        self.listed.becomes(Task::Release, self.hold.ticket);
        self.hold.give_back();
    }
}

impl Unused for Holding {
    fn was_not_used(&self) {
        self.hold.was_not_used();
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if self.give_back.is_some() {
            self.ends();
        }
    }
}
