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
        let Event::Granted(it) = event else {
            return Ok(());
        };
        let most = queues.permits.of(&it.lock, it.share);
        let is_passed = |place: &&Place| match place.has(it.ticket) {
            true => place.host != it.host,
            false => place.ticket < it.ticket && place.excludes(it.share, most),
        };
        let waiting = in_queue(queues, &it.lock, at);
        let mut waiting =
            waiting.filter(|place| !granted.contains(&(it.lock.as_str(), place.ticket)));
        let passed = waiting.find(is_passed);
        let told = passed.map_or(Ok(()), |place| {
            let (other, first, last) = (place.host, place.first, place.ticket);
            Err(format!(
                "{at:?}: {it:?} before {first} to {last} of host {other}"
            ))
        });
        granted.insert((&it.lock, it.ticket));
        told
    })
}

/// How often a timely waiter was in the queue while an earlier ticket was granted. If that never happened, the oracle checked nothing.
pub(crate) fn compared(plan: &Plan, events: &Events) -> u64 {
    let mut compared = 0;
    let counted = walk(plan, events, |queues, at, event| {
        if let Event::Granted(it) = event {
            let most = queues.permits.of(&it.lock, it.share);
            let is_later =
                |place: &&Place| it.ticket < place.first && place.excludes(it.share, most);
            compared += in_queue(queues, &it.lock, at).filter(is_later).count() as u64;
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
