//! What is before a caller in the queue, and how long that may take.

use std::time::Duration;

use crate::place_id::PlaceId;
use crate::waiter::Waiter;
use fairlock_protocol::pace;

#[derive(Clone, Debug, Default)]
pub(crate) struct WaitEstimate {
    /// How many turns are before it, the holder's included.
    pub(crate) position: usize,
    /// The place. `None` while there is none.
    pub(crate) id: Option<PlaceId>,
    /// The mean time of a turn, as seen in this queue.
    turn: Option<Duration>,
}

impl WaitEstimate {
    pub(crate) fn of(waiter: &Waiter) -> Self {
        WaitEstimate {
            position: waiter.position(),
            id: Some(waiter.place_id()),
            turn: waiter.pace.mean(),
        }
    }

    /// The estimate of a caller with `others` more turns before it.
    pub(crate) fn behind(&self, others: usize) -> Self {
        self.at(self.position.saturating_add(others))
    }

    /// The same queue, seen from another position in it.
    pub(crate) fn at(&self, position: usize) -> Self {
        WaitEstimate {
            position,
            ..self.clone()
        }
    }

    pub(crate) fn wait(&self) -> Option<Duration> {
        Some(pace::times(self.turn?, self.position as u64))
    }
}
