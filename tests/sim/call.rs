//! One call for a lock, written down from the asking until it is granted or waits no more.

use std::sync::Arc;

use fairlock::RecordWait;

use crate::history::{Event, History};
use crate::wanted::Wanted;
use crate::world::World;

/// Clocks differ in rate: by every clock within the margin a call waits for this share of its time-out.
const BY_ANY_CLOCK: f64 = 0.98;

/// A call that is dropped without having been granted has gone.
pub(crate) struct Call {
    pub(crate) number: usize,
    history: Arc<History>,
    is_granted: bool,
}

impl Call {
    /// To be followed at once by the call itself, so that calls are numbered in the order in which they are made.
    pub(crate) fn begin(world: &World, host: usize, wanted: &Wanted, wait: RecordWait) -> Call {
        let history = world.history.clone();
        let number = history.next_call();
        let until = match wait {
            RecordWait::NoWait => Some(history.now()),
            RecordWait::Timeout(span) => Some(history.now() + span.mul_f64(BY_ANY_CLOCK)),
            RecordWait::Infinite => None,
        };
        history.note(Event::Asked {
            call: number,
            host,
            lock: wanted.name().to_owned(),
            is_alone: wanted.permits == wanted.of,
            until,
        });
        Call {
            number,
            history,
            is_granted: false,
        }
    }

    pub(crate) fn is_granted(&mut self) {
        self.is_granted = true;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_granted {
            self.history.note(Event::Gone { call: self.number });
        }
    }
}
