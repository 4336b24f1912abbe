//! What must hold for every history, one promise at a time.

pub(crate) mod asked;
pub(crate) mod bounds;
mod broken;
mod data;
mod ended;
mod exclusion;
mod fencing;
mod left;
pub(crate) mod newest;
mod order;
pub(crate) mod passed;
mod queue;
mod rows;
mod slots;
mod timely;
mod voided;

use std::fmt;
use std::time::Duration;

use crate::exchange::Exchange;
use crate::history::Event;
use crate::plan::Plan;

pub(crate) type Events = [(Duration, Event)];

/// A promise that a history breaks.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) oracle: &'static str,
    pub(crate) what: String,
}

/// The first violation of each promise.
pub(crate) fn judge(plan: &Plan, events: &Events) -> Vec<Violation> {
    let told = [
        ("exclusion", exclusion::check(events)),
        ("fencing", fencing::check(events)),
        ("ticket order", order::check(events)),
        ("turns as asked", asked::check(plan, events)),
        ("calls end in time", ended::check(events)),
        ("data in order", data::check(events)),
        ("nobody timely passed", passed::check(plan, events)),
        ("nobody timely voided", voided::check(plan, events)),
        ("rows go forward", rows::check(events)),
        ("the queue in order", queue::check(events)),
        ("a slot for the asking", slots::check(plan, events)),
        ("who left is gone", left::check(events)),
        ("one hold a nonce", newest::check(events)),
        ("holds end in time", bounds::longest(events)),
        ("short holds last", bounds::shortest(plan, events)),
        ("a margin after a loss", bounds::margin(events)),
        ("told what was done", broken::told(events)),
        ("progress", said(events, "progress")),
        ("nothing left", said(events, "nothing left")),
        ("past the dead", said(events, "past the dead")),
        ("no surprise", said(events, "no surprise")),
    ];
    let broken = told.into_iter().filter_map(|(oracle, what)| {
        let what = what.err()?;
        Some(Violation { oracle, what })
    });
    broken.collect()
}

/// All requests, each with when it was answered.
pub(crate) fn exchanges(events: &Events) -> impl Iterator<Item = (Duration, &Exchange)> {
    events.iter().filter_map(|(at, event)| match event {
        Event::Exchanged(exchange) => Some((*at, &**exchange)),
        _ => None,
    })
}

/// Violations of this promise that the run itself found.
fn said(events: &Events, promise: &str) -> Result<(), String> {
    let wrong = events.iter().find_map(|(at, event)| {
        let (broken, what) = event.violation()?;
        (broken == promise).then(|| format!("{at:?}: {what}"))
    });
    wrong.map_or(Ok(()), Err)
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.what)
    }
}
