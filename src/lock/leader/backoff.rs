//! The pauses between the terms of a candidate, which grow while its terms are short.

use std::time::Duration;

use crate::runtime::random_source::RandomSource;

/// A term that ends sooner is short: its requests take longer than its work.
const SHORT_TERM: Duration = Duration::from_millis(100);
/// The first and the longest pause after short terms. Jitter makes each up to twice as long.
const FIRST_REST: Duration = Duration::from_millis(10);
const MAX_REST: Duration = Duration::from_secs(1);

/// The pauses of one candidate.
pub(super) struct Rests {
    random_source: RandomSource,
    next: Duration,
}

impl Rests {
    pub(super) fn new(random_source: RandomSource) -> Self {
        Rests {
            random_source,
            next: FIRST_REST,
        }
    }

    /// How long to rest after a term of this length.
    pub(super) fn after(&mut self, term: Duration) -> Duration {
        if term >= SHORT_TERM {
            self.next = FIRST_REST;
            return Duration::ZERO;
        }
        // The jitter is a factor between 0.8 and 1.2; the pause needs one between 1 and 2.
        let rest = self.next.mul_f64(2.5 * self.random_source.jitter() - 1.0);
        self.next = (self.next * 2).min(MAX_REST);
        rest
    }
}
