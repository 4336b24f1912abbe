//! What only the metrics are told: requests, renewals and datagrams are no transitions, and the log has no line for each.
#![cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "without the feature nothing counts")
)]

use std::time::Duration;

use super::Label;
#[cfg(feature = "metrics")]
use super::counts;
#[cfg(feature = "metrics")]
use super::outcome::{Capacity, RequestOutcome};

/// A request has ended. `took` is the time from sending to the answer, if there was one.
#[cfg(feature = "metrics")]
pub(crate) fn requested(
    step: &'static str,
    outcome: RequestOutcome,
    took: Option<Duration>,
    capacity: Option<Capacity>,
) {
    counts::requested(step, outcome, took, capacity);
}

/// A failed request will be sent again.
pub(crate) fn retried(step: &'static str) {
    #[cfg(feature = "metrics")]
    counts::retried(step);
}

/// A hold was renewed by a request that was sent this long after it was due.
pub(crate) fn renewed(label: &Label, lag: Duration) {
    #[cfg(feature = "metrics")]
    counts::renewed(label, lag);
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Sent,
    Received,
    /// It fits no place of this client.
    Dropped,
}

/// A datagram was sent, has arrived, or was dropped on arrival.
pub(crate) fn notified(notice: Notice) {
    #[cfg(feature = "metrics")]
    counts::notified(match notice {
        Notice::Sent => "sent",
        Notice::Received => "received",
        Notice::Dropped => "dropped",
    });
}
