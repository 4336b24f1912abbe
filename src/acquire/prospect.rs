//! What is before somebody in line, and how long that may take.

use std::time::Duration;

use crate::place_id::PlaceId;
use crate::waiter::Waiter;
use fairlock_protocol::pace;

#[derive(Clone, Debug, Default)]
pub(super) struct Prospect {
    /// How many are before it, the holder included.
    pub(super) place: usize,
    /// The place; none while it has none.
    pub(super) id: Option<PlaceId>,
    /// The mean time of a turn, as seen in this line.
    turn: Option<Duration>,
}

impl Prospect {
    pub(super) fn of(waiter: &Waiter) -> Self {
        Prospect {
            place: waiter.place(),
            id: Some(waiter.place_id()),
            turn: waiter.pace.mean(),
        }
    }

    /// Of one with so many others between.
    pub(super) fn behind(&self, others: usize) -> Self {
        self.at(self.place.saturating_add(others))
    }

    /// The same line, seen from a place in it.
    pub(super) fn at(&self, place: usize) -> Self {
        Prospect {
            place,
            ..self.clone()
        }
    }

    pub(super) fn wait(&self) -> Option<Duration> {
        Some(pace::times(self.turn?, self.place as u64))
    }
}
