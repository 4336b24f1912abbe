//! What a run of the driver showed.

use std::time::Duration;

use fairlock_cli::contention::tally::{self, Tally};
use fairlock_cli::contention::turn::Turn;
use fairlock_testkit::request_counts::{Sent, Traffic};

use crate::performance::scene::ROUND_TRIP_MS;

pub(crate) struct Run {
    /// In the order of their grants.
    pub(crate) turns: Vec<Turn>,
    pub(crate) sent: Traffic,
}

/// The median of a figure over several runs.
pub(crate) fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<_> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Run {
    pub(crate) fn new(mut turns: Vec<Turn>, sent: Traffic) -> Run {
        turns.sort_by_key(|turn| turn.acquired_ns);
        Run { turns, sent }
    }

    /// The percentile of the time from a release to the next grant, in milliseconds.
    pub(crate) fn handoff(&self, percent: usize) -> f64 {
        let pairs = self.turns.windows(2);
        of_sorted(pairs.map(|pair| pair[0].handoff_to(&pair[1])), percent)
    }

    /// The percentile of the time from the request to the grant, in milliseconds.
    pub(crate) fn wait(&self, percent: usize) -> f64 {
        of_sorted(self.turns.iter().map(Turn::waited), percent)
    }

    pub(crate) fn mean_wait(&self) -> f64 {
        let waits = Tally::new(self.turns.clone()).waits();
        waits.map_or(f64::NAN, |waits| ms(waits.mean))
    }

    /// The longest wait divided by the mean.
    pub(crate) fn unevenness(&self) -> f64 {
        self.wait(100) / self.mean_wait()
    }

    /// What is sent for a turn, in any unit, without the heartbeats.
    pub(crate) fn a_turn(&self, count: impl Fn(&Sent) -> f64) -> f64 {
        count(&self.sent.of_turns()) / self.turns.len() as f64
    }

    pub(crate) fn requests(&self) -> f64 {
        self.a_turn(|sent| sent.requests as f64)
    }

    pub(crate) fn turns_a_round_trip(&self) -> f64 {
        let first = self.turns.iter().map(|turn| turn.requested_ns).min();
        let last = self.turns.iter().map(|turn| turn.released_ns).max();
        let span = last.unwrap_or_default() - first.unwrap_or_default();
        self.turns.len() as f64 / in_round_trips(span as f64 / 1e6)
    }

    pub(crate) fn out_of_order(&self) -> usize {
        Tally::new(self.turns.clone()).out_of_order()
    }

    pub(crate) fn overlaps(&self) -> usize {
        Tally::new(self.turns.clone()).overlaps()
    }
}

pub(crate) fn in_round_trips(ms: f64) -> f64 {
    ms / f64::from(ROUND_TRIP_MS)
}

fn of_sorted(spans: impl Iterator<Item = Duration>, percent: usize) -> f64 {
    let mut spans: Vec<_> = spans.collect();
    spans.sort_unstable();
    tally::percentile(&spans, percent).map_or(f64::NAN, ms)
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
