//! The writes that keep a place on the lock item, change it and end it. The nonce identifies it.

use std::sync::Arc;
use std::time::Duration;

use crate::attempt::Attempt;
use crate::name::LockName;
use crate::requests::{Requests, RetryPolicy};
use crate::store::{Store, Timed, Write, all_of, refused};
use fairlock_protocol::agent::LeaseTerm;
use fairlock_protocol::bytes::Bytes;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{At, Footing, ItemHold, LockItem, Written};
use fairlock_protocol::moment::HostTime;
use fairlock_protocol::place::{Act, Found, Place};
use fairlock_protocol::stamps::{self, Reading, Wall};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::LockWrite;

type Answer = Result<Timed<Write<LockItem>>, Failure>;

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

/// Renews a hold or a slot for its owner's `lease`, with its own stamps. Keeps the item for longer if it would go too soon. The answer
/// shows the other participants.
pub(crate) async fn renew(
    store: &Store,
    name: &LockName,
    attempt: &Attempt,
    (footing, lease): (Footing, Duration),
) -> Answer {
    renew_as(store, name, attempt, (footing, lease), |write| write).await
}

/// Renews a hold that was given back once more. It is kept for what it owes, by the watch of each observer or by two clocks, whichever
/// tells first.
pub(crate) async fn keep_on(
    store: &Store,
    name: &LockName,
    attempt: &Attempt,
    (footing, owed): (Footing, Duration),
) -> Answer {
    let give_back = |write: LockWrite| write.given_back(footing.at);
    renew_as(store, name, attempt, (footing, owed), give_back).await
}

async fn renew_as(
    store: &Store,
    name: &LockName,
    attempt: &Attempt,
    (footing, lease): (Footing, Duration),
    finish: impl Fn(LockWrite) -> LockWrite + Send + Sync,
) -> Answer {
    let Footing {
        at,
        ticket,
        expires_at,
    } = footing;
    let keeps = store.keeps_for_longer(expires_at);
    let renew = |beat, stamps| {
        let beat = (beat, attempt.in_table(lease));
        let write = LockWrite::renew(all_of(name), (attempt.nonce, footing), beat, stamps);
        store.write_keeping(name, finish(write), keeps)
    };
    let own = attempt.renewed(store, renew, |item: &LockItem| {
        item.entry_at(at).filter(|own| own.ticket == ticket)
    });
    own.await
}

/// Turns a hold into a lease.
pub(crate) async fn lease_out(
    store: &Store,
    name: &LockName,
    attempt: &Attempt,
    (footing, term): (Footing, &LeaseTerm),
) -> Answer {
    let past = store.past().unwrap_or(term.past);
    let until = (attempt.next_beat(), term.span, past);
    let place = (attempt.nonce, footing);
    let write = LockWrite::lease_out(all_of(name), place, until, Arc::clone(&term.id));
    store.write_keeping(name, write, store.expiry()).await
}

/// Extends a lease to `by` from the answer that shows it, and never shortens it.
pub(crate) async fn extend(
    store: &Store,
    name: &LockName,
    (at, entry): (At, &Entry),
    (by, reading): (Duration, Reading),
) -> Answer {
    // The item has whole milliseconds, and a `Date` has whole seconds. A lease that lasts longer already would end a little earlier if the
    // wall clock's were cut off later.
    let wall = match reading.wall {
        Wall::Shows(HostTime(now)) => {
            let rest = u64::from(now.subsec_nanos() % 1_000_000);
            Wall::Shows(HostTime(now - Duration::from_nanos(rest)))
        }
        Wall::IsNoWitness => Wall::IsNoWitness,
    };
    let extended = stamps::extended((entry.stamps, entry.lease), by, Reading { wall, ..reading });
    let write = LockWrite::extend(all_of(name), (at, entry), extended);
    store.write_keeping(name, write, store.expiry()).await
}

/// Ends a hold. If no other participant holds the lock, the first successor holds it the moment this applies.
pub(crate) async fn release(
    store: &Store,
    name: &LockName,
    attempt: &Attempt,
    held: ItemHold,
) -> Answer {
    let write = LockWrite::release(all_of(name), attempt.nonce, held, store.stamps().server);
    attempt.note(store.write(name, &write).await)
}

/// Gives the first successors the permits that they wait for: they become sharers. The first of them is in the slot `first`.
pub(crate) async fn admit(
    store: &Store,
    name: &LockName,
    first: usize,
    successors: &[Entry],
) -> Answer {
    let Some(write) = LockWrite::admit(all_of(name), first, successors) else {
        return Err(refused("admit", "nobody was found to be admitted"));
    };
    store.write(name, &write).await
}

/// The writes of the owner of a hold, each tried again for as long as a policy says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldWriter<'a> {
    pub(crate) requests: &'a Requests,
    pub(crate) name: &'a LockName,
    pub(crate) policy: &'a RetryPolicy,
}

impl HoldWriter<'_> {
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
        let mut may_be_applied = false;
        let mut place = Place::holding();
        let mut act = place.leaves(true);
        let mut seen = None;
        while act == Act::Release {
            let release = || release(&self.requests.store, self.name, attempt, held);
            let (answer, is_in_doubt) = self.requests.retry_in_doubt(self.policy, release).await?;
            may_be_applied |= is_in_doubt;
            seen = match answer.value {
                Write::Applied(item) => return Ok(Ended::HandedOff(item)),
                Write::ConditionFailed(item) => item,
            };
            let still = still_held(seen.as_ref(), attempt, held.footing.ticket);
            act = match still.filter(|still| !still.stands_as(&held)) {
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
        let has_time = !self.policy.is_over(self.requests.store.now());
        Ok(match is_gone && may_be_applied && has_time {
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
        let downgrade = async |held| {
            let write = LockWrite::downgrade(all_of(self.name), attempt.nonce, held, keeps);
            self.requests.store.write(self.name, &write).await
        };
        // Each round but the last has seen that the hold stands elsewhere, as a sharer, or has fewer permits.
        let (item, still) = loop {
            let answer = self.requests.retry(self.policy, || downgrade(held)).await?;
            let item = answer.value.shown();
            let still = still_held(item.as_ref(), attempt, held.footing.ticket);
            match still.filter(|still| still.permits > keeps && !still.stands_as(&held)) {
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
        let turn = (write, turns_left);
        let write = LockWrite::data(all_of(self.name), place, turn, bytes.map(Bytes::from));
        let put = || self.requests.store.write(self.name, &write);
        let answer = self.requests.retry(self.policy, put).await?;
        let item = answer.value.shown();
        // A refusal may be due to this write itself, whose answer was lost, or to a later write of the same hold.
        let is_written = |item: &LockItem| item.written.is_some_and(|written| turn.0 <= written);
        let is_held = |item: &LockItem| still_held(Some(item), attempt, footing.ticket).is_some();
        Ok(match item {
            Some(item) if is_written(&item) && is_held(&item) => Ok(item),
            item => Err(item),
        })
    }
}

/// The hold that an item shows for an attempt with this ticket, if it shows one.
fn still_held(item: Option<&LockItem>, attempt: &Attempt, ticket: Ticket) -> Option<ItemHold> {
    let (at, entry) = item?.hold_of(attempt.nonce, ticket)?;
    Some(ItemHold::of(item?, at, entry))
}
