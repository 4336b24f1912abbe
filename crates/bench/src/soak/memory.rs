//! Whether memory stayed flat: the rule, and the readings that it judges.

use std::fmt;
use std::time::Duration;

use crate::soak::vitals::MIB;

/// Above this number, readings are thinned out.
const KEPT: usize = 2048;
/// Shorter runs say nothing, because caches and the allocator's arenas are still filling.
pub(crate) const JUDGED_FROM: Duration = Duration::from_secs(120);
const SLACK: u64 = 8 * MIB;

/// Resident memory in bytes, read at even intervals.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    kept: Vec<u64>,
    /// Every n-th reading is kept, where n is this number.
    stride: usize,
    seen: usize,
}

/// The medians of the second and of the last quarter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Curve {
    pub(crate) early: u64,
    pub(crate) late: u64,
}

impl Default for Readings {
    fn default() -> Readings {
        Readings {
            kept: Vec::new(),
            stride: 1,
            seen: 0,
        }
    }
}

impl Readings {
    pub(crate) fn add(&mut self, memory: u64) {
        if self.seen.is_multiple_of(self.stride) {
            self.kept.push(memory);
        }
        self.seen += 1;
        if self.kept.len() == KEPT {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Returns `None` while there are fewer than four readings.
    pub(crate) fn curve(&self) -> Option<Curve> {
        let quarter = self.kept.len() / 4;
        let early = self.kept.get(quarter..2 * quarter)?;
        let late = self.kept.get(self.kept.len() - quarter..)?;
        Some(Curve {
            early: median(early)?,
            late: median(late)?,
        })
    }
}

impl Curve {
    /// Whether the last quarter's median is at most a tenth and 8 MiB above the second's.
    pub(crate) fn is_flat(self) -> bool {
        self.late <= self.early + self.early / 10 + SLACK
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [early, late] = [self.early, self.late].map(|bytes| bytes as f64 / MIB as f64);
        write!(
            f,
            "second quarter {early:.1} MiB, last quarter {late:.1} MiB"
        )
    }
}

fn median(readings: &[u64]) -> Option<u64> {
    let mut sorted = readings.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(readings: impl IntoIterator<Item = u64>) -> Curve {
        let mut all = Readings::default();
        readings.into_iter().for_each(|memory| all.add(memory));
        all.curve().unwrap()
    }

    #[test]
    fn steady_memory_is_flat_however_it_began() {
        let start = (0..100).map(|second| second * MIB);
        let steady = (0..900).map(|second| 100 * MIB + second % 7 * MIB);
        assert!(curve(start.chain(steady)).is_flat());
    }

    #[test]
    fn memory_that_grows_is_not_flat() {
        let leak = curve((0..3600).map(|second| 40 * MIB + second * MIB / 100));
        assert!(!leak.is_flat(), "{leak}");
    }

    #[test]
    fn a_peak_is_not_growth() {
        let peak = (0..1000).map(|second| if second == 990 { 900 * MIB } else { 40 * MIB });
        assert!(curve(peak).is_flat());
    }

    #[test]
    fn readings_stay_few_and_keep_their_shape() {
        let mut all = Readings::default();
        (0..1_000_000).for_each(|second| all.add(second));
        assert!(all.kept.len() < KEPT);
        let Curve { early, late } = all.curve().unwrap();
        assert!((370_000..380_000).contains(&early), "{early}");
        assert!((870_000..880_000).contains(&late), "{late}");
    }

    #[test]
    fn too_few_readings_make_no_curve() {
        assert_eq!(Readings::default().curve(), None);
    }
}
