//! How long to go on trying.

use tokio_util::sync::CancellationToken;

use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;

/// How many attempts may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    Attempts(usize),
    /// This many attempts that the table does not serve. An answer that it is too busy, or a denial, does not count, because it shows
    /// that the table is there.
    Unanswered(usize),
}

/// How long to go on trying.
#[derive(Clone, Debug)]
pub(crate) struct RetryPolicy {
    until: Option<Moment>,
    limit: Limit,
    /// Ends the pauses between attempts; an attempt under way runs to its end.
    pub(crate) stop: CancellationToken,
}

/// The only place that puts a policy together.
impl RetryPolicy {
    /// Goes on until a request is answered, or refused for good, or `stop` is cancelled.
    pub(crate) fn stopped_by(stop: &CancellationToken) -> Self {
        RetryPolicy {
            until: None,
            limit: Limit::None,
            stop: stop.clone(),
        }
    }

    /// Ends the policy at `then` at the latest.
    pub(crate) fn until(mut self, then: Moment) -> Self {
        self.until = Some(self.until.map_or(then, |until| until.min(then)));
        self
    }

    /// Whether its time has ended, whatever else could end it.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    pub(crate) fn within(self, limit: Limit) -> Self {
        RetryPolicy { limit, ..self }
    }

    pub(super) fn earlier(&self, then: Moment) -> Moment {
        self.until.map_or(then, |until| until.min(then))
    }

    /// Whether a request is sent again after these tries, of which this was the last failure.
    pub(super) fn goes_on(&self, failure: &Failure, tries: Tries, now: Moment) -> bool {
        let is_over = self.stop.is_cancelled() || self.is_over(now);
        !is_over && failure.is_transient() && self.limit.allows(tries.counted)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy::stopped_by(&CancellationToken::new())
    }
}

impl Limit {
    fn counts(self, failure: &Failure) -> bool {
        match self {
            Limit::None => false,
            Limit::Attempts(_) => true,
            Limit::Unanswered(_) => !failure.is_not_now() && !failure.is_denied(),
        }
    }

    fn allows(self, failed: usize) -> bool {
        match self {
            Limit::None => true,
            Limit::Attempts(most) | Limit::Unanswered(most) => failed < most,
        }
    }
}

/// The failures of a request that is sent again and again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    counted: usize,
    /// A try may have been applied, or may be yet.
    pub(super) is_in_doubt: bool,
}

impl Tries {
    pub(super) fn note(&mut self, failure: &Failure, policy: &RetryPolicy) {
        self.is_in_doubt |= failure.is_ambiguous();
        self.counted += usize::from(policy.limit.counts(failure));
    }
}
