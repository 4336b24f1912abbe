//! Grants of one lock are in ticket order, also when its item was deleted in between.

use std::collections::BTreeMap;

use super::Events;
use crate::history::Event;

pub(super) fn check(events: &Events) -> Result<(), String> {
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    for (at, event) in events {
        if let Event::Granted { lock, ticket, .. } = event
            && let Some(before) = newest.insert(lock, *ticket)
            && before >= *ticket
        {
            return Err(format!("{at:?}: {ticket} has {lock} after {before}"));
        }
    }
    Ok(())
}
