//! The only module that reads time: how much has passed, what the wall clock shows, and sleeping.
//!
//! Leases and observations are counted in [`Moment`]s, which never go back. Where the system can tell, they never stop while the machine
//! sleeps. Wall time has few uses:
//!
//! - It gives the first ticket of a lock and times the TTL, unless DynamoDB's clock is later.
//! - It stamps what is written, and judges such stamps of others, each time beside a `Date`.
//! - It bounds the removal of idle locks.
//! - It tells people since when DynamoDB has not answered.

mod close_timer;

use std::future::pending;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use fairlock_protocol::moment::Moment;

/// The source of a client's time: the system's clocks, or for tests tokio's clock alone.
///
/// # Examples
///
/// A test on paused time gives the same clock to the engine and to the client. Then leases, time-outs and the engine's `Date` all follow
/// the test:
///
/// ```
/// use std::time::Duration;
/// use fairlock::Clock;
///
/// let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Tokio {
        origin: Instant,
        unix: Duration,
        /// By how many seconds the wall time was set ahead since, or back.
        stepped: Arc<AtomicI64>,
        rate: f64,
    },
}

/// The longest nap on the system clock, because timers stop while the machine sleeps and leases do not.
const MAX_NAP: Duration = Duration::from_secs(1);

/// By how much the runtime's timer may be late: it rounds up to milliseconds, and so does the system call that waits.
const TIMER_GRAIN: Duration = Duration::from_millis(2);

/// The longest nap on a test's clock, so that a wait without end does not overflow its arithmetic.
const MAX_TEST_NAP: Duration = Duration::from_secs(24 * 3600);

impl Clock {
    /// Uses the system's clocks: the later of the monotonic clock and the clock that also counts suspended time.
    ///
    /// The time for which a process is stopped, by SIGSTOP, a debugger or a full machine, counts on every system. The time for which the
    /// machine is suspended counts on Linux, Android and Apple's systems. On Windows and others only the standard library's monotonic clock
    /// rules, which need not count suspended time. There, a holder whose machine was suspended may consider itself the holder after another
    /// client has taken the lock. Nothing counts the time for which a virtual machine is paused together with its clocks. Fence what must
    /// never be written late.
    ///
    /// # Examples
    ///
    /// ```
    /// let clock = fairlock::Clock::system();
    /// ```
    pub fn system() -> Self {
        Clock(Source::System)
    }

    /// Uses tokio's clock alone, which a test may pause. Its wall time is `unix` (since 1970) now.
    ///
    /// # Examples
    ///
    /// ```
    /// let clock = fairlock::Clock::of_tokio(std::time::Duration::from_secs(1_700_000_000));
    /// ```
    pub fn of_tokio(unix: Duration) -> Self {
        Clock(Source::Tokio {
            origin: Instant::now(),
            unix,
            stepped: Arc::default(),
            rate: 1.0,
        })
    }

    /// Makes the clock of another host, whose wall time is ahead by `offset`. Has no effect on the system's clock.
    #[doc(hidden)]
    #[must_use]
    pub fn ahead(mut self, offset: Duration) -> Self {
        if let Source::Tokio { unix, stepped, .. } = &mut self.0 {
            *unix = unix.saturating_add(offset);
            *stepped = Arc::new(AtomicI64::new(stepped.load(Ordering::Relaxed)));
        }
        self
    }

    /// Sets the wall time of this clock and its clones ahead by so many seconds, or back if negative, as NTP does while programs run. Leases
    /// go by another time, which nothing sets. Has no effect on the system's clock.
    #[doc(hidden)]
    pub fn step(&self, seconds: i64) {
        if let Source::Tokio { stepped, .. } = &self.0 {
            stepped.fetch_add(seconds, Ordering::Relaxed);
        }
    }

    /// Makes the clock count `factor` seconds a second: below 1, it is slow. The factor is kept between a thousandth and a thousand, and
    /// NaN counts as 1. Has no effect on the system's clock.
    #[doc(hidden)]
    #[must_use]
    pub fn at_rate(mut self, factor: f64) -> Self {
        if let Source::Tokio { rate, .. } = &mut self.0 {
            *rate = if factor.is_nan() {
                1.0
            } else {
                factor.clamp(1e-3, 1e3)
            };
        }
        self
    }

    /// Wall time since 1970, as this host believes it to be.
    pub(crate) fn unix(&self) -> Duration {
        match &self.0 {
            Source::System => system_unix(),
            Source::Tokio {
                origin,
                unix,
                stepped,
                ..
            } => {
                let now = unix.saturating_add(origin.elapsed());
                let seconds = stepped.load(Ordering::Relaxed);
                let by = Duration::from_secs(seconds.unsigned_abs());
                match seconds < 0 {
                    true => now.saturating_sub(by),
                    false => now.saturating_add(by),
                }
            }
        }
    }

