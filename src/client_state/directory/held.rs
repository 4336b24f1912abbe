//! The places of one client that hold a lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::Directory;
use crate::client_state::Batch;
use crate::hold::Hold;
use crate::name::LockName;
use crate::runtime::background::{Listed, Task};
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::stagger::Stagger;
use fairlock_protocol::ticket::Ticket;

/// The places that hold a lock, by nonce and newest ticket, which name a place.
#[derive(Debug, Default)]
pub(super) struct HeldPlaces {
    places: BTreeMap<(Nonce, Ticket), HeldPlace>,
    /// How many holds have begun beside others since the client held none.
    staggered: u64,
}

/// A place that holds a lock, until its task lets go of it.
#[derive(Debug)]
struct HeldPlace {
    hold: Weak<Hold>,
    /// The callers that take their turns there, one after the other.
    batch: Weak<Batch>,
    /// The task of the place.
    listed: Listed,
}

impl HeldPlaces {
    /// Whether a holder on the lock item is a place of this client.
    pub(super) fn has(&self, holder: &Entry) -> bool {
        self.places.contains_key(&(holder.nonce, holder.ticket))
    }

    /// Spreads the renewals of a hold, so that they come at other times than those of the client's other holds.
    fn stagger(&mut self, hold: &Hold) {
        let mut others = self
            .places
            .values()
            .filter_map(|place| place.hold.upgrade());
        self.staggered = match others.any(|other| other.is_held()) {
            true => self.staggered.wrapping_add(1),
            false => 0,
        };
        hold.stagger(Stagger::of(self.staggered));
    }
}

impl Directory {
    /// Adds a hold, with the callers whose turns come after it. Replaces the hold before it at the same place.
    pub(in crate::client_state) fn holds(
        &self,
        hold: &Arc<Hold>,
        batch: &Arc<Batch>,
        listed: &Listed,
    ) {
        let mut state = self.state();
        state.held.stagger(hold);
        let place = HeldPlace {
            hold: Arc::downgrade(hold),
            batch: Arc::downgrade(batch),
            listed: listed.clone(),
        };
        state.held.places.insert(hold.place(), place);
    }

    /// Notes that the place holds nothing any more.
    pub(in crate::client_state) fn lets_go(&self, hold: &Hold) {
        self.state().held.places.remove(&hold.place());
    }

    pub(in crate::client_state) fn all_held(&self) -> Vec<Arc<Hold>> {
        self.of_held(|place| place.hold.upgrade())
    }

    /// The holds of one lock.
    pub(in crate::client_state) fn held_of(&self, name: &LockName) -> Vec<Arc<Hold>> {
        let mut holds = self.all_held();
        holds.retain(|hold| hold.name == *name);
        holds
    }

    pub(in crate::client_state) fn all_batches(&self) -> Vec<Arc<Batch>> {
        self.of_held(|place| place.batch.upgrade())
    }

    /// Notes that the task of a hold is to release it.
    pub(in crate::client_state) fn note_release(&self, hold: &Hold) {
        if let Some(place) = self.state().held.places.get(&hold.place()) {
            place.listed.becomes(Task::Release, hold.ticket);
        }
    }

    fn of_held<T>(&self, of: impl Fn(&HeldPlace) -> Option<T>) -> Vec<T> {
        self.state().held.places.values().filter_map(of).collect()
    }
}
