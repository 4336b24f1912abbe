//! The way into the queue of one lock. The batches of one client take it one after the other, and the callers that come meanwhile gather.

use std::sync::{Arc, Weak};

use super::Directory;
use crate::client_state::{Batch, Caller, PendingCall};
use crate::name::LockName;

/// The doorway, while a batch of this client is on the way into the queue.
#[derive(Debug)]
pub(super) struct Doorway {
    first: Weak<Batch>,
    /// The callers that wait until the way is free.
    behind: Option<Arc<Batch>>,
}

/// A call that came to a lock.
pub(in crate::client_state) struct Arrival {
    pub(in crate::client_state) batch: Arc<Batch>,
    pub(in crate::client_state) pending: PendingCall,
    /// Set if the way was free, so that this call is on it now.
    pub(in crate::client_state) is_first: bool,
}

impl Directory {
    /// Adds a call, alone or to the callers that came while another batch is on the way. All of this is one step, so that no call joins a
    /// batch that has set out.
    pub(in crate::client_state) fn arrives(
        &self,
        name: &LockName,
        caller: Caller,
        alone: impl FnOnce(Caller) -> (Arc<Batch>, PendingCall),
    ) -> Arrival {
        let mut state = self.state();
        let known = state.known(name);
        let Some(doorway) = &mut known.doorway else {
            let (batch, pending) = alone(caller);
            known.doorway = Some(Doorway {
                first: Arc::downgrade(&batch),
                behind: None,
            });
            return Arrival {
                batch,
                pending,
                is_first: true,
            };
        };
        let gathering = doorway.behind.take();
        let pending = gathering.and_then(|batch| {
            let pending = batch.join(caller.clone())?;
            Some((batch, pending))
        });
        let (batch, pending) = pending.unwrap_or_else(|| alone(caller));
        doorway.behind = Some(Arc::clone(&batch));
        Arrival {
            batch,
            pending,
            is_first: false,
        }
    }

    /// The callers that wait until this batch is in the queue.
    pub(in crate::client_state) fn behind(
        &self,
        name: &LockName,
        first: &Batch,
    ) -> Option<Arc<Batch>> {
        let state = self.state();
        let doorway = state.locks.get(name)?.doorway.as_ref()?;
        let is_first = std::ptr::eq(doorway.first.as_ptr(), first);
        doorway.behind.clone().filter(|_| is_first)
    }

    /// The batch that is on the way.
    pub(in crate::client_state) fn on_the_way(&self, name: &LockName) -> Option<Arc<Batch>> {
        let state = self.state();
        let doorway = state.locks.get(name)?.doorway.as_ref()?;
        doorway.first.upgrade()
    }

    /// Frees the way. Returns the batch that is on the way now, if callers still wait.
    pub(in crate::client_state) fn next(&self, name: &LockName) -> Option<Arc<Batch>> {
        let mut state = self.state();
        let next = state.change(name, |known| {
            let behind = known.doorway.take().and_then(|doorway| doorway.behind);
            let next = behind.filter(|batch| !batch.is_empty())?;
            known.doorway = Some(Doorway {
                first: Arc::downgrade(&next),
                behind: None,
            });
            Some(next)
        });
        next.flatten()
    }
}