    pub(crate) fn now(&self) -> Moment {
        match &self.0 {
            Source::System => Moment(system_elapsed()),
            Source::Tokio { origin, rate, .. } => Moment(origin.elapsed().mul_f64(*rate)),
        }
    }

    /// Sleeps for `span` of this clock's time. Cancel safe.
    pub(crate) async fn sleep(&self, span: Duration) {
        self.sleep_until(self.now() + span).await;
    }

    /// Sleeps until `then`, or not at all if it is past. Cancel safe. Ends because every nap brings `then` nearer.
    pub(crate) async fn sleep_until(&self, then: Moment) {
        loop {
            let left = then.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(self.nap(left)).await;
        }
    }

    /// Sleeps until `then`, to a tenth of a millisecond where `sleep_until` may be two milliseconds late. For the sleeps on which a handoff
    /// waits. Cancel safe.
    pub(crate) async fn sleep_closely_until(&self, then: Moment) {
        let left = |clock: &Clock| then.since(clock.now());
        self.sleep(left(self).saturating_sub(TIMER_GRAIN)).await;
        let left = left(self).min(TIMER_GRAIN);
        if matches!(self.0, Source::System) && !left.is_zero() {
            tokio::select! {
                biased;
                Ok(()) = close_timer::alarm(left) => {}
                () = tokio::time::sleep(left) => {}
            }
        }
        self.sleep_until(then).await;
    }

    /// Sleeps until `then` where a runtime counts the time, and for ever outside of a runtime. Cancel safe.
    pub(crate) async fn sleep_until_if_counted(&self, then: Moment) {
        match Handle::try_current() {
            Ok(_) => self.sleep_until(then).await,
            Err(_) => pending().await,
        }
    }

    /// How long to sleep at a stretch, in tokio's time, when `left` of this clock's time is to pass.
    fn nap(&self, left: Duration) -> Duration {
        match &self.0 {
            Source::System => left.min(MAX_NAP),
            // Rounded up to the timer's grain: otherwise the last nap would not sleep at all.
            Source::Tokio { rate, .. } => {
                let left = left.min(MAX_TEST_NAP);
                left.div_f64(*rate).max(Duration::from_millis(1))
            }
        }
    }
}

/// Lets an engine in this process go by the clock of a test.
#[cfg(feature = "embedded")]
impl fairlock_embedded::WallClock for Clock {
    fn unix(&self) -> Duration {
        Clock::unix(self)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the door to wall time")]
fn system_unix() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Time since the process first asked, by the clock that says more: neither clock may make a lease look longer.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to monotonic time"
)]
fn system_elapsed() -> Duration {
    static ORIGIN: OnceLock<(std::time::Instant, Duration)> = OnceLock::new();
    let (started, boot) = ORIGIN.get_or_init(|| (std::time::Instant::now(), since_boot()));
    started.elapsed().max(since_boot().saturating_sub(*boot))
}

/// Time since boot with suspended time counted, where the system can tell. Otherwise zero, so that the monotonic clock rules.
#[cfg_attr(
    any(target_os = "linux", target_os = "android", target_vendor = "apple"),
    expect(
        clippy::disallowed_methods,
        reason = "this is the door to monotonic time"
    )
)]
fn since_boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        #[cfg(target_vendor = "apple")]
        // On Apple's systems, unlike the standard library's clock, this clock goes on while the machine sleeps.
        let counts_all = rustix::time::ClockId::Monotonic;
        #[cfg(not(target_vendor = "apple"))]
        let counts_all = rustix::time::ClockId::Boottime;
        let at = rustix::time::clock_gettime(counts_all);
        Duration::new(
            at.tv_sec.unsigned_abs(),
            u32::try_from(at.tv_nsec).unwrap_or(0),
        )
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_close_sleep_ends_no_earlier_than_asked() {
        let clock = Clock::system();
        for micros in [0, 1, 300, 2000, 5000] {
            let then = clock.now() + Duration::from_micros(micros);
            clock.sleep_closely_until(then).await;
            assert!(clock.now() >= then, "{micros}");
        }
    }

    #[tokio::test]
    async fn each_alarm_is_told_after_its_time_and_one_that_nobody_waits_for_holds_up_none() {
        let clock = Clock::system();
        drop(close_timer::alarm(Duration::from_micros(500)));
        let waits = [3, 1, 2].map(|ms| {
            let then = clock.now() + Duration::from_millis(ms);
            let alarm = close_timer::alarm(Duration::from_millis(ms));
            let clock = &clock;
            async move {
                alarm.await.unwrap();
                assert!(clock.now() >= then, "{ms}");
            }
        });
        futures::future::join_all(waits).await;
    }
}
