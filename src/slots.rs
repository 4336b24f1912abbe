//! The lock item: entrance for a slot, handing over, and giving a slot up, each known by its nonce.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::name::LockName;
use crate::store::{Attempt, Failure, RetryPolicy, Store, Timed, Wish, Write};
use fairlock_protocol::item::{Footing, Held, LockItem, Spot, Written};
use fairlock_protocol::lease::RenewalHistory;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::place::{Act, Found, Place};
use fairlock_protocol::ticket::{Sequence, Ticket};

/// A place on the lock item.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) ticket: Ticket,
    pub(crate) beats: RenewalHistory,
    /// The lock item that shows the place.
    pub(crate) answer: Timed<LockItem>,
}

/// What came of entrance for a place.
#[derive(Debug)]
pub(crate) enum Asked {
    Taken(Taken),
    /// The item that stood in the way; none if there was none.
    Busy(Option<LockItem>),
}

/// What came of ending a hold.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Whoever comes next has it; the item shows who.
    HandedOver(LockItem),
    /// The next at the same place has it; nothing was sent.
    PassedOn,
    /// An earlier attempt of this release was applied though its answer was lost; the item as it is since.
    Before(Option<LockItem>),
    /// It was no longer ours.
    NotOurs(Option<LockItem>),
}

/// One caller's dealings with one lock item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots<'a> {
    pub(crate) store: &'a Store,
    pub(crate) name: &'a LockName,
    pub(crate) policy: &'a RetryPolicy,
}

impl Slots<'_> {
    /// Draws tickets, and takes the slot behind all others: the lock, if that is the first.
    pub(crate) async fn enter(&self, attempt: &Attempt, wish: Wish) -> Result<Asked, Failure> {
        let first_sent = self.store.now();
        let enter = || self.store.enter(self.name, attempt, wish);
        let answer = self.store.retry(self.policy, enter).await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Takes permits that are left, if nobody waits for any, beside one who has so many at the most.
    pub(crate) async fn share(&self, attempt: &Attempt, first: u64) -> Result<Asked, Failure> {
        let first_sent = self.store.now();
        let share = || self.store.share(self.name, attempt, first);
        let answer = self.store.retry(self.policy, share).await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Takes a free lock whose every ticket up to `seen.last` is settled.
    pub(crate) async fn enter_over(
        &self,
        attempt: &Attempt,
        seen: &LockItem,
    ) -> Result<Asked, Failure> {
        let Some(ticket) = seen.last.after(attempt.tickets) else {
            return Ok(Asked::Busy(Some(seen.clone())));
        };
        let first_sent = self.store.now();
        let enter = || self.store.enter_over(self.name, attempt, seen, ticket);
        let answer = self.store.retry(self.policy, enter).await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Ends a hold. Refused means released when an earlier attempt had no answer, for the caller's lease, within
    /// which its policy lies, lets nobody else end it. One that has another number of permits than was thought asks again: each turn of the
    /// loop needs a downgrade.
    pub(crate) async fn release(
        &self,
        attempt: &Attempt,
        mut held: Held,
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
                Write::Applied(item) => return Ok(Ended::HandedOver(item)),
                Write::Refused(item) => item,
            };
            let still = still_held(seen.as_ref(), attempt, held.footing.ticket);
            act = match still.filter(|still| still.permits != held.permits) {
                Some(still) => {
                    held = still;
                    place.gave_back(false, Found::Holds)
                }
                None => place.gave_back(false, Found::Nowhere),
            };
        }
        let is_gone = still_held(seen.as_ref(), attempt, held.footing.ticket).is_none();
        let may_be_ours =
            unanswered.load(Ordering::Relaxed) && !self.policy.is_over(self.store.now());
        Ok(match is_gone && may_be_ours {
            true => Ended::Before(seen),
            false => Ended::NotOurs(seen),
        })
    }

    /// Keeps one permit of a hold. Whether it is still ours, with the item that shows it.
    pub(crate) async fn downgrade(
        &self,
        attempt: &Attempt,
        held: Held,
    ) -> Result<Result<LockItem, Option<LockItem>>, Failure> {
        let mut place = Place::holding();
        place.downgrades();
        let downgrade = || self.store.downgrade(self.name, attempt.nonce, held);
        let answer = self.store.retry(self.policy, downgrade).await?;
        let item = answer.value.shown();
        let still = still_held(item.as_ref(), attempt, held.footing.ticket);
        let found = match still {
            Some(Held { permits: 1, .. }) => Found::Holds,
            _ => Found::Nowhere,
        };
        Ok(match (place.downgraded(found), item) {
            (Act::Hold, Some(item)) => Ok(item),
            (_, item) => Err(item),
        })
    }

    /// Writes data, or removes it. The item that shows it, or if the lock is not ours alone, the one that stood in the way.
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
        // Refused by this write itself, whose answer was lost, or by a later one of the same hold.
        let is_written = |item: &LockItem| item.written.is_some_and(|written| write <= written);
        let is_held = |item: &LockItem| still_held(Some(item), attempt, footing.ticket).is_some();
        Ok(match item {
            Some(item) if is_written(&item) && is_held(&item) => Ok(item),
            item => Err(item),
        })
    }

    /// A refusal that shows our nonce is a success whose answer was lost. The lease counts from before the first
    /// sending, whichever attempt it was that applied.
    fn recognise(
        &self,
        answer: Timed<Write<LockItem>>,
        attempt: &Attempt,
        first_sent: Moment,
    ) -> Asked {
        let (Write::Applied(item) | Write::Refused(Some(item))) = answer.value else {
            return Asked::Busy(None);
        };
        let ticket = match item.position_of(attempt.nonce) {
            Some(Spot::Has(_, entry) | Spot::Successor(_, entry)) => entry.ticket,
            None => return Asked::Busy(Some(item)),
        };
        let answer = Timed {
            value: item,
            sent: answer.sent,
            arrived: answer.arrived,
            date: answer.date,
        };
        Asked::Taken(Taken {
            ticket,
            beats: RenewalHistory::taken(first_sent, self.store.config().lease),
            answer,
        })
    }
}

/// How an item shows that an attempt has the lock with this ticket.
fn still_held(item: Option<&LockItem>, attempt: &Attempt, ticket: Ticket) -> Option<Held> {
    let (at, entry) = item?.hold_of(attempt.nonce, ticket)?;
    Some(Held::of(item?, at, entry))
}
