//! Times: on the timeline of one process, by DynamoDB's clock, and by the wall clock of one host.

use std::ops::Add;
use std::time::Duration;

/// A point on the timeline of one process; only differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Moment(pub Duration);

impl Moment {
    /// How long this is after `earlier`; zero if it is not.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span))
    }
}

/// DynamoDB's own time since 1970, taken from the `Date` of its answers; no host's clock takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct ServerTime(pub Duration);

/// A time since 1970 by the wall clock of one host. Hosts may show any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct HostTime(pub Duration);
