//! How long the requests of a client are retried, by their purpose.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Batch, Claim, ClientInner};
use crate::hold::Hold;
use crate::requests::{Limit, RetryPolicy};
use fairlock_protocol::moment::Moment;

/// Attempts at a request on which no place depends.
const FEW: usize = 4;
/// Attempts at a request of a caller that does not wait.
const ATTEMPTS_AT_ONCE: u32 = 4;
/// Attempts at a draw. Each draw that is applied without an answer leaves a gap. So after these attempts the place starts over, with
/// requests that leave nothing.
const ATTEMPTS_TO_DRAW: usize = 4;

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

    /// For requests that ask for a place. A claim that does not wait tries a few times, and for no longer than these requests take without
    /// an answer. A claim that waits tries for as long as it waits.
    pub(crate) fn policy_to_ask(
        &self,
        batch: &Batch,
        claim: &Claim,
        started: Moment,
    ) -> RetryPolicy {
        let policy = batch.policy();
        match claim.waits {
            true => policy,
            false => policy
                .within(Limit::Attempts(ATTEMPTS_AT_ONCE as usize))
                .until(self.no_wait_ends(started)),
        }
    }

    /// For the renewal of a hold before it is granted.
    pub(crate) fn policy_to_grant(
        &self,
        batch: &Batch,
        claim: &Claim,
        (started, deadline): (Moment, Moment),
    ) -> RetryPolicy {
        let policy = RetryPolicy::stopped_by(&batch.stop).until(deadline);
        match claim.waits {
            true => policy.through_denials(),
            false => policy.until(self.no_wait_ends(started)),
        }
    }

    /// For the requests of a hold that goes on.
    pub(crate) fn policy_to_hold(&self, hold: &Hold) -> RetryPolicy {
        let policy = RetryPolicy::stopped_by(&self.closed);
        policy.until(hold.believed_until()).through_refusals()
    }

    /// For requests that give something back, and for requests that end with the lease of a hold.
    pub(crate) fn policy_until(&self, deadline: Moment) -> RetryPolicy {
        RetryPolicy::default().until(deadline).through_refusals()
    }

    /// For leaving a place. Lasts as long as what is left in the table could be in another client's way. After that, others have removed
    /// it.
    pub(crate) fn policy_to_leave(&self) -> RetryPolicy {
        let config = self.store.config();
        self.policy_until(self.store.now() + config.lease * 2 + config.join_timeout)
    }
}

impl Batch {
    /// For as long as some member waits. It puts up with denials for a while, if the requests tell the callers of them.
    pub(crate) fn policy(&self) -> RetryPolicy {
        let policy = RetryPolicy::stopped_by(&self.stop).through_denials();
        match self.until() {
            Some(until) => policy.until(until),
            None => policy,
        }
    }

    /// For a draw.
    pub(crate) fn policy_to_draw(&self) -> RetryPolicy {
        self.policy().within(Limit::Unanswered(ATTEMPTS_TO_DRAW))
    }
}
