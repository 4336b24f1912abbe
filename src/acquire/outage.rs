//! Notifies waiting callers, and the log, when DynamoDB does not answer them, and when it answers again. Also says when a wait is long
//! enough to be logged.

use std::sync::Arc;
use std::time::Duration;

use crate::client_state::{Batch, ClientInner, Trouble};
use crate::name::LockName;
use crate::store::{News, Reach};
use fairlock_protocol::moment::Moment;

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

/// A wait is logged when it has lasted this long, and again whenever it has doubled.
const LONG: Duration = Duration::from_secs(10);

/// When to log a wait next.
#[derive(Debug)]
pub(super) struct Doublings {
    started: Moment,
    next: Duration,
}

impl Doublings {
    pub(super) fn of(started: Moment) -> Self {
        Doublings {
            started,
            next: LONG,
        }
    }

    pub(super) fn due(&self) -> Moment {
        self.started + self.next
    }

    /// How long the wait is, if it is to be logged now.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Duration> {
        let waited = now.since(self.started);
        if waited < self.next {
            return None;
        }
        // Ends with the wait: each turn moves the next time further away.
        while self.next <= waited {
            self.next = self.next.saturating_mul(2);
        }
        Some(waited)
    }
}
