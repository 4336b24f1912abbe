//! An outage: DynamoDB does not serve a waiting call.

use super::ClientInner;
use crate::state::{Outage, system_time};
use crate::store::{Failure, ToldOutage};
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::moment::Moment;

/// An outage, as waiting callers are told of it.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(super) since: Moment,
    pub(super) outage: Outage,
    failure: Failure,
}

impl Trouble {
    pub(crate) fn new(inner: &ClientInner, (since, kind): ToldOutage, failure: Failure) -> Self {
        let clock = &inner.store.config().clock;
        let lasts = clock.now().since(since);
        let outage = Outage {
            since: system_time(ServerTime(clock.unix().saturating_sub(lasts))),
            kind,
            cause: failure.to_string(),
        };
        Trouble {
            since,
            outage,
            failure,
        }
    }

    /// Returns the outage twice, for two batches.
    pub(crate) fn shared(self) -> (Self, Self) {
        let (since, outage) = (self.since, self.outage);
        let (one, other) = self.failure.shared();
        let trouble = |outage, failure| Trouble {
            since,
            outage,
            failure,
        };
        (trouble(outage.clone(), one), trouble(outage, other))
    }

    /// Returns the failure, and the outage with the same failure.
    pub(super) fn failure(self) -> (Failure, Self) {
        let (one, other) = self.failure.shared();
        (
            one,
            Trouble {
                failure: other,
                ..self
            },
        )
    }
}
