//! Which clients believed when that they held which lock, and whether all of that can be true.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fairlock::LockGuard;

/// Shared by all clients that record what they hold.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Vec<Event>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Granted { lock: String, ticket: u64 },
    Ended { lock: String, ticket: u64 },
}

/// Records that a client holds these locks, from now until it is dropped.
pub(crate) struct Belief {
    history: History,
    locks: Vec<(String, u64)>,
}

impl History {
    pub(crate) fn believe(&self, guards: &[LockGuard]) -> Belief {
        let named = |guard: &LockGuard| (guard.name().to_owned(), guard.ticket().get());
        let locks: Vec<_> = guards.iter().map(named).collect();
        for (lock, ticket) in locks.clone() {
            self.note(Event::Granted { lock, ticket });
        }
        Belief {
            history: self.clone(),
            locks,
        }
    }

    fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    pub(crate) fn grants(&self) -> usize {
        let events = self.0.lock().unwrap();
        let grants = events
            .iter()
            .filter(|event| matches!(event, Event::Granted { .. }));
        grants.count()
    }

    /// Checks that no two clients held a lock at the same time, and that the tickets of each lock only grew.
    pub(crate) fn check(&self) -> Result<(), String> {
        check(&self.0.lock().unwrap())
    }
}

impl Drop for Belief {
    fn drop(&mut self) {
        for (lock, ticket) in self.locks.drain(..) {
            self.history.note(Event::Ended { lock, ticket });
        }
    }
}

pub(crate) fn check(events: &[Event]) -> Result<(), String> {
    let (mut inside, mut newest) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        match event {
            Event::Granted { lock, ticket } => {
                if let Some(other) = inside.insert(lock, ticket) {
                    return Err(format!("{ticket} has {lock} while {other} has it"));
                }
                if let Some(before) = newest.insert(lock, ticket).filter(|it| *it >= ticket) {
                    return Err(format!("{ticket} has {lock} after {before}"));
                }
            }
            Event::Ended { lock, .. } => {
                inside.remove(lock);
            }
        }
    }
    Ok(())
}
