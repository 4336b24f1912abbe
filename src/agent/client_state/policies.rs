//! How long the requests of a client are retried, by their purpose.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ClientInner;
use crate::store::requests::{Limit, RetryPolicy};
use fairlock_protocol::moment::Moment;

/// Attempts at a request on which no place depends.
const FEW: usize = 4;
/// Attempts at a request of a caller that does not wait.
const ATTEMPTS_AT_ONCE: u32 = 4;
impl ClientInner {
    /// When a call that does not wait stops trying. It tries for as long as its attempts take if none is answered. The time is a little
    /// less, so that the last attempt has reported its failure before the call returns.
    pub(crate) fn no_wait_ends(&self, started: Moment) -> Moment {
        let timeout = self.store.config().request_timeout;
        started + (timeout * ATTEMPTS_AT_ONCE).saturating_sub(timeout / 10)
    }

    /// How long a call that does not wait lasts at most, whatever becomes of its last attempt.
    pub(crate) fn no_wait_lasts(&self) -> Duration {
        self.store.config().request_timeout * (ATTEMPTS_AT_ONCE + 1)
    }

    /// For requests that administer or inspect locks.
    pub(crate) fn policy_of_few(&self, stop: CancellationToken) -> RetryPolicy {
        RetryPolicy::stopped_by(&stop).within(Limit::Attempts(FEW))
    }

    /// For requests about a lease by a name. Being too busy does not count: the time of the call ends them.
    pub(crate) fn policy_of_a_lease(&self, stop: &CancellationToken) -> RetryPolicy {
        RetryPolicy::stopped_by(stop)
            .within(Limit::Unanswered(FEW))
            .until(self.no_wait_ends(self.store.now()))
    }
}
