//! No other client makes the row of a timely waiter void, or closes a gap among the tickets that were drawn together with it.
//!
//! A row is void in a snapshot, although neither it nor any row behind it was given a slot. If the row was answered as joined or renewed
//! before that snapshot was requested, it was made void in between. A gap may be closed only while there is no row. A row may be made void
//! only by a beat that was observed unchanged for a lease.

use super::Events;
use super::timely::{Place, walk};
use crate::history::Event;
use crate::plan::Plan;
use crate::shown::State;

pub(super) fn check(plan: &Plan, events: &Events) -> Result<(), String> {
    walk(plan, events, |queues, at, event| {
        let Event::Exchanged(poll) = event else {
            return Ok(());
        };
        let voided = |place: &Place| {
            let void = poll.behind_the_slots();
            let mut void = void.filter(|row| row.state == State::Void);
            void.find(|row| place.has(row.ticket)).map(|row| row.ticket)
        };
        let mut waiters = queues.timely(&poll.lock, at);
        let voided = waiters.find_map(|place| {
            let is_row = place.row.is_some_and(|since| since <= poll.sent);
            Some((place.host, voided(place).filter(|_| is_row)?))
        });
        voided.map_or(Ok(()), |(host, ticket)| {
            let lock = &poll.lock;
            Err(format!("{at:?}: {ticket} of host {host} is void on {lock}"))
        })
    })
}
