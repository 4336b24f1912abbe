//! Writes on the lock item: taking a slot, handing the lock over, and giving a slot up. The nonce identifies each.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::name::LockName;
use crate::store::{Attempt, EnterTerms, RetryPolicy, Store, Timed, Write};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{Footing, ItemHold, ItemPosition, LockItem, Written};
use fairlock_protocol::lease::RenewalHistory;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::place::{Act, Found, Place};
use fairlock_protocol::ticket::{Sequence, Ticket};

/// A place that was taken on the lock item.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) ticket: Ticket,
    pub(crate) beats: RenewalHistory,
    /// The lock item that shows the place.
    pub(crate) answer: Timed<LockItem>,
}

/// The result of asking for a place.
#[derive(Debug)]
pub(crate) enum Asked {
    Taken(Taken),
    /// The item that stood in the way; `None` if there was no item.
    InTheWay(Option<LockItem>),
}

/// The result of ending a hold.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The next in the queue holds the lock; the item shows it.
    HandedOff(LockItem),
    /// The next caller at the same place holds the lock; nothing was sent.
    PassedOn,
    /// The hold is kept in the table for as long as its caller wants. It ends then.
    KeptOn,
    /// The hold has become a lease, with this entry.
    LeasedOut(Box<Entry>),
    /// An earlier attempt of this release was applied though its answer was lost, with the item as it is since.
    ReleasedEarlier(Option<LockItem>),
    /// The hold was no longer ours.
    NotOurs(Option<LockItem>),
}

/// The writes of a caller on a lock item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockItemWriter<'a> {
    pub(crate) store: &'a Store,
    pub(crate) name: &'a LockName,
    pub(crate) policy: &'a RetryPolicy,
}

