//! What became of a request, and what DynamoDB charged for it.

/// The outcome of a request, as its sender must take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Ok,
    ConditionFailed,
    /// DynamoDB was too busy.
    Throttled,
    /// Another client's transaction was using the item.
    Conflict,
    /// No usable answer came.
    Unanswered,
    Refused,
    /// Its sender did not wait for the answer.
    Dropped,
}

impl RequestOutcome {
    /// The label `outcome`.
    pub(super) fn label(self) -> &'static str {
        match self {
            RequestOutcome::Ok => "ok",
            RequestOutcome::ConditionFailed => "condition_failed",
            RequestOutcome::Throttled => "throttled",
            RequestOutcome::Conflict => "conflict",
            RequestOutcome::Unanswered => "unanswered",
            RequestOutcome::Refused => "refused",
            RequestOutcome::Dropped => "dropped",
        }
    }
}

/// What DynamoDB charged for a request, in its units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Capacity {
    Read(f64),
    Write(f64),
}
