//! Nobody else makes the row of a timely waiter void, nor closes a gap among the tickets that were drawn with its own.
//!
//! Its row was answered as joined or renewed before a look was sent that shows it void, though no slot was given to it
//! or to anybody behind it: then it was made void since. A gap may be closed as long as there is no row; a row, by the
//! beat that was seen to stand still for a lease.

use super::Events;
use super::timely::{Place, walk};
use crate::history::Event;
use crate::plan::Plan;
use crate::shown::State;

pub(super) fn check(plan: &Plan, events: &Events) -> Result<(), String> {
    walk(plan, events, |queues, at, event| {
        let Event::Exchanged(look) = event else {
            return Ok(());
        };
        let voided = |place: &Place| {
            let void = look.behind_the_slots();
            let mut void = void.filter(|row| row.state == State::Void);
            void.find(|row| place.has(row.ticket)).map(|row| row.ticket)
        };
        let mut waiters = queues.timely(&look.lock, at);
        let voided = waiters.find_map(|place| {
            let is_row = place.row.is_some_and(|since| since <= look.sent);
            Some((place.host, voided(place).filter(|_| is_row)?))
        });
        voided.map_or(Ok(()), |(host, ticket)| {
            let lock = &look.lock;
            Err(format!("{at:?}: {ticket} of host {host} is void on {lock}"))
        })
    })
}
