//! Notifies waiting callers, and the log, of what keeps them from their turn, and when it does no more.

use std::sync::Arc;

use crate::client_state::{Batch, ClientInner, Trouble};
use crate::name::LockName;
use crate::requests::Reach;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::outage::{News, OutageKind, is_unanswered};

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
                log(&name, kind, &failure);
            }
            let trouble = Trouble::new(&inner, (since, kind), failure);
            if let Some(behind) = inner.behind_at_the_door(&name, &batch) {
                behind.note_trouble(trouble.clone());
            }
            batch.note_trouble(trouble);
        }
        News::Over { kind, after } => {
            match is_unanswered(kind) {
                true => tracing::info!(lock = %name, ?after, "reached DynamoDB again"),
                false => tracing::info!(lock = %name, ?after, "DynamoDB serves requests again"),
            }
            batch.note_served();
            if let Some(behind) = inner.behind_at_the_door(&name, &batch) {
                behind.note_served();
            }
        }
    })
}

fn log(name: &LockName, kind: OutageKind, failure: &Failure) {
    let what = match kind {
        OutageKind::Throttled => "DynamoDB is too busy",
        OutageKind::Conflict => "transactions of others use the item",
        OutageKind::Refused => "DynamoDB refuses a request",
        OutageKind::LoadingCredentials => "credentials are still being loaded",
        _ => "cannot reach DynamoDB",
    };
    tracing::warn!(lock = %name, %failure, "{what}: goes on trying while its callers wait");
}
