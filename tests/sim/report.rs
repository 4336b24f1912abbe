//! What happened in runs, and how often: in one, and in many seeds together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use crate::batches::{self, FATES};
use crate::faults::KINDS;
use crate::history::{End, Event};
use crate::operator;
use crate::oracles::{asked, bounds, newest, passed};
use crate::rare::{self, Rare};
use crate::run::Run;

/// Faults of hosts and tables.
const HOST_FAULTS: [&str; 15] = [
    "cut off",
    "refused",
    "frozen",
    "renewal lost",
    "heard late",
    "crash",
    "address taken over",
    "given up by another",
    "TTL",
    "wall clock stepped",
    "wrong date",
    "swept",
    "wait dropped",
    "outage given up",
    "part released",
];

/// What happened, and how often. It names what did not happen, too.
pub(crate) type Happened = BTreeMap<&'static str, u64>;

/// Events that count as they are.
const COUNTED: [&str; 7] = [
    "turn",
    "data found",
    "lease extended",
    "stamps replaced",
    "write with a check applied",
    "hold lost",
    "stale write refused",
];

fn counted(event: &Event) -> Option<&'static str> {
    match event {
        Event::Granted(_) => Some("turn"),
        Event::Found { left: Some(_), .. } => Some("data found"),
        Event::Exchanged(exchange) if exchange.verb == "extend" => Some("lease extended"),
        Event::Applied(it) if it.verb == "date" => Some("stamps replaced"),
        Event::Applied(it) if it.token.is_some() => Some("write with a check applied"),
        Event::Ended(_, End::Lost) => Some("hold lost"),
        Event::Wrote {
            accepted: false, ..
        } => Some("stale write refused"),
        _ => None,
    }
}

/// What happened in a run.
fn happened(run: &Run) -> Happened {
    let plan = &run.plan;
    let kinds = KINDS.into_iter().chain(HOST_FAULTS).chain(operator::DONE);
    let kinds = kinds.chain(FATES).chain(COUNTED);
    let mut happened: Happened = kinds.map(|kind| (kind, 0)).collect();
    happened.extend(&run.counts.faults);
    for fate in batches::fates(&run.events) {
        *happened.entry(fate).or_default() += 1;
    }
    for (_, event) in &run.events {
        if let Some(what) = counted(event) {
            *happened.entry(what).or_default() += 1;
        }
    }
    let (events, bounded) = (&run.events, bounds::compared(&run.events));
    let asked = asked::compared(plan, events);
    happened.extend([
        (
            "waiter compared with a grant",
            passed::compared(plan, events),
        ),
        ("calls of one client compared", asked),
        ("several locks had together", batches::together(events)),
        ("hold brought back by a late copy", newest::revived(events)),
        ("notification", run.notifications),
        ("hold ended by its longest time", bounded.ends),
        ("hold kept for its shortest time", bounded.shortest),
        ("margin after a loss", bounded.margins),
    ]);
    happened
}

#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<Figures>);

#[derive(Debug, Default)]
struct Figures {
    seeds: u64,
    tame: u64,
    requests: u64,
    virtual_time: Duration,
    happened: Happened,
}

impl Report {
    pub(crate) fn add(&self, run: &Run) {
        let happened = happened(run);
        let mut figures = self.0.lock().unwrap();
        figures.seeds += 1;
        figures.tame += u64::from(run.counts.faults.len() < 3);
        figures.requests += run.counts.requests;
        figures.virtual_time += run.events.last().map_or(Duration::ZERO, |(at, _)| *at);
        for (what, times) in happened {
            *figures.happened.entry(what).or_default() += times;
        }
    }

    /// Whether more than one seed in a hundred met fewer than three kinds of faults. A single seed may, by chance.
    pub(crate) fn is_tame(&self) -> bool {
        let figures = self.0.lock().unwrap();
        figures.tame > 1 + figures.seeds / 100
    }

    /// What did not happen, though every four hundred seeds bring it about. What is rare has plans of its own.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let rare = rare::ALL.map(Rare::events).concat();
        let missing = self.never(|what| !rare.contains(&what));
        match self.0.lock().unwrap().seeds {
            0..400 => Vec::new(),
            _ => missing,
        }
    }

    /// Which of these did not happen.
    pub(crate) fn missing_of(&self, all: &[&str]) -> Vec<&'static str> {
        self.never(|what| all.contains(&what))
    }

    fn never(&self, is_one: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let figures = self.0.lock().unwrap();
        let never = figures.happened.iter();
        let never = never.filter(|(what, times)| **times == 0 && is_one(what));
        never.map(|(what, _)| *what).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.0.lock().unwrap();
        let days = figures.virtual_time.as_secs() / 86_400;
        writeln!(
            f,
            "{} seeds, {} of them tame, {} requests, {days} days",
            figures.seeds, figures.tame, figures.requests
        )?;
        let happened: Vec<_> = figures
            .happened
            .iter()
            .map(|(what, n)| format!("{n} {what}"))
            .collect();
        write!(f, "{}", happened.join(" · "))
    }
}
