//! Which lock comes next: the hot one, one of a few, or one whose name was never used before.

use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

/// The lock that all contend for.
pub(crate) const HOT: &str = "hot";
const WARM: u64 = 8;
/// How many turns use a cold name, so that some callers meet there.
const TURNS: u64 = 4;
/// A cold name of this many turns ago is used again, after TTL has removed its item.
const LONG_AGO: u64 = 4000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heat {
    Hot,
    Warm,
    Cold,
}

#[derive(Debug, Default)]
pub(crate) struct Names(AtomicU64);

impl Names {
    pub(crate) fn next(&self, heat: Heat, rng: &mut Rng) -> String {
        match heat {
            Heat::Hot => HOT.into(),
            Heat::Warm => format!("warm-{}", rng.u64(0..WARM)),
            Heat::Cold => {
                let turn = self.0.fetch_add(1, Ordering::Relaxed);
                let is_old = turn > LONG_AGO && rng.u8(0..20) == 0;
                let turn = if is_old { turn - LONG_AGO } else { turn };
                format!("cold-{}", turn / TURNS)
            }
        }
    }

    /// How many names were used.
    pub(crate) fn count(&self) -> u64 {
        1 + WARM + self.0.load(Ordering::Relaxed).div_ceil(TURNS)
    }
}