impl LockItemWriter<'_> {
    /// Draws tickets, and takes the slot behind all others: the lock, if that is the first slot.
    pub(crate) async fn enter(
        &self,
        attempt: &Attempt,
        wish: EnterTerms,
    ) -> Result<Asked, Failure> {
        let first_sent = self.store.now();
        let enter = || self.store.enter(self.name, attempt, wish);
        let answer = self.store.retry(self.policy, enter).await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Takes permits that are left, if no caller waits for any. A participant in the first slot may have at most `first` permits.
    pub(crate) async fn share(&self, attempt: &Attempt, first: u64) -> Result<Asked, Failure> {
        let first_sent = self.store.now();
        let share = || self.store.share(self.name, attempt, first);
        let answer = self.store.retry(self.policy, share).await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Takes a free lock all of whose tickets up to `seen.last` are settled.
    pub(crate) async fn enter_over(
        &self,
        attempt: &Attempt,
        seen: &LockItem,
    ) -> Result<Asked, Failure> {
        let Some(ticket) = seen.last.after(attempt.tickets) else {
            return Ok(Asked::InTheWay(Some(seen.clone())));
        };
        let first_sent = self.store.now();
        let enter = || self.store.enter_over(self.name, attempt, seen, ticket);
        let answer = self.store.retry(self.policy, enter).await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Ends a hold. If an earlier attempt had no answer, a refusal means that this attempt released the hold. The retry policy
    /// ends within the caller's lease, and until then no other client can end the hold, unless somebody breaks it. The item names the newest
    /// place that was broken, so only a break and another one since go unnoticed. A hold that has another number of permits
    /// than expected, or stands elsewhere, is released again as it stands. So each further round of the loop needs a downgrade, or a change
    /// of the number of permits.
    pub(crate) async fn release(
        &self,
        attempt: &Attempt,
        mut held: ItemHold,
    ) -> Result<Ended, Failure> {
        let unanswered = AtomicBool::new(false);
        let mut place = Place::holding();
        let mut act = place.leaves(true);
        let mut seen = None;
        while act == Act::Release {
            let release = || async {
                let answer = self.store.release(self.name, attempt, held).await;
                if answer.as_ref().is_err_and(Failure::is_ambiguous) {
                    unanswered.store(true, Ordering::Relaxed);
                }
                answer
            };
            let answer = self.store.retry(self.policy, release).await?;
            seen = match answer.value {
                Write::Applied(item) => return Ok(Ended::HandedOff(item)),
                Write::ConditionFailed(item) => item,
            };
            let still = still_held(seen.as_ref(), attempt, held.footing.ticket);
            act = match still.filter(|still| !stands_as(still, &held)) {
                Some(still) => {
                    held = still;
                    place.gave_back(false, Found::Holds)
                }
                None => place.gave_back(false, Found::Nowhere),
            };
        }
        let ticket = held.footing.ticket;
        let is_broken = |item: &LockItem| item.broken.as_ref().is_some_and(|it| it.is_for(ticket));
        let is_gone = still_held(seen.as_ref(), attempt, ticket).is_none()
            && !seen.as_ref().is_some_and(is_broken);
        let may_be_ours =
            unanswered.load(Ordering::Relaxed) && !self.policy.is_over(self.store.now());
        Ok(match is_gone && may_be_ours {
            true => Ended::ReleasedEarlier(seen),
            false => Ended::NotOurs(seen),
        })
    }

    /// Keeps some permits of a hold. Returns the item as `Ok` if it shows that the hold is still ours, and as `Err` otherwise.
    pub(crate) async fn downgrade(
        &self,
        attempt: &Attempt,
        (mut held, keeps): (ItemHold, u64),
    ) -> Result<Result<LockItem, Option<LockItem>>, Failure> {
        let mut place = Place::holding();
        place.downgrades();
        let downgrade = |held| {
            self.store
                .downgrade(self.name, attempt.nonce, (held, keeps))
        };
        // Each round but the last has seen that the hold stands elsewhere, as a sharer, or has fewer permits.
        let (item, still) = loop {
            let answer = self.store.retry(self.policy, || downgrade(held)).await?;
            let item = answer.value.shown();
            let still = still_held(item.as_ref(), attempt, held.footing.ticket);
            match still.filter(|still| still.permits > keeps && !stands_as(still, &held)) {
                Some(now) => held = now,
                None => break (item, still),
            }
        };
        let found = match still {
            Some(still) if still.permits <= keeps => Found::Holds,
            _ => Found::Nowhere,
        };
        Ok(match (place.downgraded(found), item) {
            (Act::Hold, Some(item)) => Ok(item),
            (_, item) => Err(item),
        })
    }

    /// Writes data, or removes it. Returns the item that shows it as `Ok`. If the hold is not exclusive and ours, returns the
    /// item that stood in the way as `Err`.
    pub(crate) async fn write_data(
        &self,
        attempt: &Attempt,
        footing: Footing,
        (write, turns_left): (Written, u64),
        bytes: Option<&[u8]>,
    ) -> Result<Result<LockItem, Option<LockItem>>, Failure> {
        let place = (attempt.nonce, footing);
        let put = || {
            self.store
                .write_data(self.name, place, (write, turns_left), bytes)
        };
        let answer = self.store.retry(self.policy, put).await?;
        let item = answer.value.shown();
        // A refusal may be due to this write itself, whose answer was lost, or to a later write of the same hold.
        let is_written = |item: &LockItem| item.written.is_some_and(|written| write <= written);
        let is_held = |item: &LockItem| still_held(Some(item), attempt, footing.ticket).is_some();
        Ok(match item {
            Some(item) if is_written(&item) && is_held(&item) => Ok(item),
            item => Err(item),
        })
    }

    /// A refusal that shows our nonce is a success whose answer was lost. The lease counts from before the first sending,
    /// whichever attempt was applied.
    fn recognise(
        &self,
        answer: Timed<Write<LockItem>>,
        attempt: &Attempt,
        first_sent: Moment,
    ) -> Asked {
        let (Write::Applied(item) | Write::ConditionFailed(Some(item))) = answer.value else {
            return Asked::InTheWay(None);
        };
        let ticket = match item.position_of(attempt.nonce) {
            Some(ItemPosition::Has(_, entry) | ItemPosition::Successor(_, entry)) => entry.ticket,
            None => return Asked::InTheWay(Some(item)),
        };
        let answer = Timed {
            value: item,
            sent: answer.sent,
            arrived: answer.arrived,
            date: answer.date,
        };
        Asked::Taken(Taken {
            ticket,
            beats: RenewalHistory::taken(first_sent, self.store.config().lease)
                .with_margin(attempt.margin()),
            answer,
        })
    }
}

/// Whether a write that names one of these holds is about the other too.
fn stands_as(one: &ItemHold, other: &ItemHold) -> bool {
    (one.footing.at, one.permits) == (other.footing.at, other.permits)
}

/// The hold that an item shows for an attempt with this ticket, if it shows one.
fn still_held(item: Option<&LockItem>, attempt: &Attempt, ticket: Ticket) -> Option<ItemHold> {
    let (at, entry) = item?.hold_of(attempt.nonce, ticket)?;
    Some(ItemHold::of(item?, at, entry))
}
