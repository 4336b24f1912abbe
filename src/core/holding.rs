//! A hold in the hands of whoever was granted it.

use std::sync::Arc;

use super::{Core, CoreHandle};
use crate::hold::{Hold, Standing};
use crate::offer::{self, Granted};

/// Dropped, it gives the lock back.
pub(crate) struct Holding {
    pub(crate) core: CoreHandle,
    pub(crate) hold: Arc<Hold>,
    /// Its release was begun, and goes on without it.
    is_released: bool,
}

impl Holding {
    /// Keeps a hold, and offers it to its caller. One that is not taken in time is dropped.
    pub(crate) fn offered(core: Arc<Core>, hold: Hold) -> Granted<Holding> {
        let hold = Arc::new(hold);
        let holding = Holding {
            core: CoreHandle::new(&core),
            hold: Arc::clone(&hold),
            is_released: false,
        };
        let (granted, offer) = offer::offer(holding);
        core.keep(&hold, offer);
        granted
    }

    /// Dropped from now on, it gives nothing back: its release was begun.
    pub(crate) fn disarm(&mut self) {
        self.is_released = true;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        // A hold that has been given back was released; one that was lost may still stand in the table.
        if !self.is_released && self.hold.standing().get() != Standing::Released {
            Arc::clone(&self.core).release_behind(Arc::clone(&self.hold), None);
        }
    }
}
