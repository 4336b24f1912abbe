//! Grants of one lock are in ticket order, also when its item was deleted in between. Those who have it at the same time
//! may be told so in any order; who has it alone comes after all before it, and before all after it.

use std::collections::BTreeMap;

use super::Events;
use crate::history::Event;

pub(super) fn check(events: &Events) -> Result<(), String> {
    // The newest of all, and of those who had it alone.
    let mut newest: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (at, event) in events {
        if let Event::Granted {
            lock,
            ticket,
            share,
            ..
        } = event
        {
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
