//! The holder of a lock, as callers are told of it, and as transactions check it: whether it is of this process, and the errors and losses that
//! name it.

use std::collections::{BTreeMap, btree_map};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::vocabulary::error::{Error, Holder, LossReason};
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::system_time;
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::{ItemHold, LockItem, Notice};
use fairlock_protocol::ticket::Ticket;

/// The places at which guards of this process hold locks, so that an error can say that a lock is not re-entrant.
/// Counted, because seeded nonces repeat from test to test.
static HELD: Mutex<BTreeMap<(Nonce, Ticket), usize>> = Mutex::new(BTreeMap::new());

/// This process holds a lock at a place, until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldHere((Nonce, Ticket));

impl HeldHere {
    pub(crate) fn at(place: (Nonce, Ticket)) -> Self {
        *held().entry(place).or_default() += 1;
        HeldHere(place)
    }
}

impl Drop for HeldHere {
    fn drop(&mut self) {
        if let btree_map::Entry::Occupied(mut count) = held().entry(self.0) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Whether a guard of this process holds a lock at this place.
fn is_held_here(holder: &Entry) -> bool {
    held().contains_key(&(holder.nonce, holder.ticket))
}

/// The holder that has held the lock for longest, as a caller is told of it.
pub(crate) fn shown(item: &LockItem) -> Option<Holder> {
    item.first_holder().map(|holder| Holder {
        is_this_process: is_held_here(holder),
        is_shared: holder.permits != item.permits,
        owner: holder.owner.clone(),
        ticket: holder.first(),
        lease_id: holder.id.clone(),
        kept_until: holder.kept_until().map(system_time),
    })
}

/// The error of a call that was not granted the lock: another caller holds it, as far as the item that was seen last shows.
pub(crate) fn not_granted(
    name: &LockName,
    item: Option<&LockItem>,
    position: Option<usize>,
    waited: Duration,
) -> Error {
    Error::NotGranted {
        lock: name.to_string(),
        holder: item.and_then(shown).map(Box::new),
        since: item.and_then(LockItem::held_since).map(system_time),
        position,
        untaken: false,
        waited,
    }
}

/// The error of a call whose grant was given back, because the call was not polled in time.
pub(crate) fn untaken(name: &LockName, waited: Duration) -> Error {
    Error::NotGranted {
        lock: name.to_string(),
        holder: None,
        since: None,
        position: None,
        untaken: true,
        waited,
    }
}

/// Why the hold of a ticket has ended that the item does not show. Without an item, the lock item was deleted.
pub(crate) fn evicted(item: Option<&LockItem>, ticket: Ticket) -> LossReason {
    let Some(item) = item else {
        return LossReason::Deleted;
    };
    match item.broken_for(ticket).map(|broken| &**broken) {
        Some(Notice { by, reason, .. }) => LossReason::Broken {
            by: by.clone(),
            reason: reason.clone(),
        },
        None => LossReason::Evicted { by: shown(item) },
    }
}

fn held() -> MutexGuard<'static, BTreeMap<(Nonce, Ticket), usize>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a transaction that checks a hold asks of the table, and how many turns must be left then. Its caller counts on so many permits, and its
/// place has so many turns with this one.
pub(crate) fn checked(
    name: &LockName,
    held: ItemHold,
    (counted_on, turns): (u64, u64),
) -> (ItemHold, u64) {
    // With a further turn at the place, the table keeps all permits for that turn, and a check of this turn asks for what it counts on.
    let permits = match turns {
        1 => held.permits,
        _ => counted_on.min(held.permits),
    };
    // What is shared has no further turn at its place, once the table shows so.
    let is_shared = Some(permits) != name.permits() && permits == held.permits;
    let turns_left = if is_shared { 1 } else { turns };
    (ItemHold { permits, ..held }, turns_left)
}
