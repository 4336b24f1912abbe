//! A timely waiter in the queue is granted before any later ticket that could not hold the lock beside it. No other host has a ticket of
//! its place.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Events;
use super::timely::{Place, Queues, walk};
use crate::history::Event;
use crate::plan::Plan;

/// The granted tickets, by lock.
type Granted<'a> = BTreeSet<(&'a str, u64)>;

pub(super) fn check(plan: &Plan, events: &Events) -> Result<(), String> {
    let mut granted = Granted::new();
    walk(plan, events, |queues, at, event| {
        let Event::Granted {
            host,
            lock,
            ticket,
            share,
            ..
        } = event
        else {
            return Ok(());
        };
        let most = queues.permits.of(lock, *share);
        let is_passed = |place: &&Place| match place.has(*ticket) {
            true => place.host != *host,
            false => place.ticket < *ticket && place.excludes(*share, most),
        };
        let waiting =
            in_queue(queues, lock, at).filter(|place| !granted.contains(&(lock, place.ticket)));
        let mut waiting = waiting;
        let passed = waiting.find(is_passed);
        let told = passed.map_or(Ok(()), |place| {
            let (other, first, last) = (place.host, place.first, place.ticket);
            Err(format!(
                "{at:?}: {ticket} has {lock} before {first} to {last} of host {other}"
            ))
        });
        granted.insert((lock, *ticket));
        told
    })
}

/// How often a timely waiter was in the queue while an earlier ticket was granted. If that never happened, the oracle checked nothing.
pub(crate) fn compared(plan: &Plan, events: &Events) -> u64 {
    let mut compared = 0;
    let counted = walk(plan, events, |queues, at, event| {
        if let Event::Granted {
            lock,
            ticket,
            share,
            ..
        } = event
        {
            let most = queues.permits.of(lock, *share);
            let later = in_queue(queues, lock, at)
                .filter(|place| *ticket < place.first && place.excludes(*share, most));
            compared += later.count() as u64;
        }
        Ok(())
    });
    counted.map_or(0, |()| compared)
}

fn in_queue<'a>(
    queues: &'a Queues<'_>,
    lock: &'a str,
    at: Duration,
) -> impl Iterator<Item = &'a Place> {
    queues.timely(lock, at).filter(|place| place.in_queue)
}
