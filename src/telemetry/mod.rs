//! The transitions of calls, holds and places, each told once: to the log, to the spans, and to the metrics of the feature `metrics`.
//!
//! What only the log is told, the modules log themselves.

mod call;
#[cfg(feature = "metrics")]
mod counts;
mod held;
mod label;
mod outage;
#[cfg(feature = "metrics")]
mod outcome;
mod place;
mod request;

pub(crate) use call::{Origin, Wait};
#[cfg(feature = "metrics")]
pub(crate) use counts::describe;
#[cfg(feature = "metrics")]
pub use counts::metric_buckets;
pub(crate) use held::{HoldTelemetry, ReleaseOutcome};
pub(crate) use label::Label;
pub(crate) use outage::{served, unserved};
#[cfg(feature = "metrics")]
pub(crate) use outcome::{Capacity, RequestOutcome};
pub(crate) use place::{EvictedPlace, closed_gap, evicted, joined};
#[cfg(feature = "metrics")]
pub(crate) use request::requested;
pub(crate) use request::{Notice, notified, renewed, retried};
