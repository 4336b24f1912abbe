//! A lease that a caller looks out for while it waits for its own.

use tokio_util::sync::CancellationToken;

use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::LockItem;

/// The lease of a name, which several processes may ask for. A process that waits for it has it as soon as any of them has.
#[derive(Debug)]
pub(crate) struct SoughtLease {
    id: String,
    /// It has at least so many permits.
    permits: u64,
    found: CancellationToken,
}

impl SoughtLease {
    pub(crate) fn new(id: &str, permits: u64) -> Self {
        SoughtLease {
            id: id.to_owned(),
            permits,
            found: CancellationToken::new(),
        }
    }

    /// Takes in what an answer shows.
    pub(crate) fn looks_at(&self, item: &LockItem) {
        let is_it = |holder: &Entry| {
            holder.id.as_deref() == Some(&*self.id) && holder.permits >= self.permits
        };
        if item.holders().any(is_it) {
            self.found.cancel();
        }
    }

    /// Waits until an answer has shown that the lease holds the lock. Cancel safe.
    pub(crate) async fn found(&self) {
        self.found.cancelled().await;
    }
}
