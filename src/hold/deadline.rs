//! Until when a hold may be trusted, and what its renewals ask for so that it stays so.

use std::time::Duration;

use super::{Hold, HoldState, HoldStatus};
use crate::config::Config;
use crate::error::LossReason;
use crate::hold_bounds;
use crate::store::Store;
use fairlock_protocol::lease;
use fairlock_protocol::moment::Moment;

/// How a hold that has ended leaves the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// By a release, as soon as its guard is given back.
    Release,
    /// By a release at this moment, before which its lease in the table does not end.
    ReleaseAt(Moment),
    /// By the end of its lease in the table, of which the safety margin is a part.
    Lapse,
}

impl Hold {
    /// The local deadline: the end of the lease, or of the longest hold that the caller wants.
    pub(crate) fn believed_until(&self) -> Moment {
        self.state.read(|now| self.ends(now))
    }

    pub(super) fn ends(&self, now: &HoldState) -> Moment {
        let lease = self.lease_ends(now);
        self.limit_from(now).map_or(lease, |limit| limit.min(lease))
    }

    /// Until when no other client ends the hold. It counts from before the sending of the write that established the beat that the table
    /// shows.
    pub(crate) fn lease_until(&self) -> Moment {
        self.state.read(|now| self.lease_ends(now))
    }

    fn lease_ends(&self, now: &HoldState) -> Moment {
        let until = now.beats.believed_until(now.beat, self.lease);
        until.unwrap_or_default()
    }

    /// When the longest hold that the caller wants ends.
    fn limit(&self) -> Option<Moment> {
        self.state.read(|now| self.limit_from(now))
    }

    fn limit_from(&self, now: &HoldState) -> Option<Moment> {
        Some(now.bound_from? + self.bounds.max?)
    }

    /// When the bounds of the hold began. `None` if its caller waits for other locks, with all of which they begin.
    fn bound_from(&self) -> Option<Moment> {
        self.state.read(|now| now.bound_from)
    }

    /// Begins the bounds of a hold whose caller has all of its locks by now.
    pub(crate) fn begin_bounds(&self) {
        let now = self.clock.now();
        self.state.change(|it| {
            let begins = it.bound_from.is_none();
            it.bound_from.get_or_insert(now);
            begins
        });
    }

    /// Waits for the local deadline, also if the bounds of the hold begin meanwhile. Cancel safe.
    pub(crate) async fn wait_expiry(&self) {
        if self.bound_from().is_none() {
            tokio::select! {
                biased;
                () = self.state.wait_for(|now| now.bound_from.map(drop)) => {}
                () = self.clock.sleep_until(self.believed_until()) => return,
            }
        }
        self.clock.sleep_until(self.believed_until()).await;
    }

    /// Notes that no work began under the hold: its caller never took it.
    pub(crate) fn was_not_used(&self) {
        self.state.note(|now| now.is_unused = true);
    }

    /// How the hold leaves the table, now that it has ended. A hold that ended at its local deadline is not released within the safety margin,
    /// whatever its guard does: what its caller sent last may still arrive.
    pub(crate) fn departure(&self) -> Departure {
        let (status, is_unused, is_late) = self
            .state
            .read(|now| (now.status.clone(), now.is_unused, now.is_late));
        let loss = match status {
            HoldStatus::Lost(loss) => Some(loss),
            HoldStatus::Released if is_late => Some(self.expiry_reason()),
            HoldStatus::Held | HoldStatus::Released => None,
        };
        let margin = self.attempt.margin();
        match loss.filter(|_| !is_unused && !margin.is_zero()) {
            Some(LossReason::MaxHold { .. }) => {
                let limit = self.limit().unwrap_or(self.begun);
                // This client's clock may run fast.
                Departure::ReleaseAt(limit + lease::believed_for(margin))
            }
            Some(LossReason::Expired | LossReason::Unreachable { .. }) => Departure::Lapse,
            // There is no margin, or the hold was ended on purpose.
            _ => Departure::Release,
        }
    }

    /// Why the hold was lost, if its guard was given back after its local deadline.
    pub(crate) fn ended_late(&self) -> Option<LossReason> {
        let is_late = self.state.read(|now| now.is_late);
        is_late.then(|| self.expiry_reason())
    }

    /// How much is left of the shortest hold that the caller wants. Nothing, if the caller never took it.
    pub(crate) fn owed(&self) -> Duration {
        let (from, is_unused) = self.state.read(|now| (now.bound_from, now.is_unused));
        let until = from.zip(self.bounds.min).filter(|_| !is_unused);
        until.map_or(Duration::ZERO, |(from, least)| {
            (from + least).since(self.clock.now())
        })
    }

    /// The lease that the next renewal asks for, where `config` is the client's. It ends with the hold.
    ///
    /// The deadline stays as it is when such a renewal is sent, answered or not. If it applies, its lease begins when it was sent or later,
    /// and lasts until the longest hold is over, with a tenth of a lease to spare. If it does not, the table has the lease of before.
    pub(crate) fn lease_to_ask_for(&self, config: &Config) -> Duration {
        let Some(limit) = self.limit() else {
            return config.lease;
        };
        hold_bounds::ending_after(limit.since(self.clock.now()), config.lease)
    }

    /// When to send the next renewal. Soon, if the hold has no date and a renewal may bring one, or another answer that tells the time. A lease
    /// that outlasts the hold is renewed too: the answer tells the holder what others did to its place.
    pub(crate) fn renewal_due(&self, store: &Store) -> Moment {
        let limit = self.limit();
        self.state.read(|now| {
            let until = now.beats.believed_until(now.beat, now.lease);
            let outlasts = limit.is_some_and(|limit| until.is_some_and(|until| limit <= until));
            let asked = now.lease.saturating_sub(self.attempt.margin());
            let heartbeat = match asked < store.config().lease && !outlasts {
                // The lease was cut short to end with the hold, and still ends too early: it came late.
                true => store.heartbeat(now.is_dated).min(asked / 3),
                false => store.heartbeat(now.is_dated),
            };
            let stagger = now.stagger.as_ref();
            let span = stagger.map_or(heartbeat, |stagger| stagger.span(heartbeat));
            let established = now.beats.established(now.beat);
            established.map_or_else(Moment::default, |sent| sent + span)
        })
    }

    /// Why the hold ended at its local deadline.
    pub(crate) fn expiry_reason(&self) -> LossReason {
        if let (Some(end), Some(limit)) = (self.limit(), self.bounds.max)
            && end <= self.lease_until()
        {
            return LossReason::MaxHold { limit };
        }
        match self.trouble() {
            Some(cause) => LossReason::Unreachable { cause },
            None => LossReason::Expired,
        }
    }
}
