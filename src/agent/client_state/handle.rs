//! Handles, which keep a client for its users. Dropping the last handle logs a warning of work that is not done yet.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ClientInner;

/// A counted handle. Background tasks keep the `ClientInner` itself, and are not counted.
pub(crate) struct ClientHandle(Arc<ClientInner>);

impl ClientHandle {
    pub(crate) fn new(inner: &Arc<ClientInner>) -> Self {
        inner.handles.fetch_add(1, Ordering::Relaxed);
        ClientHandle(Arc::clone(inner))
    }
}

impl Clone for ClientHandle {
    fn clone(&self) -> Self {
        ClientHandle::new(&self.0)
    }
}

impl Deref for ClientHandle {
    type Target = Arc<ClientInner>;

    fn deref(&self) -> &Arc<ClientInner> {
        &self.0
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.warn_unfinished();
        }
    }
}

impl ClientInner {
    /// Logs a warning of work that is not done. A shutdown that came to its end has reported this work. A dropped shutdown has not, nor has
    /// a dropped scope: both close the client, and no caller waits for the work that they began.
    fn warn_unfinished(&self) {
        if self.background.is_reported() {
            return;
        }
        let open = self.background.unfinished();
        let open = open.iter().filter(|job| job.task.is_in_the_way());
        let locks: BTreeSet<_> = open.map(|job| &*job.lock).collect();
        if !locks.is_empty() {
            tracing::warn!(
                ?locks,
                "a lock client was dropped without `shutdown` while locks are being released or left: if the process ends now, others wait for its leases"
            );
        }
    }
}

impl std::fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
