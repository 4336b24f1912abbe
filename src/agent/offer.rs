//! A grant of several locks on its way to its caller: either the caller takes it, or the background takes it back, and never both.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::runtime::clock::Clock;

/// What is offered, and notes that no caller came to work under it.
pub(crate) trait Unused {
    fn was_not_used(&self);
}

/// Holds the grant until one of the two sides takes it out.
type Slot<G> = Arc<Mutex<Option<G>>>;

/// The caller's side. Dropping it drops the grant, which gives the lock back.
pub(crate) struct Granted<G: Unused> {
    slot: Slot<G>,
    /// Dropped when the grant was taken, or never will be.
    _taken: oneshot::Sender<Infallible>,
}

/// The background's side.
pub(crate) struct Offer<G> {
    slot: Slot<G>,
    taken: oneshot::Receiver<Infallible>,
}

/// Offers a guard, be it of one lock or of several.
pub(crate) fn offer<G: Unused>(guard: G) -> (Granted<G>, Offer<G>) {
    let slot = Arc::new(Mutex::new(Some(guard)));
    let (_taken, taken) = oneshot::channel();
    let granted = Granted {
        slot: Arc::clone(&slot),
        _taken,
    };
    (granted, Offer { slot, taken })
}

impl<G: Unused> Granted<G> {
    /// Returns `None` if the background was first.
    pub(crate) fn take(self) -> Option<G> {
        take_out(&self.slot)
    }
}

impl<G: Unused> Drop for Granted<G> {
    fn drop(&mut self) {
        drop(take_back(&self.slot));
    }
}

impl<G: Unused> Offer<G> {
    /// Waits for twice the span, and takes a grant back that its caller did not take until then. The caller cannot reach it any
    /// more. The time counts in two spans, so that a caller whose process stood still during one of them has the other.
    pub(crate) async fn untaken(mut self, clock: &Clock, span: Duration) -> Option<G> {
        for _ in 0..2 {
            tokio::select! {
                biased;
                _gone = &mut self.taken => return None,
                () = clock.sleep(span) => {}
            }
        }
        take_back(&self.slot)
    }
}

fn take_back<G: Unused>(slot: &Slot<G>) -> Option<G> {
    take_out(slot).inspect(G::was_not_used)
}

/// This is a statement of its own, so that nothing is dropped while the slot is locked.
fn take_out<G>(slot: &Slot<G>) -> Option<G> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl<G: Unused> fmt::Debug for Granted<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted").finish_non_exhaustive()
    }
}
