//! A hold that is given back before it has lasted for as long as its caller wants.

use std::sync::Arc;

use super::Acquisition;
use super::turns::{Done, tell};
use crate::client_inner::{GiveBack, outcome};
use crate::hold::Hold;
use crate::hold_bounds;
use crate::slots::Ended;
use crate::store::Write;
use fairlock_protocol::lease;
use fairlock_protocol::moment::Moment;

impl Acquisition {
    /// Keeps a hold in the table for as long as its caller wants. Sends one renewal, whose lease lasts for the rest of that time, and answers
    /// the caller. Then this waits, and returns until when the hold can be released. Returns the outcome of the turn instead if the lease is to
    /// end the hold. That is so if the renewal failed, if the hold was no longer this client's, or if the client is shut down.
    pub(super) async fn keeps_on(
        &self,
        hold: &Arc<Hold>,
        caller: Option<GiveBack>,
    ) -> Result<Moment, Done> {
        let (inner, config) = (&self.inner, self.inner.store.config());
        let done = |ended, caller| {
            hold.told.released(outcome(hold.ticket, &ended));
            Done {
                ended,
                caller,
                hold: Arc::clone(hold),
            }
        };
        // Nothing else renews the hold any more.
        let policy = inner.policy_until(hold.lease_until());
        let to_ask_for = || hold_bounds::lasting(hold.owed(), config.lease);
        let renew = || {
            let footing = hold.footing();
            inner
                .store
                .renew(&hold.name, &hold.attempt, footing, to_ask_for())
        };
        // Each turn but the last has seen that the hold moved from the first slot to the sharers, which happens once.
        let (item, sent) = loop {
            let before = hold.footing().at;
            let answer = match inner.store.retry_renewal(&policy, renew).await {
                Ok(answer) => answer,
                Err(failure) => return Err(done(Err(failure), caller)),
            };
            match answer.value {
                Write::Applied(item) => break (item, answer.sent),
                Write::ConditionFailed(Some(item)) if hold.has_moved(&item, before) => {}
                Write::ConditionFailed(item) => return Err(done(Ok(Ended::NotOurs(item)), caller)),
            }
        };
        hold.renewed(&item, sent);
        inner.saw(&hold.name, &item);
        let (until, owed) = (sent + lease::believed(to_ask_for()), hold.owed());
        tracing::debug!(lock = %hold.name, ticket = %hold.ticket, ?owed, "given back: kept for its shortest time");
        if let Some(caller) = caller {
            tell(inner, caller, Ok(Ended::KeptOn));
        }
        tokio::select! {
            biased;
            () = inner.closed.cancelled() => Err(done(Ok(Ended::KeptOn), None)),
            () = config.clock.sleep(owed) => Ok(until),
        }
    }
}
