//! The only door to time: the wall clock, and how long ago something was.

use std::fmt::Debug;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The wall clock of an engine.
///
/// # Examples
///
/// An engine for which no time passes:
///
/// ```
/// use std::time::Duration;
/// use fairlock_embedded::{Engine, WallClock};
///
/// #[derive(Debug)]
/// struct Stopped;
///
/// impl WallClock for Stopped {
///     fn unix(&self) -> Duration {
///         Duration::from_secs(1_700_000_000)
///     }
/// }
///
/// let engine = Engine::memory()?.with_clock(Stopped);
/// # Ok::<(), fairlock_embedded::EngineError>(())
/// ```
pub trait WallClock: Debug + Send + Sync {
    /// The time since 1970.
    fn unix(&self) -> Duration;
}

/// The system's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System;

impl WallClock for System {
    #[expect(clippy::disallowed_methods, reason = "this is the door to wall time")]
    fn unix(&self) -> Duration {
        let now = std::time::SystemTime::now();
        now.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// The time for spans within this process.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to monotonic time"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
