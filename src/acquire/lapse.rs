//! A hold that was lost at its local deadline, whose client keeps a safety margin.

use std::sync::Arc;

use super::Acquisition;
use super::turns::{Done, tell};
use crate::client_state::{GiveBack, outcome};
use crate::hold::{Departure, Hold};
use crate::place_writes::Ended;
use crate::runtime::background::Task;
use fairlock_protocol::moment::Moment;

impl Acquisition {
    /// Keeps a lost hold in the table until its safety margin is over, and then returns the deadline for its release. A hold without a margin
    /// returns its deadline at once. If the lease ends with the margin, or the client is shut down meanwhile, returns the outcome of the turn:
    /// the lease ends the hold.
    pub(super) async fn keeps_for_margin(
        &self,
        hold: &Arc<Hold>,
        caller: &mut Option<GiveBack>,
        deadline: Moment,
    ) -> Result<Moment, Done> {
        let until = match hold.departure() {
            Departure::Release => return Ok(deadline),
            Departure::ReleaseAt(until) => Some(until),
            Departure::Lapse => None,
        };
        tracing::info!(lock = %hold.name, ticket = %hold.ticket, "lost: others wait for its safety margin");
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
                    return Ok(deadline + hold.attempt.margin());
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
