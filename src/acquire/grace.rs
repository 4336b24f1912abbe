//! A hold that was lost at its local deadline, and whose caller wants others to wait for longer than for its lease.

use std::sync::Arc;

use super::Acquisition;
use super::turns::{Done, tell};
use crate::background::Task;
use crate::client_state::{GiveBack, outcome};
use crate::hold::{GraceAfterLoss, Hold};
use crate::lock_item_writer::Ended;
use fairlock_protocol::moment::Moment;

impl Acquisition {
    /// Keeps a lost hold in the table until its grace is over, and then returns the deadline for its release. A hold without a grace returns its
    /// deadline at once. If the lease ends with the grace, or the client is shut down meanwhile, returns the outcome of the turn: the lease
    /// ends the hold.
    pub(super) async fn keeps_for_grace(
        &self,
        hold: &Arc<Hold>,
        caller: &mut Option<GiveBack>,
        deadline: Moment,
    ) -> Result<Moment, Done> {
        let until = match hold.grace_after_loss() {
            GraceAfterLoss::None => return Ok(deadline),
            GraceAfterLoss::Until(until) => Some(until),
            GraceAfterLoss::Lease => None,
        };
        tracing::info!(lock = %hold.name, ticket = %hold.ticket, "lost: others wait for its grace");
        let inner = &self.inner;
        if let Some(until) = until {
            // From now on the lease ends the hold if the client does not, so the process may exit.
            self.listed.becomes(Task::Heartbeat, hold.ticket);
            if let Some(caller) = caller.take() {
                tell(inner, caller, Ok(Ended::KeptOn));
            }
            tokio::select! {
                biased;
                () = inner.closed.cancelled() => {}
                () = inner.store.config().clock.sleep_until(until) => {
                    self.listed.becomes(Task::Release, hold.ticket);
                    return Ok(deadline + hold.attempt.grace());
                }
            }
        }
        let ended = Ok(Ended::KeptOn);
        hold.telemetry.released(outcome(hold.ticket, &ended));
        Err(Done {
            ended,
            caller: caller.take(),
            hold: Arc::clone(hold),
        })
    }
}
