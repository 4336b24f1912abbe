//! A row behind the slots only moves forward: its beat grows until it is void, and then it stays void.
//!
//! A ticket that has left, or that other clients treat as settled, does not wait again. A late copy of a request does not undo a renewal.
//! Rows up to `watermark` are settled, and nothing is claimed about them.

use std::collections::BTreeMap;

use super::{Events, exchanges};

pub(super) fn check(events: &Events) -> Result<(), String> {
    // The states of each row, in ascending order, and when an answer showed each.
    let mut known: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (at, exchange) in exchanges(events) {
        let lock = exchange.lock.as_str();
        for row in exchange.behind_the_slots() {
            let before = known.get(&(lock, row.ticket)).into_iter().flatten();
            let mut before = before.filter(|(shown, _)| *shown <= exchange.sent);
            if let Some((shown, state)) = before.find(|(_, state)| row.state < *state) {
                return Err(format!(
                    "{at:?}: {row:?} on {lock}, which was {state:?} at {shown:?}"
                ));
            }
        }
        for row in &exchange.rows {
            let states = known.entry((lock, row.ticket)).or_default();
            if states.last().is_none_or(|(_, state)| *state < row.state) {
                states.push((at, row.state));
            }
        }
    }
    Ok(())
}
