//! Notifies waiting callers, and the log, when DynamoDB does not answer them, and when it answers again.

use std::sync::Arc;

use crate::client_state::{Batch, ClientInner, Trouble};
use crate::name::LockName;
use crate::store::{News, Reach};

/// Builds the observer that notifies a batch, and the callers behind it at the doorway, of requests without an answer.
pub(super) fn reach(inner: &Arc<ClientInner>, name: &LockName, batch: &Arc<Batch>) -> Reach {
    let most = inner.store.config().outage_timeout;
    let (inner, name, batch) = (Arc::clone(inner), name.clone(), Arc::clone(batch));
    Reach::new(most, batch.troubled_since(), move |news| match news {
        News::Unanswered {
            since,
            is_first,
            failure,
        } => {
            if is_first {
                tracing::warn!(lock = %name, %failure, "cannot reach DynamoDB: goes on trying while its callers wait");
            }
            let trouble = Trouble::new(&inner, since, failure);
            match inner.behind_at_the_door(&name, &batch) {
                Some(behind) => {
                    let (one, other) = trouble.shared();
                    batch.note_trouble(one);
                    behind.note_trouble(other);
                }
                None => batch.note_trouble(trouble),
            }
        }
        News::Answered { after } => {
            tracing::info!(lock = %name, ?after, "reached DynamoDB again");
            batch.note_answered();
            if let Some(behind) = inner.behind_at_the_door(&name, &batch) {
                behind.note_answered();
            }
        }
    })
}
