//! Grants of one lock are in ticket order, even if its item was deleted in between. Holders that share it may learn of their grants in any
//! order. An exclusive holder comes after all grants before it, and before all after it.

use std::collections::BTreeMap;

use super::Events;
use super::broken::Broken;
use crate::history::Event;

pub(super) fn check(events: &Events) -> Result<(), String> {
    // The newest ticket of all holders, and of the exclusive ones.
    let mut newest: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let broken = Broken::of(events);
    for (at, event) in events {
        if let Event::Granted {
            lock,
            ticket,
            share,
            ..
        } = event
        {
            // A client may learn that it has the lock when that is over, because an operator broke it.
            if broken.is(lock, *ticket, *at) {
                continue;
            }
            let (any, alone) = newest.entry(lock).or_default();
            let before = if share.is_alone() { *any } else { *alone };
            if before >= *ticket {
                return Err(format!("{at:?}: {ticket} has {lock} after {before}"));
            }
            *any = (*any).max(*ticket);
            if share.is_alone() {
                *alone = *ticket;
            }
        }
    }
    Ok(())
}
