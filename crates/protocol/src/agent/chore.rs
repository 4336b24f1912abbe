//! What a client does for others: it deletes rows of settled tickets, and lets those in who need not wait any more. What is not done is left
//! to the next client that finds it, or to TTL.

use super::{What, Work};
use crate::entry::Entry;
use crate::item::LockItem;
use crate::ticket::Ticket;
use crate::write::LockWrite;

/// DynamoDB's limit for one batch of deletes.
pub(super) const BATCH: usize = 25;

/// What is to be done.
pub(super) enum Chore {
    /// Rows are deleted, in batches: these are left.
    Delete(Vec<Ticket>),
    /// The first successors, the first of them in this slot, get the permits for which they wait.
    Admit(usize, Vec<Entry>),
}

impl Chore {
    /// Lets the first waiters in whose permits are left by this item, if there are any.
    pub(super) fn admitting(item: &LockItem) -> Option<Self> {
        let admitted = &item.successors()[..item.admitted()];
        let chore = || Chore::Admit(item.first_successor(), admitted.to_vec());
        (!admitted.is_empty()).then(chore)
    }

    pub(super) fn work(&self) -> Work {
        match self {
            Chore::Delete(_) => Work::Clean,
            Chore::Admit(..) => Work::Admit,
        }
    }

    /// What is asked next, if anything is left to do.
    pub(super) fn what(&self, permits: u64) -> Option<What> {
        match self {
            Chore::Delete(rows) => {
                let batch: Vec<_> = rows.iter().copied().take(BATCH).collect();
                (!batch.is_empty()).then_some(What::Delete(batch))
            }
            Chore::Admit(first, admitted) => {
                LockWrite::admit(permits, *first, admitted).map(What::shown)
            }
        }
    }
}
