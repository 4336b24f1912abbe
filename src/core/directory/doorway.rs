//! The way into the queue of one lock: the callers of one client take it one after the other, and those who come meanwhile
//! gather.

use std::sync::{Arc, Weak};

use super::Directory;
use crate::core::{Caller, Joined, Party};
use crate::name::LockName;

/// While a batch of this client is on the way.
#[derive(Debug)]
pub(super) struct Doorway {
    first: Weak<Party>,
    /// The callers that wait until the way is free.
    behind: Option<Arc<Party>>,
}

/// A call that came to a lock.
pub(in crate::core) struct Arrival {
    pub(in crate::core) party: Arc<Party>,
    pub(in crate::core) joined: Joined,
    /// The way is free, and this call is on it now.
    pub(in crate::core) is_first: bool,
}

impl Directory {
    /// Takes a call in, alone or with the callers that came while another one is on the way. All of this at once, so that no call
    /// joins a batch that has set out.
    pub(in crate::core) fn arrives(
        &self,
        name: &LockName,
        caller: Caller,
        alone: impl FnOnce(Caller) -> (Arc<Party>, Joined),
    ) -> Arrival {
        let mut state = self.state();
        let known = state.known(name);
        let Some(doorway) = &mut known.doorway else {
            let (party, joined) = alone(caller);
            known.doorway = Some(Doorway {
                first: Arc::downgrade(&party),
                behind: None,
            });
            return Arrival {
                party,
                joined,
                is_first: true,
            };
        };
        let gathering = doorway.behind.take();
        let joined = gathering.and_then(|party| {
            let joined = party.join(caller.clone())?;
            Some((party, joined))
        });
        let (party, joined) = joined.unwrap_or_else(|| alone(caller));
        doorway.behind = Some(Arc::clone(&party));
        Arrival {
            party,
            joined,
            is_first: false,
        }
    }

    /// The callers that wait until this batch is in the queue.
    pub(in crate::core) fn behind(&self, name: &LockName, first: &Party) -> Option<Arc<Party>> {
        let state = self.state();
        let doorway = state.locks.get(name)?.doorway.as_ref()?;
        let is_first = std::ptr::eq(doorway.first.as_ptr(), first);
        doorway.behind.clone().filter(|_| is_first)
    }

    /// The batch that is on the way.
    pub(in crate::core) fn on_the_way(&self, name: &LockName) -> Option<Arc<Party>> {
        let state = self.state();
        let doorway = state.locks.get(name)?.doorway.as_ref()?;
        doorway.first.upgrade()
    }

    /// The way is free: returns the batch that is on it now, if callers still wait.
    pub(in crate::core) fn next(&self, name: &LockName) -> Option<Arc<Party>> {
        let mut state = self.state();
        let next = state.change(name, |known| {
            let behind = known.doorway.take().and_then(|doorway| doorway.behind);
            let next = behind.filter(|party| !party.is_empty())?;
            known.doorway = Some(Doorway {
                first: Arc::downgrade(&next),
                behind: None,
            });
            Some(next)
        });
        next.flatten()
    }
}
