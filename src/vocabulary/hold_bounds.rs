//! How long a hold lasts at least and at most.

use std::time::Duration;

use crate::vocabulary::config;
use crate::vocabulary::error::Invalid;

/// How long a hold lasts at least and at most, counted from its grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldBounds {
    pub(crate) min: Option<Duration>,
    pub(crate) max: Option<Duration>,
    /// The caller takes other locks too. `min` and `max` count from when it has all of them.
    pub(crate) begin_with_all: bool,
}

impl HoldBounds {
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
        let endless = HoldBounds {
            max: Some(Duration::MAX),
            ..HoldBounds::default()
        };
        assert_eq!(endless.check(day), Ok(()));
    }
}
