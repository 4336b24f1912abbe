//! What the recorder of the crate `metrics` is told. No other module knows that crate.
//!
//! A series begins at zero: Prometheus does not see the first step of a counter whose series begins with it. So the counters that alerts
//! stand on are touched before anything happens.

use std::time::Duration;

use metrics::{Unit, counter, gauge, histogram};

use super::Label;
use super::outcome::{Capacity, RequestOutcome};
use crate::vocabulary::config::Config;
use crate::vocabulary::error::LossReason;

const WAIT: &str = "fairlock_wait_seconds";
const WAITING: &str = "fairlock_waiting_calls";
const QUEUE: &str = "fairlock_queue_length";
const HOLD: &str = "fairlock_hold_seconds";
const HOLDS: &str = "fairlock_holds";
const RELEASES: &str = "fairlock_releases_total";
const LOSSES: &str = "fairlock_losses_total";
const LAG: &str = "fairlock_heartbeat_lag_seconds";
const EVICTIONS: &str = "fairlock_evictions_total";
const REQUESTS: &str = "fairlock_requests_total";
const REQUEST: &str = "fairlock_request_seconds";
const RETRIES: &str = "fairlock_retries_total";
const CAPACITY: &str = "fairlock_capacity_units_total";
const NOTIFICATIONS: &str = "fairlock_notifications_total";

/// From a request to a long wait.
const SECONDS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0, 1800.0,
];

/// In turns.
const TURNS: [f64; 10] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The histograms, with the upper bounds of their buckets. The unit of the last is a turn, and of all others a second.
const HISTOGRAMS: [(&str, &str, &[f64]); 5] = [
    (WAIT, "How long calls waited, by how they ended", &SECONDS),
    (
        HOLD,
        "How long holds lasted, by whether they were given back or lost",
        &SECONDS,
    ),
    (
        LAG,
        "How long after they were due the renewals of holds were sent",
        &SECONDS,
    ),
    (
        REQUEST,
        "The time from the sending of a request to its answer",
        &SECONDS,
    ),
    (
        QUEUE,
        "Turns before a place when it joined the queue",
        &TURNS,
    ),
];

const COUNTERS: [(&str, &str); 7] = [
    (RELEASES, "Releases, by what became of them"),
    (LOSSES, "Holds that ended before they were given back"),
    (
        EVICTIONS,
        "Places of dead clients that this process took away",
    ),
    (
        REQUESTS,
        "Requests to DynamoDB, by step of the protocol and outcome",
    ),
    (RETRIES, "Failed requests that were sent again, by step"),
    (
        CAPACITY,
        "Capacity units of answered requests, as DynamoDB reports them, by step",
    ),
    (
        NOTIFICATIONS,
        "Datagrams between clients that were sent, received, or dropped on arrival",
    ),
];

const GAUGES: [(&str, &str); 2] = [
    (WAITING, "Calls of this process that wait now"),
    (HOLDS, "Holds of this process now"),
];

/// Returns the name of each histogram with the upper bounds of its buckets, in ascending order.
///
/// A recorder decides itself how it divides a histogram. The exporter for Prometheus makes summaries by default, which cannot be added up
/// over processes. The alerts and the dashboard of `docs/metrics.md` need histograms with these bounds.
///
/// # Examples
///
/// ```
/// use fairlock::metric_buckets;
/// use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
///
/// # fn main() -> Result<(), BuildError> {
/// let mut builder = PrometheusBuilder::new();
/// for (metric, bounds) in metric_buckets() {
///     builder = builder.set_buckets_for_metric(Matcher::Full(metric.into()), bounds)?;
/// }
/// let recorder = builder.build_recorder(); // or `install`
/// # drop(recorder);
/// # Ok(())
/// # }
/// ```
pub fn metric_buckets() -> impl Iterator<Item = (&'static str, &'static [f64])> {
    HISTOGRAMS
        .into_iter()
        .map(|(name, _, bounds)| (name, bounds))
}

/// Tells the recorder what each metric is. Begins the series of takeovers, because a client that only sweeps has no calls that do.
pub(crate) fn describe(config: &Config) {
    for (name, text, _) in HISTOGRAMS {
        match name {
            QUEUE => metrics::describe_histogram!(name, Unit::Count, text),
            _ => metrics::describe_histogram!(name, Unit::Seconds, text),
        }
    }
    for (name, text) in COUNTERS {
        metrics::describe_counter!(name, Unit::Count, text);
    }
    for (name, text) in GAUGES {
        metrics::describe_gauge!(name, Unit::Count, text);
    }
    if config.lock_label.is_none() {
        evicts(&Label::default());
    }
}

/// A client that may take places away begins its work.
fn evicts(label: &Label) {
    for place in ["holder", "successor", "waiter", "gap"] {
        evicted(label, place, 0);
    }
}

