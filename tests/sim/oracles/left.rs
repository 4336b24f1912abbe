//! Once the answer says that leaving was applied, no snapshot that is requested afterwards shows the ticket on the lock item.

use std::collections::BTreeMap;

use super::broken::Broken;
use super::{Events, exchanges};
use crate::exchange::Answer;

pub(super) fn check(events: &Events) -> Result<(), String> {
    let broken = Broken::of(events);
    let mut left = BTreeMap::new();
    for (at, exchange) in exchanges(events) {
        let lock = exchange.lock.as_str();
        if let (Some(ticket), "leave", Answer::Ok) =
            (exchange.ticket, exchange.verb, exchange.answer)
        {
            // A waiter that an operator breaks may have its slot by its own client, until that has seen the break.
            if !broken.is(lock, ticket, at) {
                left.entry((lock, ticket)).or_insert(at);
            }
        }
        let mut places = exchange.shown.iter().flat_map(|shown| shown.places());
        let is_back = |ticket| {
            left.get(&(lock, ticket))
                .is_some_and(|gone| *gone <= exchange.sent)
        };
        if let Some(back) = places.find(|place| is_back(place.ticket)) {
            return Err(format!("{at:?}: {} has a place on {lock}", back.ticket));
        }
    }
    Ok(())
}
