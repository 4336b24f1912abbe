//! An outage: DynamoDB does not serve a waiting call.

use super::ClientInner;
use crate::state::{Outage, system_time};
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::outage::ToldOutage;

/// An outage, as waiting callers are told of it.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(super) since: Moment,
    pub(super) outage: Outage,
    pub(super) failure: Failure,
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
}
