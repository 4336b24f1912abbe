//! The clock of the output: all processes of a machine share it.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC, which are never negative.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock of the output is this one, whatever the locks go by"
)]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
