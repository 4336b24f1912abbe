//! Nobody else makes the row of a timely waiter void.
//!
//! Its row was answered as joined or renewed before a look was sent that shows it void, though no seat was given to it
//! or to anybody behind it: then it was made void since. A gap may be closed as long as there is no row; a row, by the
//! beat that was seen to stand still for a lease.

use super::Events;
use super::timely::walk;
use crate::history::Event;
use crate::plan::Plan;
use crate::shown::State;

pub(super) fn check(plan: &Plan, events: &Events) -> Result<(), String> {
    walk(plan, events, |lines, at, event| {
        let Event::Exchanged(look) = event else {
            return Ok(());
        };
        let is_void = |ticket| {
            let mut behind = look.behind_the_seats();
            behind.any(|row| row.ticket == ticket && row.state == State::Void)
        };
        let mut waiters = lines.timely(&look.lock, at);
        let voided = waiters.find(|place| {
            place.row.is_some_and(|since| since <= look.sent) && is_void(place.ticket)
        });
        voided.map_or(Ok(()), |place| {
            let (ticket, host, lock) = (place.ticket, place.host, &look.lock);
            Err(format!("{at:?}: {ticket} of host {host} is void on {lock}"))
        })
    })
}
