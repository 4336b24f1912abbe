//! Random faults of single requests, and a count of those that happened.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use fairlock::embedded::{Fault, Request, When};
use fastrand::Rng;

/// The longest delay of a request on its way.
pub(crate) const LATEST: Duration = Duration::from_secs(8);
/// The longest time from a request to its duplicate.
pub(crate) const DUPLICATE_WITHIN: Duration = Duration::from_secs(120);

/// To add a fault, add its name here, and its effect to [`fault`].
pub(crate) const KINDS: [&str; 14] = [
    "request lost",
    "answer lost",
    "500, not applied",
    "500, applied",
    "no answer, not applied",
    "no answer, applied",
    "throttled",
    "conflict",
    "answer cut short",
    "duplicate",
    "request lost, and applied later",
    "request late",
    "closed, not applied",
    "closed, applied",
];

fn fault(kind: usize, rng: &mut Rng) -> Fault {
    let after = DUPLICATE_WITHIN.mul_f64(rng.f64().powi(3));
    match kind {
        0 => Fault::Lose(When::Before),
        1 => Fault::Lose(When::After),
        2 => Fault::ServerError(When::Before),
        3 => Fault::ServerError(When::After),
        4 => Fault::Hang(When::Before),
        5 => Fault::Hang(When::After),
        6 => Fault::Throttle,
        7 => Fault::Conflict,
        8 => Fault::CutShort,
        9 => Fault::Duplicate { after },
        10 => Fault::Lose(When::Before).and(Fault::Duplicate { after }),
        11 => Fault::Delay(When::Before, LATEST.mul_f64(rng.f64().powi(2))),
        12 => Fault::Close(When::Before),
        _ => Fault::Close(When::After),
    }
}

/// How often each kind happens to a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates([f64; KINDS.len()]);

impl Rates {
    /// Draws rates: about two thirds of the kinds, each for up to one request in thirty.
    pub(crate) fn draw(rng: &mut Rng) -> Rates {
        Rates(std::array::from_fn(|_| {
            let rate = rng.f64() / 30.0;
            if rng.u8(0..3) == 0 { 0.0 } else { rate }
        }))
    }

    /// Draws the fault of this request. A request has at most one; gates and latency come on top.
    pub(crate) fn befall(&self, request: &Request, rng: &mut Rng) -> Option<(&'static str, Fault)> {
        let kind = (0..KINDS.len()).find(|kind| rng.f64() < self.0[*kind])?;
        let is_read = matches!(request.operation(), "Query" | "GetItem" | "Scan");
        // Reads meet no conflicts, and applying a read twice has no effect.
        let means_nothing = is_read && matches!(KINDS[kind], "conflict" | "duplicate");
        (!means_nothing).then(|| (KINDS[kind], fault(kind, rng)))
    }
}

/// How many requests living clients sent, and how often each fault happened.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) faults: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub(crate) fn request(&self) {
        self.0.lock().unwrap().requests += 1;
    }

    pub(crate) fn fault(&self, kind: &'static str) {
        *self.0.lock().unwrap().faults.entry(kind).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.0.lock().unwrap().clone()
    }
}
