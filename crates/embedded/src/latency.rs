//! How long requests and their answers take.

use std::time::Duration;

/// A distribution of durations.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fairlock_embedded::Latency;
///
/// let steady = Latency::Constant(Duration::from_millis(10));
/// let real = Latency::HeavyTailed { median: Duration::from_millis(4), p99: Duration::from_millis(40) };
/// assert_eq!(Latency::default(), Latency::Constant(Duration::ZERO));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Latency {
    /// The same every time. A round trip is split evenly between the way there and the way back. The time that the server takes is a part
    /// of the way back.
    Constant(Duration),
    /// Half of the samples are below `median`, and a hundredth is above `p99`. The worst is as far above `p99` as `p99` is above `median`
    /// (log-logistic, cut off). A round trip is split at a random point.
    HeavyTailed {
        /// Half of the samples are shorter.
        median: Duration,
        /// A hundredth of the samples is longer.
        p99: Duration,
    },
}

impl Default for Latency {
    fn default() -> Self {
        Latency::Constant(Duration::ZERO)
    }
}

impl Latency {
    /// Splits a round trip into the way there and the way back.
    pub(crate) fn split(self, rng: &mut fastrand::Rng) -> (Duration, Duration) {
        let share = match self {
            Latency::Constant(_) => 0.5,
            Latency::HeavyTailed { .. } => rng.f64(),
        };
        let whole = self.sample(rng);
        // If the product is rounded up to more than any duration, it is the whole.
        let there = Duration::try_from_secs_f64(whole.as_secs_f64() * share).unwrap_or(whole);
        (there, whole.saturating_sub(there))
    }

    fn sample(self, rng: &mut fastrand::Rng) -> Duration {
        match self {
            Latency::Constant(always) => always,
            Latency::HeavyTailed { median, p99 } => heavy_tailed(median, p99, rng.f64()),
        }
    }
}

/// The duration below which a `share` of all samples lies.
fn heavy_tailed(median: Duration, p99: Duration, share: f64) -> Duration {
    if median.is_zero() {
        return median;
    }
    let odds = |share: f64| share / (1.0 - share);
    let stretch = p99.div_duration_f64(median).max(1.0);
    let shape = stretch.ln() / odds(0.99).ln();
    // A share of 0.9999 is as far above p99, by ratio, as p99 is above the median.
    let seconds = median.as_secs_f64() * odds(share.min(0.9999)).powf(shape);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEDIAN: Duration = Duration::from_millis(4);
    const P99: Duration = Duration::from_millis(40);

    #[test]
    fn a_heavy_tail_has_the_median_and_the_percentile_it_says() {
        let close =
            |left: Duration, right: Duration| left.abs_diff(right) < Duration::from_micros(1);
        assert!(close(heavy_tailed(MEDIAN, P99, 0.5), MEDIAN));
        assert!(close(heavy_tailed(MEDIAN, P99, 0.99), P99));
    }

    #[test]
    fn a_heavy_tail_is_cut_off() {
        let worst = heavy_tailed(MEDIAN, P99, 1.0);
        assert!(P99 < worst && worst < Duration::from_millis(410));
    }

    #[test]
    fn a_constant_round_trip_is_split_evenly() {
        let mut rng = fastrand::Rng::with_seed(1);
        assert_eq!(
            Latency::Constant(MEDIAN).split(&mut rng),
            (MEDIAN / 2, MEDIAN / 2)
        );
    }

    #[test]
    fn no_latency_is_none() {
        let nothing = Latency::HeavyTailed {
            median: Duration::ZERO,
            p99: P99,
        };
        let mut rng = fastrand::Rng::with_seed(1);
        assert_eq!(nothing.split(&mut rng), (Duration::ZERO, Duration::ZERO));
    }
}
