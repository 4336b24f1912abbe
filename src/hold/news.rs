//! What those wait for who watch a hold: danger, and its end.

use std::time::Duration;

use super::{Hold, HoldState, HoldStatus};
use crate::error::LossReason;
use fairlock_protocol::lease;

impl Hold {
    pub(crate) fn is_in_danger(&self) -> bool {
        self.is_failing() && self.until_danger().is_zero()
    }

    fn until_danger(&self) -> Duration {
        let lease = self.lease.saturating_sub(self.attempt.margin());
        lease::until_danger(lease, self.remaining())
    }

    fn is_failing(&self) -> bool {
        self.state.read(|now| now.is_failing)
    }

    /// Waits until the hold has ended, or until it is in danger if it was not, or no longer in danger if it was. Cancel safe. Each turn of
    /// the loop ends with the hold, with a renewal, or in danger.
    pub(crate) async fn news(&self, was_in_danger: bool) -> HoldStatus {
        loop {
            let pulse = self.state.read(HoldState::pulse);
            let status = self.status();
            if status != HoldStatus::Held || self.is_in_danger() != was_in_danger {
                return status;
            }
            let is_news = |now: &HoldState| now.status != HoldStatus::Held || now.pulse() != pulse;
            let (_, is_failing) = pulse;
            tokio::select! {
                biased;
                () = self.state.wait_for(|now| is_news(now).then_some(())) => {}
                () = self.clock.sleep(self.until_danger()), if is_failing && !was_in_danger => {}
                () = self.wait_deadline() => if let Some(loss) = self.loss() {
                    return HoldStatus::Lost(loss);
                }
            }
        }
    }

    /// Waits until the hold has ended. The local deadline alone ends it too, because the task that renews it may stand still. Returns
    /// `None` if the hold was given back. Cancel safe. Each pass of the loop is one renewal.
    pub(crate) async fn wait_ended(&self) -> Option<LossReason> {
        loop {
            match self.status() {
                HoldStatus::Lost(loss) => return Some(loss),
                HoldStatus::Released => return None,
                HoldStatus::Held => {}
            }
            tokio::select! {
                biased;
                () = self.wait_inactive() => {}
                () = self.wait_deadline() => if self.remaining().is_zero() {
                    return self.loss();
                },
            }
        }
    }

    /// Waits for the local deadline as it is now.
    async fn wait_deadline(&self) {
        let until = self.believed_until();
        self.clock.sleep_until_if_counted(until).await;
    }
}
