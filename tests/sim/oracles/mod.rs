//! What must hold of every history, each promise by itself.

mod exclusion;
mod fencing;
mod left;
mod line;
mod order;
pub(crate) mod passed;

use std::time::Duration;

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
        ("nobody timely passed", passed::check(plan, events)),
        ("the line in order", line::check(events)),
        ("who left is gone", left::check(events)),
        (
            "progress",
            said(events, |event| matches!(event, Event::Stuck(_))),
        ),
        (
            "nothing left",
            said(events, |event| matches!(event, Event::Left(_))),
        ),
        (
            "no surprise",
            said(events, |event| matches!(event, Event::Surprise(_))),
        ),
    ];
    let broken = told.into_iter().filter_map(|(oracle, what)| {
        let what = what.err()?;
        Some(Violation { oracle, what })
    });
    broken.collect()
}

/// What the run itself found.
fn said(events: &Events, is_wrong: fn(&Event) -> bool) -> Result<(), String> {
    match events.iter().find(|(_, event)| is_wrong(event)) {
        Some((at, event)) => Err(format!("{at:?}: {event:?}")),
        None => Ok(()),
    }
}
