//! How long to go on trying, and with which pauses.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;

/// How long a waiting call puts up with a policy that denies its requests.
const DENIED_FOR: Duration = Duration::from_secs(20);

/// How many attempts may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    Attempts(usize),
    /// This many attempts that the table does not serve. An answer that it is too busy, or a denial, does not count, because it shows
    /// that the table is there.
    Unanswered(usize),
}

/// What to do about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnRejection {
    /// The refusal is for good.
    Fail,
    /// A policy that was just attached denies for some seconds. A waiting call puts up with that.
    WaitOut,
    /// An access policy, for example, may be mended in time. Until then, what stands in the table is in the way of others.
    Retry,
}

/// What to do about an answer that DynamoDB is too busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBusy {
    /// Try again as after any other failure: the request of a holder, or of a caller that does not wait.
    Retry,
    /// Give way to the holder's requests until then: pause for up to this long, at random and by the brake of the lock.
    GiveWay(Duration, Moment),
    /// Leave it to the caller, which gives way and reads before it writes again. If an attempt before may have been applied, give way here.
    ReadFirst(Duration),
}

/// How long to go on trying.
#[derive(Clone, Debug)]
pub(crate) struct RetryPolicy {
    pub(super) until: Option<Moment>,
    limit: Limit,
    refusals: OnRejection,
    pub(super) busy: OnBusy,
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
            refusals: OnRejection::Fail,
            busy: OnBusy::Retry,
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

    /// Goes on where a request is refused: an access policy, for example, may be mended in time.
    pub(crate) fn through_refusals(self) -> Self {
        RetryPolicy {
            refusals: OnRejection::Retry,
            ..self
        }
    }

    /// Goes on for some seconds where a policy denies a request of a waiting call.
    pub(crate) fn through_denials(self) -> Self {
        RetryPolicy {
            refusals: OnRejection::WaitOut,
            ..self
        }
    }

    /// Gives way to the requests of the holder while DynamoDB is too busy, for up to `longest` at a time, and not after `until`.
    pub(crate) fn giving_way(self, longest: Duration, until: Moment) -> Self {
        RetryPolicy {
            busy: OnBusy::GiveWay(longest, until),
            ..self
        }
    }

    /// As `giving_way`, for a caller that reads before it writes again.
    pub(crate) fn reading_first(self, longest: Duration) -> Self {
        RetryPolicy {
            busy: OnBusy::ReadFirst(longest),
            ..self
        }
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

impl RetryPolicy {
    /// Whether the policy, whose time has not ended, sends a request again after these tries, of which this was the last failure. A denied
    /// call has been denied for `denied`.
    pub(super) fn goes_on(
        &self,
        failure: &Failure,
        tries: Tries,
        denied: Option<Duration>,
    ) -> bool {
        let reads_first = matches!(self.busy, OnBusy::ReadFirst(_));
        if reads_first && failure.is_busy() && !tries.is_in_doubt {
            return false;
        }
        let may_help = match self.refusals {
            OnRejection::Retry if failure.is_refused() => true,
            OnRejection::WaitOut if failure.is_denied() => waits_out(failure, denied),
            OnRejection::Retry | OnRejection::WaitOut | OnRejection::Fail => failure.is_transient(),
        };
        may_help && self.limit.allows(tries.counted)
    }
}

/// Whether a failure is a denial that has not lasted for too long yet.
pub(super) fn waits_out(failure: &Failure, denied: Option<Duration>) -> bool {
    failure.is_denied() && denied.is_some_and(|lasted| lasted < DENIED_FOR)
}
