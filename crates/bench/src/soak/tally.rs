//! How many turns there were, how they and the calls without one ended, and how long they took. Its size is fixed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock_cli::contention::monotonic::now_ns;
use hdrhistogram::Histogram;

/// In microseconds, to within a hundredth. Anything longer than an hour counts as an hour.
const LONGEST: u64 = 3_600_000_000;
const DIGITS: u8 = 2;

/// The counts until now. The latest part can be taken separately.
#[derive(Default)]
pub(crate) struct Tally {
    whole: Mutex<Counts>,
    latest: Mutex<Counts>,
}

#[derive(Clone, Default)]
pub(crate) struct Counts {
    pub(crate) turns: u64,
    pub(crate) outcomes: BTreeMap<&'static str, u64>,
    pub(crate) waits: Spans,
    pub(crate) handoffs: Spans,
}

/// Durations, of which only the distribution is kept.
#[derive(Clone)]
pub(crate) struct Spans(Histogram<u64>);

impl Tally {
    /// Counts a turn that was requested at `asked`. `handoff` is how long its handoff took, if it had one.
    pub(crate) fn turn(&self, asked: u64, handoff: Option<Duration>) {
        let waited = Duration::from_nanos(now_ns().saturating_sub(asked));
        self.note(|counts| {
            counts.turns += 1;
            counts.waits.add(waited);
            handoff
                .into_iter()
                .for_each(|span| counts.handoffs.add(span));
        });
    }

    pub(crate) fn outcome(&self, what: &'static str) {
        self.note(|counts| *counts.outcomes.entry(what).or_default() += 1);
    }

    fn note(&self, note: impl Fn(&mut Counts)) {
        note(&mut locked(&self.whole));
        note(&mut locked(&self.latest));
    }

    pub(crate) fn whole(&self) -> Counts {
        locked(&self.whole).clone()
    }

    /// The counts since this was last called.
    pub(crate) fn latest(&self) -> Counts {
        std::mem::take(&mut *locked(&self.latest))
    }
}

impl Spans {
    fn add(&mut self, span: Duration) {
        self.0.saturating_record(span.as_micros() as u64);
    }
}

#[expect(clippy::expect_used, reason = "the bounds are constants")]
impl Default for Spans {
    fn default() -> Spans {
        Spans(Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("bounds that go together"))
    }
}

impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |micros: u64| format!("{:.1}", micros as f64 / 1e3);
        let [p50, p99] = [0.5, 0.99].map(|share| ms(self.0.value_at_quantile(share)));
        write!(f, "p50 {p50} ms, p99 {p99} ms, max {} ms", ms(self.0.max()))
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
