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
        if let Event::Granted(it) = event
            // A client may learn that it has the lock when that is over, because an operator broke it.
            && !broken.is(&it.lock, it.ticket, *at)
        {
            let (any, alone) = newest.entry(&it.lock).or_default();
            let before = if it.share.is_alone() { *any } else { *alone };
            if before >= it.ticket {
                return Err(format!("{at:?}: {it:?} after {before}"));
            }
            *any = (*any).max(it.ticket);
            if it.share.is_alone() {
                *alone = it.ticket;
            }
        }
    }
    Ok(())
}
