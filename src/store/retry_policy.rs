//! How long to go on trying, and with which pauses.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use tokio_util::sync::CancellationToken;

use fairlock_protocol::moment::Moment;

use super::Store;
use super::failure::Failure;
use crate::telemetry;

/// The first pause before a request is sent again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// How many attempts may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    Attempts(usize),
    /// This many attempts that the table does not serve. An answer that it is too busy does not count, because it shows that the
    /// table is there.
    Unanswered(usize),
}

/// What to do about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnRejection {
    /// The refusal is for good.
    Fail,
    /// An access policy, for example, may be mended in time. Until then, what stands in the table is in the way of others.
    Retry,
}

/// How long to go on trying.
#[derive(Clone, Debug)]
pub(crate) struct RetryPolicy {
    until: Option<Moment>,
    limit: Limit,
    refusals: OnRejection,
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
            Limit::Unanswered(_) => !failure.is_not_now(),
        }
    }

    fn allows(self, failed: usize) -> bool {
        match self {
            Limit::None => true,
            Limit::Attempts(most) | Limit::Unanswered(most) => failed < most,
        }
    }
}

impl Store {
    /// Repeats an attempt for as long as that may help and `policy` lasts, with growing, jittered pauses.
    pub(crate) async fn retry<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = MAX_PAUSE.min(self.config.heartbeat / 2);
        self.repeat(longest, policy, attempt).await
    }

    /// The same for renewals. They are few, and a lease depends on each: however busy DynamoDB is, their pauses stay short.
    pub(crate) async fn retry_renewal<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        renewal: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = MAX_PAUSE.min(self.config.heartbeat / 20);
        self.repeat(longest, policy, renewal).await
    }

    async fn repeat<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        longest: Duration,
        policy: &RetryPolicy,
        mut attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let (clock, stop) = (self.config.clock.clone(), policy.stop.clone());
        let (reach, until) = (self.reach.clone(), policy.until);
        let pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE.min(longest).min(self.config.request_timeout))
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.config.random_source.seed());
        let pause = move |span: Duration| {
            let (clock, stop) = (clock.clone(), stop.clone());
            let span = reach
                .ends(until)
                .map_or(span, |end| span.min(end.since(clock.now())));
            async move {
                tokio::select! { biased; () = stop.cancelled() => {}, () = clock.sleep(span) => {} }
            }
        };
        let told = || {
            let (sent, going) = (self.now(), attempt());
            async move {
                let answer = going.await;
                self.reach.heard(sent, self.now(), answer)
            }
        };
        told.retry(pauses)
            .sleep(pause)
            .when(self.worth_another(policy))
            .await
    }

    /// Whether to try again after a failure. Counts the failures.
    fn worth_another(&self, policy: &RetryPolicy) -> impl FnMut(&Failure) -> bool {
        let mut counted = 0;
        move |failure| {
            self.note_throttling(failure);
            counted += usize::from(policy.limit.counts(failure));
            let may_help = match policy.refusals {
                OnRejection::Retry if failure.is_refused() => true,
                OnRejection::Retry | OnRejection::Fail => failure.is_transient(),
            };
            let again = may_help && policy.limit.allows(counted) && self.has_time_left(policy);
            if again {
                telemetry::retried(failure.verb);
            }
            again
        }
    }

    pub(crate) fn has_time_left(&self, policy: &RetryPolicy) -> bool {
        !policy.stop.is_cancelled()
            && self
                .reach
                .ends(policy.until)
                .is_none_or(|end| self.now() < end)
    }
}
