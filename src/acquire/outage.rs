//! Notifies waiting callers, and the log, of what keeps them from their turn, and when it does no more.

use std::sync::Arc;

use crate::client_state::{Batch, ClientInner, Trouble};
use crate::name::LockName;
use crate::requests::Reach;
use crate::telemetry;
use fairlock_protocol::outage::News;

/// Builds the listener that notifies a batch, and the callers behind it at the doorway.
pub(super) fn reach(inner: &Arc<ClientInner>, name: &LockName, batch: &Arc<Batch>) -> Reach {
    let most = inner.store.config().outage_timeout;
    let (inner, name, batch) = (Arc::clone(inner), name.clone(), Arc::clone(batch));
    Reach::new(most, batch.told_outage(), move |news| match news {
        News::Kept {
            since,
            kind,
            is_new,
            failure,
        } => {
            if is_new {
                telemetry::unserved(&name, kind, &failure);
            }
            let trouble = Trouble::new(&inner, (since, kind), failure);
            if let Some(behind) = inner.behind_at_the_door(&name, &batch) {
                behind.note_trouble(trouble.clone());
            }
            batch.note_trouble(trouble);
        }
        News::Over { kind, after } => {
            telemetry::served(&name, kind, after);
            batch.note_served();
            if let Some(behind) = inner.behind_at_the_door(&name, &batch) {
                behind.note_served();
            }
        }
    })
}
