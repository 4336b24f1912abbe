//! How long the requests of a client are tried again, by what they are for.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Claim, Core, Party};
use crate::hold::Hold;
use crate::store::{Limit, Patience};
use fairlock_protocol::moment::Moment;

/// Attempts at a request on which nobody's place depends.
const FEW: usize = 4;
/// Attempts at a request of a caller that does not wait.
const ATTEMPTS_AT_ONCE: u32 = 4;
/// Attempts at a draw. Each that is applied unseen leaves a gap, so after these the way into the queue begins again, with
/// requests that leave nothing.
const ATTEMPTS_TO_DRAW: usize = 4;

impl Core {
    /// When a call that does not wait has tried for long enough: for as long as its attempts take if none is answered. A little less,
    /// so that the last one has said what failed before the call returns.
    pub(crate) fn no_wait_ends(&self, started: Moment) -> Moment {
        let timeout = self.store.config().request_timeout;
        started + (timeout * ATTEMPTS_AT_ONCE).saturating_sub(timeout / 10)
    }

    /// Such a call has returned after that, whatever its last attempt has become.
    pub(crate) fn no_wait_lasts(&self) -> Duration {
        self.store.config().request_timeout * (ATTEMPTS_AT_ONCE + 1)
    }

    /// For what an operator or an onlooker asks.
    pub(crate) fn patience_of_few(&self, stop: CancellationToken) -> Patience {
        Patience::stopped_by(&stop).within(Limit::Attempts(FEW))
    }

    /// For a place that is asked for. A claim that does not wait tries a few times, and for no longer than these requests take
    /// without an answer. One that waits tries for as long as it waits.
    pub(crate) fn patience_to_ask(
        &self,
        party: &Party,
        claim: &Claim,
        started: Moment,
    ) -> Patience {
        let patience = party.patience();
        match claim.waits {
            true => patience,
            false => patience
                .within(Limit::Attempts(ATTEMPTS_AT_ONCE as usize))
                .until(self.no_wait_ends(started)),
        }
    }

    /// For the renewal of a hold before it is granted.
    pub(crate) fn patience_to_grant(
        &self,
        party: &Party,
        claim: &Claim,
        (started, deadline): (Moment, Moment),
    ) -> Patience {
        let patience = Patience::stopped_by(&party.stop).until(deadline);
        match claim.waits {
            true => patience,
            false => patience.until(self.no_wait_ends(started)),
        }
    }

    /// For what a hold needs while it goes on.
    pub(crate) fn patience_to_hold(&self, hold: &Hold) -> Patience {
        let patience = Patience::stopped_by(&self.closed);
        patience.until(hold.believed_until()).through_refusals()
    }

    /// For what gives something back, and what ends with the lease of a hold.
    pub(crate) fn patience_until(&self, deadline: Moment) -> Patience {
        Patience::default().until(deadline).through_refusals()
    }

    /// For as long as what is left in the table could be in somebody's way: then others have removed it.
    pub(crate) fn patience_to_leave(&self) -> Patience {
        let config = self.store.config();
        self.patience_until(self.store.now() + config.lease * 2 + config.gap_grace)
    }
}

impl Party {
    /// For as long as one of them waits.
    pub(crate) fn patience(&self) -> Patience {
        let patience = Patience::stopped_by(&self.stop);
        match self.until() {
            Some(until) => patience.until(until),
            None => patience,
        }
    }

    /// For a draw.
    pub(crate) fn patience_to_draw(&self) -> Patience {
        self.patience().within(Limit::Unanswered(ATTEMPTS_TO_DRAW))
    }
}
