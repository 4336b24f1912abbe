//! Turns a place that holds the lock into a hold.

use std::sync::Arc;

use super::Acquisition;
use crate::attempt::Attempt;
use crate::client_state::{Departure, Refused};
use crate::error::LossReason;
use crate::hold::Hold;
use crate::holder;
use crate::place_writes;
use crate::store::{Answered, Write};
use fairlock_protocol::item::{Footing, ItemPosition, LockItem};
use fairlock_protocol::lease::{self, RenewalHistory};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::place::Place;
use fairlock_protocol::ticket::{Sequence, Ticket};

impl Acquisition {
    /// Turns a place that holds the lock into a hold. The task gives up a place whose lease has expired, and never returns it as a hold.
    /// Renews the place first in three cases:
    ///
    /// - Less than half of the lease of a hold is left, for a promotion starts no new lease.
    /// - The lease in the table is longer than the hold asks for, so other clients would wait for all of it.
    /// - DynamoDB may delete the item before long.
    pub(super) async fn grant(
        &self,
        place: Place,
        attempt: Attempt,
        (ticket, mut beats): (Ticket, RenewalHistory),
        item: &LockItem,
    ) -> Result<Option<Arc<Hold>>, Refused> {
        let lease = self.claim.bounds.lease(self.store().config().lease);
        let Some(ItemPosition::Has(mut at, mut entry)) =
            item.position_of_place(attempt.nonce, ticket)
        else {
            return self.lost_place(&attempt, holder::evicted(Some(item), ticket));
        };
        let mut shown = item;
        let (now, shows) = (self.store().now(), (entry.beat, entry.lease));
        let believed = beats.believed_until(shows.0, shows.1).unwrap_or_default();
        let until = beats.counted_until(shows.0, shows.1).unwrap_or_default();
        if until <= now {
            tracing::warn!(lock = %self.name, %ticket, "granted after its lease was over: gives the lock up");
            let seen = item.clone();
            self.leaves(Departure::declined(place, attempt, ticket, seen));
            self.note_lost(LossReason::Expired);
            return Ok(None);
        }
        let renewed;
        let is_kept = self.store().is_kept(item.expires_at);
        if lease::is_short(lease, believed.since(now))
            || entry.lease > attempt.in_table(lease)
            || !is_kept
        {
            let footing = Footing::of(item, at, entry);
            let (item, answered) = match Box::pin(self.renew(&attempt, footing, until)).await? {
                Ok(renewed) => renewed,
                Err(reason) => return self.lost_place(&attempt, reason),
            };
            renewed = item;
            shown = &renewed;
            let Some(ItemPosition::Has(now_at, now)) =
                shown.position_of_place(attempt.nonce, ticket)
            else {
                let reason = holder::evicted(Some(shown), ticket);
                return self.lost_place(&attempt, reason);
            };
            (at, entry) = (now_at, now);
            beats.renewed(entry.beat, answered.sent_early(entry));
        }
        // The client counts back by its own number of tickets: a wrong number in the table must not lower a fencing token.
        let first = entry.ticket.first_of(attempt.tickets);
        let granted = Hold::new(
            self.name.clone(),
            attempt,
            first,
            (shown, at, entry),
            (self.store().config(), self.claim.bounds),
            beats,
        );
        Ok(Some(Arc::new(granted)))
    }

    /// The place was lost before it was granted. A copy of a request for it may still arrive.
    fn lost_place(
        &self,
        attempt: &Attempt,
        reason: LossReason,
    ) -> Result<Option<Arc<Hold>>, Refused> {
        self.inner.forget(attempt);
        self.note_lost(reason);
        Ok(None)
    }

    /// Notes that the place is lost and that the task asks for another one, if the claim waits.
    fn note_lost(&self, reason: LossReason) {
        if self.claim.waits {
            self.batch.note_requeued(Some(reason));
        }
    }

    /// Renews a hold before it is returned. Returns the reason if this client no longer holds the lock, or if that is unknown.
    ///
    /// The loop repeats only when a refusal shows that the hold moved from the first slot to the sharers, which happens once.
    async fn renew(
        &self,
        attempt: &Attempt,
        mut footing: Footing,
        until: Moment,
    ) -> Result<Result<(LockItem, Answered), LossReason>, Refused> {
        loop {
            match self.renew_at(attempt, footing, until).await? {
                Renewed::Shown(shown) => return Ok(Ok(*shown)),
                Renewed::Elsewhere(now_at) => footing = now_at,
                Renewed::Not(reason) => return Ok(Err(reason)),
            }
        }
    }

    async fn renew_at(
        &self,
        attempt: &Attempt,
        footing: Footing,
        until: Moment,
    ) -> Result<Renewed, Refused> {
        let (inner, times) = (&self.inner, (self.started, until));
        let policy = inner.policy_to_grant(&self.batch, &self.claim, times);
        let store = self.store();
        let lease = self.claim.bounds.lease(store.config().lease);
        let renew = || place_writes::renew(store, &self.name, attempt, (footing, lease));
        match self.requests.retry_renewal(&policy, renew).await {
            Ok(answer) => {
                let answered = answer.answered();
                Ok(match answer.value {
                    Write::Applied(item) => Renewed::Shown(Box::new((item, answered))),
                    Write::ConditionFailed(item) => elsewhere(item, attempt, footing),
                })
            }
            Err(failure) => {
                let ticket = footing.ticket;
                tracing::warn!(lock = %self.name, %ticket, %failure, "could not renew the hold that it was granted");
                self.leaves(Departure::unseen(Place::holding(), attempt.again()));
                let goes_on = self.claim.waits && self.requests.has_time_left(&self.policy());
                let may_help = failure.is_transient() || self.requests.waits_out(&failure);
                match may_help && goes_on {
                    true => Ok(Renewed::Not(LossReason::Unreachable {
                        cause: failure.to_string(),
                    })),
                    false => Err(failure.into()),
                }
            }
        }
    }
}

/// What became of the renewal of a place that holds the lock.
enum Renewed {
    /// This item shows it.
    Shown(Box<(LockItem, Answered)>),
    /// The place still holds the lock, and stands there now.
    Elsewhere(Footing),
    /// The place no longer holds the lock, or that is unknown.
    Not(LossReason),
}

/// What the refusal of a renewal shows.
fn elsewhere(item: Option<LockItem>, attempt: &Attempt, was: Footing) -> Renewed {
    let shown = item.as_ref().and_then(|item| {
        let (at, entry) = item.hold_of(attempt.nonce, was.ticket)?;
        Some(Footing::of(item, at, entry))
    });
    match shown {
        Some(footing) if footing.at != was.at => Renewed::Elsewhere(footing),
        _ => Renewed::Not(holder::evicted(item.as_ref(), was.ticket)),
    }
}
