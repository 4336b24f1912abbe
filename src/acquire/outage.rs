//! Tells those who wait, and the log, that DynamoDB does not answer them, and when it does again; and when a wait is so long that
//! the log is told of it.

use std::sync::Arc;
use std::time::Duration;

use crate::core::{Core, Party, Trouble};
use crate::name::LockName;
use crate::store::{News, Reach};
use fairlock_protocol::moment::Moment;

/// What tells a party of requests without an answer, and whoever waits behind it at the door.
pub(super) fn reach(core: &Arc<Core>, name: &LockName, party: &Arc<Party>) -> Reach {
    let most = core.store.config().outage_timeout;
    let (core, name, party) = (Arc::clone(core), name.clone(), Arc::clone(party));
    Reach::new(most, party.troubled_since(), move |news| match news {
        News::Unanswered {
            since,
            is_first,
            failure,
        } => {
            if is_first {
                tracing::warn!(lock = %name, %failure, "cannot reach DynamoDB: goes on trying while its callers wait");
            }
            let trouble = Trouble::new(&core, since, failure);
            match core.behind_at_the_door(&name, &party) {
                Some(behind) => {
                    let (one, other) = trouble.shared();
                    party.is_in_trouble(one);
                    behind.is_in_trouble(other);
                }
                None => party.is_in_trouble(trouble),
            }
        }
        News::Answered { after } => {
            tracing::info!(lock = %name, ?after, "reached DynamoDB again");
            party.is_answered();
            if let Some(behind) = core.behind_at_the_door(&name, &party) {
                behind.is_answered();
            }
        }
    })
}

/// The first wait that is long enough to be told; then whenever it has become twice as long.
const LONG: Duration = Duration::from_secs(10);

/// When a wait is told next.
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

    /// How long the wait is, if that is to be told.
    pub(super) fn told(&mut self, now: Moment) -> Option<Duration> {
        let waited = now.since(self.started);
        if waited < self.next {
            return None;
        }
        // Ends with the wait: each time the next is further away.
        while self.next <= waited {
            self.next = self.next.saturating_mul(2);
        }
        Some(waited)
    }
}
