//! A lease that a caller looks out for while it waits for its own.

use tokio_util::sync::CancellationToken;

use fairlock_protocol::item::LockItem;

/// The lease of a name, which several processes may ask for. A process that waits for it has it as soon as any of them has.
#[derive(Debug)]
pub(crate) struct Sought {
    id: String,
    found: CancellationToken,
}

impl Sought {
    pub(crate) fn new(id: &str) -> Self {
        Sought {
            id: id.to_owned(),
            found: CancellationToken::new(),
        }
    }

    /// Takes in what an answer shows.
    pub(crate) fn looks_at(&self, item: &LockItem) {
        let mut holders = item.holders();
        if holders.any(|holder| holder.id.as_deref() == Some(&*self.id)) {
            self.found.cancel();
        }
    }

    /// Waits until an answer has shown that the lease holds the lock. Cancel safe.
    pub(crate) async fn found(&self) {
        self.found.cancelled().await;
    }
}
