//! The figures of many seeds together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use crate::batches::{self, FATES};
use crate::faults::KINDS;
use crate::history::{End, Event};
use crate::operator;
use crate::oracles::bounds::Compared;
use crate::oracles::{asked, bounds, newest, passed};
use crate::plan::Plan;
use crate::run::Run;

/// Faults of hosts and tables.
const HOST_FAULTS: [&str; 14] = [
    "cut off",
    "refused",
    "frozen",
    "renewal lost",
    "heard late",
    "crash",
    "address taken over",
    "given up by another",
    "TTL",
    "swept",
    "wait dropped",
    "outage given up",
    "part released",
    "part dropped",
];

#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<Figures>);

#[derive(Clone, Debug, Default)]
struct Figures {
    seeds: u64,
    tame: u64,
    requests: u64,
    turns: u64,
    lost: u64,
    refused_writes: u64,
    compared: u64,
    in_order: u64,
    extended: u64,
    found: u64,
    checked: u64,
    together: u64,
    revived: u64,
    notifications: u64,
    virtual_time: Duration,
    faults: BTreeMap<&'static str, u64>,
    fates: BTreeMap<&'static str, u64>,
    bounded: Compared,
}

/// What happens in every thousand seeds, and perhaps not in four hundred.
const RARE: [&str; 1] = ["deleted"];

impl Report {
    pub(crate) fn add(&self, seed: u64, run: &Run) {
        let plan = Plan::of(seed);
        let mut figures = self.0.lock().unwrap();
        figures.seeds += 1;
        figures.tame += u64::from(run.counts.faults.len() < 3);
        figures.requests += run.counts.requests;
        figures.notifications += run.notifications;
        figures.compared += passed::compared(&plan, &run.events);
        figures.revived += newest::revived(&run.events);
        figures.bounded += bounds::compared(&run.events);
        figures.together += batches::together(&run.events);
        figures.in_order += asked::compared(&plan, &run.events);
        for fate in batches::fates(&run.events) {
            *figures.fates.entry(fate).or_default() += 1;
        }
        figures.virtual_time += run.events.last().map_or(Duration::ZERO, |(at, _)| *at);
        for (_, event) in &run.events {
            match event {
                Event::Granted { .. } => figures.turns += 1,
                Event::Found { left: Some(_), .. } => figures.found += 1,
                Event::Exchanged(exchange) if exchange.verb == "extend" => figures.extended += 1,
                Event::Applied(applied) if applied.token.is_some() => figures.checked += 1,
                Event::Ended { how: End::Lost, .. } => figures.lost += 1,
                Event::Wrote {
                    accepted: false, ..
                } => figures.refused_writes += 1,
                _ => {}
            }
        }
        for (kind, times) in &run.counts.faults {
            *figures.faults.entry(kind).or_default() += times;
        }
    }

    /// Whether more than one seed in a hundred met fewer than three kinds of faults. A single seed may, by chance.
    pub(crate) fn is_tame(&self) -> bool {
        let figures = self.0.lock().unwrap();
        figures.tame > 1 + figures.seeds / 100
    }

    /// What should happen in every four hundred seeds, and did not.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let figures = self.0.lock().unwrap();
        if figures.seeds < 400 {
            return Vec::new();
        }
        let counted = [
            ("a timely waiter compared with a grant", figures.compared),
            ("two calls of one client compared", figures.in_order),
            ("a lease extended", figures.extended),
            ("data found", figures.found),
            ("a write with a check applied", figures.checked),
            ("several locks had together", figures.together),
            ("a hold brought back by a late copy", figures.revived),
            ("a notification", figures.notifications),
            ("a hold ended by its longest time", figures.bounded.ends),
            (
                "a hold kept for its shortest time",
                figures.bounded.shortest,
            ),
            ("a grace after a loss", figures.bounded.graces),
            ("a hold lost", figures.lost),
            ("a stale write refused", figures.refused_writes),
        ];
        let counted = counted.into_iter().filter(|(_, count)| *count == 0);
        let kinds = KINDS.into_iter().chain(HOST_FAULTS).chain(operator::DONE);
        let is_expected = |kind: &&str| figures.seeds >= 1_000 || !RARE.contains(kind);
        let kinds = kinds.filter(|kind| is_expected(kind) && !figures.faults.contains_key(kind));
        let fates = FATES
            .into_iter()
            .filter(|fate| !figures.fates.contains_key(fate));
        let counted = counted.map(|(what, _)| what);
        counted.chain(kinds).chain(fates).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.0.lock().unwrap();
        writeln!(
            f,
            "{} seeds, {} requests, {} turns ({} lost), {} stale writes refused, {} waiters compared, {} calls compared, {} leases extended, data found {} times, {} writes with a check, {} times several locks, {} holds brought back, {} ended by their longest time, {} kept for their shortest, {} graces, {} days",
            figures.seeds,
            figures.requests,
            figures.turns,
            figures.lost,
            figures.refused_writes,
            figures.compared,
            figures.in_order,
            figures.extended,
            figures.found,
            figures.checked,
            figures.together,
            figures.revived,
            figures.bounded.ends,
            figures.bounded.shortest,
            figures.bounded.graces,
            figures.virtual_time.as_secs() / 86_400,
        )?;
        let faults = figures.fates.iter().chain(&figures.faults);
        let faults: Vec<_> = faults.map(|(kind, n)| format!("{n} {kind}")).collect();
        write!(f, "{}", faults.join(" · "))
    }
}