/// A call begins to wait.
pub(super) fn waits(label: &Label) {
    gauge!(WAITING, label.with([])).increment(1);
    for outcome in ["granted", "timed_out"] {
        let _at_zero = histogram!(WAIT, label.with([("outcome", outcome)]));
    }
    evicts(label);
}

pub(super) fn waited(label: &Label, outcome: &'static str, waited: Duration) {
    gauge!(WAITING, label.with([])).decrement(1);
    histogram!(WAIT, label.with([("outcome", outcome)])).record(waited);
}

pub(super) fn joined(label: &Label, before: usize) {
    // A queue of more turns than a number of this kind holds exactly cannot be.
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    histogram!(QUEUE, label.with([])).record(before);
}

/// A hold begins.
pub(super) fn holds(label: &Label) {
    gauge!(HOLDS, label.with([])).increment(1);
    let _at_zero = histogram!(LAG, label.with([]));
    for reason in REASONS {
        counter!(LOSSES, label.with([("reason", reason)])).increment(0);
    }
    released_by(label, "failed", 0);
}

pub(super) fn holds_no_more(label: &Label) {
    gauge!(HOLDS, label.with([])).decrement(1);
}

pub(super) fn held(label: &Label, outcome: &'static str, held: Duration) {
    holds_no_more(label);
    histogram!(HOLD, label.with([("outcome", outcome)])).record(held);
}

pub(super) fn lost(label: &Label, loss: &LossReason) {
    counter!(LOSSES, label.with([("reason", reason(loss))])).increment(1);
}

/// The values of the label `reason`.
const REASONS: [&str; 8] = [
    "expired",
    "evicted",
    "broken",
    "deleted",
    "unreachable",
    "max_hold",
    "no_runtime",
    "shut_down",
];

fn reason(loss: &LossReason) -> &'static str {
    match loss {
        LossReason::Expired => "expired",
        LossReason::Evicted { .. } => "evicted",
        LossReason::Broken { .. } => "broken",
        LossReason::Deleted => "deleted",
        LossReason::Unreachable { .. } => "unreachable",
        LossReason::MaxHold { .. } => "max_hold",
        LossReason::NoRuntime => "no_runtime",
        LossReason::ShutDown => "shut_down",
        // For leases by name, which are no holds of this process.
        LossReason::Released => "released",
    }
}

pub(super) fn released(label: &Label, outcome: &'static str) {
    released_by(label, outcome, 1);
}

fn released_by(label: &Label, outcome: &'static str, count: u64) {
    counter!(RELEASES, label.with([("outcome", outcome)])).increment(count);
}

pub(super) fn evicted(label: &Label, place: &'static str, count: u64) {
    counter!(EVICTIONS, label.with([("place", place)])).increment(count);
}

pub(super) fn renewed(label: &Label, lag: Duration) {
    histogram!(LAG, label.with([])).record(lag);
}

pub(super) fn requested(
    step: &'static str,
    outcome: RequestOutcome,
    took: Option<Duration>,
    capacity: Option<Capacity>,
) {
    let count = |outcome: RequestOutcome, count| {
        counter!(REQUESTS, "step" => step, "outcome" => outcome.label()).increment(count);
    };
    count(outcome, 1);
    for alarming in [
        RequestOutcome::Throttled,
        RequestOutcome::Unanswered,
        RequestOutcome::Refused,
    ] {
        count(alarming, 0);
    }
    if let Some(took) = took {
        histogram!(REQUEST).record(took);
    }
    match capacity {
        Some(Capacity::Read(units)) => charged(step, "read", units),
        Some(Capacity::Write(units)) => charged(step, "write", units),
        None => {}
    }
}

/// Counters have whole numbers. Only a page of a scan can end in a half.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a request is charged a few hundred units at most, and none is negative"
)]
fn charged(step: &'static str, kind: &'static str, units: f64) {
    counter!(CAPACITY, "step" => step, "kind" => kind).increment(units.ceil() as u64);
}

pub(super) fn retried(step: &'static str) {
    counter!(RETRIES, "step" => step).increment(1);
}

pub(super) fn notified(event: &'static str) {
    counter!(NOTIFICATIONS, "event" => event).increment(1);
}

impl Label {
    /// The labels of a series of this lock.
    fn with<const N: usize>(
        &self,
        labels: [(&'static str, &'static str); N],
    ) -> Vec<metrics::Label> {
        let lock = self.lock.clone();
        let lock = lock.map(|lock| metrics::Label::new("lock", lock));
        let labels = labels.map(|(name, value)| metrics::Label::from_static_parts(name, value));
        labels.into_iter().chain(lock).collect()
    }
}
