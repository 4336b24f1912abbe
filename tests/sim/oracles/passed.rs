//! Whoever is in line and timely is granted before any later ticket, and nobody else has a ticket of its place.

use std::time::Duration;

use super::Events;
use super::timely::{Lines, Place, walk};
use crate::history::Event;
use crate::plan::Plan;

pub(super) fn check(plan: &Plan, events: &Events) -> Result<(), String> {
    walk(plan, events, |lines, at, event| {
        let Event::Granted {
            host, lock, ticket, ..
        } = event
        else {
            return Ok(());
        };
        let is_passed = |place: &&Place| match place.has(*ticket) {
            true => place.host != *host,
            false => place.ticket < *ticket,
        };
        let passed = in_line(lines, lock, at).find(is_passed);
        passed.map_or(Ok(()), |place| {
            let (other, first, last) = (place.host, place.first, place.ticket);
            Err(format!(
                "{at:?}: {ticket} has {lock} before {first} to {last} of host {other}"
            ))
        })
    })
}

/// How often a waiter was in line, timely, while somebody before it was granted: never, and the oracle saw nothing.
pub(crate) fn compared(plan: &Plan, events: &Events) -> u64 {
    let mut compared = 0;
    let counted = walk(plan, events, |lines, at, event| {
        if let Event::Granted { lock, ticket, .. } = event {
            let later = in_line(lines, lock, at).filter(|place| *ticket < place.first);
            compared += later.count() as u64;
        }
        Ok(())
    });
    counted.map_or(0, |()| compared)
}

fn in_line<'a>(
    lines: &'a Lines<'_>,
    lock: &'a str,
    at: Duration,
) -> impl Iterator<Item = &'a Place> {
    lines.timely(lock, at).filter(|place| place.in_line)
}
