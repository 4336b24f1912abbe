//! The pauses between the terms of a candidate, which grow while its terms are short.

use std::time::Duration;

use crate::random_source::RandomSource;

/// A term that is over sooner is a short one: the requests for it take longer than its work.
const SHORT_TERM: Duration = Duration::from_millis(100);
/// The pauses after short terms, each made longer by up to its double.
const FIRST_REST: Duration = Duration::from_millis(10);
const MAX_REST: Duration = Duration::from_secs(1);

/// The pauses of one candidate.
pub(super) struct Rests {
    chance: RandomSource,
    next: Duration,
}

impl Rests {
    pub(super) fn new(chance: RandomSource) -> Self {
        Rests {
            chance,
            next: FIRST_REST,
        }
    }

    /// How long to rest after a term that lasted so long.
    pub(super) fn after(&mut self, term: Duration) -> Duration {
        if term >= SHORT_TERM {
            self.next = FIRST_REST;
            return Duration::ZERO;
        }
        // Jitter is a factor between 0.8 and 1.2; the pause is one of 1 to 2.
        let rest = self.next.mul_f64(2.5 * self.chance.jitter() - 1.0);
        self.next = (self.next * 2).min(MAX_REST);
        rest
    }
}
