//! The only door to time: the wall clock, the time since the machine's boot, and how long ago something was.

use std::fmt::Debug;
use std::sync::Arc;
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

    /// The time since the machine's boot. An engine on a file reads the wall clock once a boot, and counts by this time from then on.
    /// Returns `None`, as it does by default, if the clock has no such time. Then the wall clock alone says what time it is.
    fn boot_time(&self) -> Option<BootTime> {
        None
    }
}

/// The time since a machine's boot, which nobody sets.
///
/// # Examples
///
/// The clocks of a machine, for a test that sets the wall clock:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use fairlock_embedded::{BootTime, WallClock};
///
/// #[derive(Debug)]
/// struct Machine {
///     unix: AtomicU64,
///     up: AtomicU64,
/// }
///
/// impl WallClock for Machine {
///     fn unix(&self) -> Duration {
///         Duration::from_secs(self.unix.load(Ordering::Relaxed))
///     }
///
///     fn boot_time(&self) -> Option<BootTime> {
///         let elapsed = Duration::from_secs(self.up.load(Ordering::Relaxed));
///         Some(BootTime { boot: Arc::from("the first"), elapsed })
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootTime {
    /// Which boot of which machine. Empty if the system does not tell.
    pub boot: Arc<str>,
    /// How long ago it was, with the time for which the machine slept.
    pub elapsed: Duration,
}

/// The system's clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System;

impl WallClock for System {
    #[expect(clippy::disallowed_methods, reason = "this is the door to wall time")]
    fn unix(&self) -> Duration {
        let now = std::time::SystemTime::now();
        now.duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn boot_time(&self) -> Option<BootTime> {
        system::boot_time()
    }
}

/// The wall clock as it was set when an engine began. A step that it makes later does not count.
#[derive(Clone, Debug)]
pub(crate) struct SetOnce {
    unix: Duration,
    boot_time: Option<BootTime>,
}

impl SetOnce {
    pub(crate) fn now() -> Self {
        SetOnce {
            unix: System.unix(),
            boot_time: System.boot_time(),
        }
    }
}

impl WallClock for SetOnce {
    fn unix(&self) -> Duration {
        let times = self.boot_time.as_ref().zip(System.boot_time());
        times.map_or_else(
            || System.unix(),
            |(began, now)| self.unix + now.elapsed.saturating_sub(began.elapsed),
        )
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod system {
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::BootTime;

    /// On Apple's systems this clock goes on while the machine sleeps.
    #[cfg(target_vendor = "apple")]
    const COUNTS_ALL: ClockId = ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    const COUNTS_ALL: ClockId = ClockId::Boottime;

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to the time since boot"
    )]
    pub(super) fn boot_time() -> Option<BootTime> {
        static BOOT: OnceLock<(Arc<str>, i128)> = OnceLock::new();
        let (boot, ahead) = BOOT.get_or_init(|| (boot_id().unwrap_or_default(), ahead()));
        let now = clock_gettime(COUNTS_ALL);
        let now = nanos(now.tv_sec, now.tv_nsec) - ahead;
        let nanos = u64::try_from(now).unwrap_or(0);
        Some(BootTime {
            boot: Arc::clone(boot),
            elapsed: Duration::from_nanos(nanos),
        })
    }

    /// The kernel's own id. Some containers have another file in its place, which says nothing about the machine.
    #[cfg(target_os = "linux")]
    fn boot_id() -> Option<Arc<str>> {
        use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
        use std::io::Read;
        let mut file = std::fs::File::open("/proc/sys/kernel/random/boot_id").ok()?;
        let is_of_the_kernel = fstatfs(&file).ok()?.f_type == PROC_SUPER_MAGIC;
        let mut id = String::new();
        file.read_to_string(&mut id).ok()?;
        is_of_the_kernel.then(|| Arc::from(id.trim()))
    }

    #[cfg(not(target_os = "linux"))]
    fn boot_id() -> Option<Arc<str>> {
        None
    }

    /// By how many nanoseconds the clock is ahead in this time namespace. All processes of a machine count by the namespace of its boot.
    fn ahead() -> i128 {
        let namespace = |name| std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
        let offsets = std::fs::read_to_string("/proc/self/timens_offsets");
        match namespace("time") == namespace("time_for_children") {
            true => offsets.ok().and_then(|text| offset(&text)),
            // This process has made a namespace, and is not in it: the file tells of its children.
            false => None,
        }
        .unwrap_or_default()
    }

    fn offset(text: &str) -> Option<i128> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("boottime"))?;
        let mut numbers = line.split_whitespace().map(str::parse);
        let (seconds, more): (i64, i64) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(nanos(seconds, more))
    }

    fn nanos(seconds: i64, more: i64) -> i128 {
        i128::from(seconds) * 1_000_000_000 + i128::from(more)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_offset_of_a_time_namespace_is_read() {
            let text = "monotonic           7         0\nboottime         -100 500000000\n";
            assert_eq!(offset(text), Some(-99_500_000_000));
            assert_eq!(offset("monotonic 0 0\n"), None);
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod system {
    use super::BootTime;

    pub(super) fn boot_time() -> Option<BootTime> {
        None
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
