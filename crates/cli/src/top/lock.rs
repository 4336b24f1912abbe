//! A lock as one read shows it: what of it `fairlock top` uses.

use std::time::{Duration, SystemTime};

use fairlock::{LockState, Participant};

use crate::output;

/// A lock when it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lock {
    pub(crate) name: String,
    pub(crate) newest_ticket: Option<u64>,
    /// In the order in which they came. Several of them share the lock.
    pub(crate) holders: Vec<Place>,
    /// The successors, and the waiters behind them as far as the read shows them.
    pub(crate) queue: Vec<Place>,
    pub(crate) waiting: u64,
    pub(crate) held_since: Option<SystemTime>,
}

/// A holder or a waiter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Place {
    /// Its ticket, or the first and the last of several.
    pub(crate) ticket: String,
    /// How many callers of one client stand here together.
    pub(crate) tickets: u64,
    /// What does not print in it is escaped.
    pub(crate) owner: String,
    pub(crate) stage: String,
    /// The permits, if they are not all of the lock's.
    pub(crate) permits: Option<u64>,
    pub(crate) since: Option<SystemTime>,
    pub(crate) lease_left: Option<Duration>,
}

impl From<&LockState> for Lock {
    fn from(state: &LockState) -> Self {
        let place = |who| Place::of(who, state);
        let holders = state.holder.iter().chain(&state.sharers);
        Lock {
            name: state.lock.clone(),
            newest_ticket: state.newest_ticket.map(|ticket| ticket.get()),
            holders: holders.map(place).collect(),
            queue: state.queue.iter().map(place).collect(),
            waiting: state.waiting,
            held_since: state.held_since.filter(|_| state.holder.is_some()),
        }
    }
}

impl Place {
    fn of(who: &Participant, state: &LockState) -> Place {
        Place {
            ticket: output::tickets(who),
            tickets: who.tickets,
            owner: match who.kept_until {
                Some(_) => format!("{} (gave it back)", output::named(who)),
                None => output::named(who),
            },
            stage: who.stage.to_string(),
            permits: output::part(who, state),
            since: who.since,
            lease_left: who.lease_left,
        }
    }
}

impl Lock {
    /// How many of the lock's tickets hold nothing and wait for nothing any more. Returns `None` if the lock has no item.
    pub(crate) fn ended(&self) -> Option<u64> {
        let holding: u64 = self.holders.iter().map(|holder| holder.tickets).sum();
        let standing = holding.saturating_add(self.waiting);
        Some(self.newest_ticket?.saturating_sub(standing))
    }

    /// Whether it is held and callers wait for it.
    pub(crate) fn is_queued(&self) -> bool {
        !self.holders.is_empty() && self.waiting > 0
    }
}
