//! How long a hold lasts at least and at most.

use std::time::Duration;

use crate::config;
use crate::error::Invalid;
use fairlock_protocol::lease;

/// A lease that ends with a bound of the hold lasts longer by this share of the client's lease. In that time a live client releases.
const TO_RELEASE: u32 = 10;

/// How long a hold lasts at least and at most, counted from its grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldBounds {
    pub(crate) min: Option<Duration>,
    pub(crate) max: Option<Duration>,
    /// The caller takes other locks too. `min` and `max` count from when it has all of them.
    pub(crate) begin_with_all: bool,
}

impl HoldBounds {
    pub(crate) fn is_unbounded(self) -> bool {
        self == HoldBounds::default()
    }

    /// Refuses bounds that no hold could keep, where an idle lock stays in the table for `retention`.
    pub(crate) fn check(self, retention: Duration) -> Result<(), Invalid> {
        let HoldBounds { min, max, .. } = self;
        if let Some(min) = min {
            config::check_span("min_hold", min)?;
            // TTL must not delete an item whose lease still lasts.
            let bound = "half of the idle retention";
            config::at_most("min_hold", min, bound, retention / 2)?;
        }
        if let Some(max) = max {
            config::check_span("max_hold", max)?;
            config::at_least("max_hold", max, "min_hold", min.unwrap_or_default())?;
        }
        Ok(())
    }

    /// The lease of a hold that is granted with these bounds, where a hold without bounds has this one.
    pub(crate) fn lease(self, lease: Duration) -> Duration {
        let max = self.max.filter(|_| !self.begin_with_all);
        max.map_or(lease, |max| ending_after(max, lease))
    }
}

/// The lease of a renewal of a hold that ends after `left`, where other renewals ask for `lease`.
pub(crate) fn ending_after(left: Duration, lease: Duration) -> Duration {
    lease.min(lasting(left, lease))
}

/// A lease in which its owner believes for `left`, and which leaves time for the release.
fn lasting(left: Duration, lease: Duration) -> Duration {
    lease::believed_for(left).saturating_add(to_release(lease))
}

/// For how long a client tries to release what is over, where others ask for `lease`.
pub(crate) fn to_release(lease: Duration) -> Duration {
    lease / TO_RELEASE
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bounds(min: Option<u32>, max: Option<u32>) -> HoldBounds {
        let seconds = |count: u32| SECOND * count;
        HoldBounds {
            min: min.map(seconds),
            max: max.map(seconds),
            ..HoldBounds::default()
        }
    }

    #[test]
    fn bounds_that_cross_or_that_no_timer_keeps_are_refused() {
        let day = 86_400 * SECOND;
        for (min, max, fits) in [
            (None, None, true),
            (Some(1), None, true),
            (None, Some(1), true),
            (Some(2), Some(2), true),
            (Some(43_200), None, true),
            (Some(0), None, false),
            (None, Some(0), false),
            (Some(3), Some(2), false),
            (Some(43_201), None, false),
        ] {
            let checked = bounds(min, max).check(day);
            assert_eq!(checked.is_ok(), fits, "{min:?} {max:?}");
        }
    }

    #[test]
    fn a_lease_ends_soon_after_the_hold_and_is_no_longer_than_that_of_others() {
        let lease = 30 * SECOND;
        let short = bounds(None, Some(5)).lease(lease);
        assert!(
            lease::believed(short) > 5 * SECOND + 2 * SECOND,
            "{short:?}"
        );
        assert!(short < 9 * SECOND, "{short:?}");
        assert_eq!(bounds(None, Some(60)).lease(lease), lease);
        let endless = HoldBounds {
            max: Some(Duration::MAX),
            ..HoldBounds::default()
        };
        assert_eq!(endless.check(86_400 * SECOND), Ok(()));
        assert_eq!(endless.lease(lease), lease);
        assert_eq!(bounds(Some(60), None).lease(lease), lease);
        let hour = 3_600 * SECOND;
        assert!(lease::believed(lasting(hour, lease)) > hour);
    }
}
