//! A row behind the slots goes forward: its beat grows until it is void, and it stays so.
//!
//! A ticket that others take for settled, or that has left, does not come back to wait; nor does a late copy of a
//! request take a renewal away. Rows up to `watermark` are settled_rows, of which nothing is claimed.

use std::collections::BTreeMap;

use super::Events;
use crate::history::Event;

pub(super) fn check(events: &Events) -> Result<(), String> {
    // The states of each row, further and further on, and when an answer showed them.
    let mut known: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (at, event) in events {
        let Event::Exchanged(exchange) = event else {
            continue;
        };
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
                states.push((*at, row.state));
            }
        }
    }
    Ok(())
}
