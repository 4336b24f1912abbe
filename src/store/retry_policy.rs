//! How long to go on trying, and with which pauses.

use std::future::Future;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio_util::sync::CancellationToken;

use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;

use super::Store;
use super::reachability::Access;
use crate::telemetry;

/// The first pause before a request is sent again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_secs(2);
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
enum OnRejection {
    /// The refusal is for good.
    Fail,
    /// A policy that was just attached denies for some seconds. A waiting call puts up with that.
    WaitOut,
    /// An access policy, for example, may be mended in time. Until then, what stands in the table is in the way of others.
    Retry,
}

/// What to do about an answer that DynamoDB is too busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnBusy {
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
    until: Option<Moment>,
    limit: Limit,
    refusals: OnRejection,
    busy: OnBusy,
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

impl Store {
    /// Repeats an attempt for as long as that may help and `policy` lasts, with growing, jittered pauses.
    pub(crate) async fn retry<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = MAX_PAUSE.min(self.config.heartbeat / 2);
        self.repeat((longest, Access::Write), policy, attempt).await
    }

    /// As `retry`, for a write whose answer may have been lost. Also tells whether a try before the last one may have been applied.
    pub(crate) async fn retry_in_doubt<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        mut attempt: impl FnMut() -> Fut,
    ) -> Result<(T, bool), Failure> {
        let mut tries = 0;
        let counted = || {
            tries += 1;
            attempt()
        };
        let answer = self.retry(policy, counted).await?;
        Ok((answer, tries > 1))
    }

    /// The same for reads.
    pub(crate) async fn retry_read<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        read: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = MAX_PAUSE.min(self.config.heartbeat / 2);
        self.repeat((longest, Access::Read), policy, read).await
    }

    /// The same for renewals. They are few, and a lease depends on each: however busy DynamoDB is, their pauses stay short.
    pub(crate) async fn retry_renewal<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        renewal: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = MAX_PAUSE.min(self.config.heartbeat / 20);
        self.repeat((longest, Access::Write), policy, renewal).await
    }

    /// Ends when the policy does: each round of the loop asks it.
    async fn repeat<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        (longest, access): (Duration, Access),
        policy: &RetryPolicy,
        mut attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE.min(longest).min(self.config.request_timeout))
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.config.random_source.seed());
        let mut pauses = pauses.build();
        let mut is_worth_another = self.worth_another(policy);
        loop {
            let sent = self.now();
            let answer = attempt().await;
            let failure = match self.heard(access, sent, answer) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if !is_worth_another(&failure) {
                return Err(failure);
            }
            let pause = pauses.next().unwrap_or(longest);
            let pause = match policy.busy {
                OnBusy::GiveWay(longest, until) if failure.is_busy() && self.now() < until => {
                    self.pause_when_busy(longest).min(until.since(self.now()))
                }
                OnBusy::ReadFirst(longest) if failure.is_busy() => self.pause_when_busy(longest),
                _ => pause,
            };
            self.pause(pause, policy).await;
        }
    }

    /// Ends with `span`: each round of the loop sleeps until there is something to tell, or until the end.
    async fn pause(&self, span: Duration, policy: &RetryPolicy) {
        let until = self.now() + span;
        let until = self
            .reach
            .ends(policy.until)
            .map_or(until, |end| until.min(end));
        loop {
            let due = self.reach.due().map_or(until, |due| due.min(until));
            tokio::select! {
                biased;
                () = policy.stop.cancelled() => return,
                () = self.config.clock.sleep_until(due) => {}
            }
            self.reach.review(self.now());
            if until <= self.now() {
                return;
            }
        }
    }

    /// Takes in the answer to a request that was sent then.
    fn heard<T>(
        &self,
        access: Access,
        sent: Moment,
        answer: Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.reach.heard(access, (sent, self.now()), answer)
    }

    /// Takes in the answer to a read that was sent then, and that nothing tries again.
    pub(crate) fn heard_read<T>(
        &self,
        sent: Moment,
        answer: Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.heard(Access::Read, sent, answer)
    }

    /// Whether to try again after a failure. Counts the failures.
    fn worth_another(&self, policy: &RetryPolicy) -> impl FnMut(&Failure) -> bool {
        let (mut counted, mut is_in_doubt) = (0, false);
        let reads_first = matches!(policy.busy, OnBusy::ReadFirst(_));
        move |failure| {
            self.note_throttling(failure);
            is_in_doubt |= failure.is_ambiguous();
            if reads_first && failure.is_busy() && !is_in_doubt {
                return false;
            }
            counted += usize::from(policy.limit.counts(failure));
            let may_help = match policy.refusals {
                OnRejection::Retry if failure.is_refused() => true,
                OnRejection::WaitOut if failure.is_denied() => self.waits_out(failure),
                OnRejection::Retry | OnRejection::WaitOut | OnRejection::Fail => {
                    failure.is_transient()
                }
            };
            let again = may_help && policy.limit.allows(counted) && self.has_time_left(policy);
            if again {
                telemetry::retried(failure.verb);
            }
            again
        }
    }

    /// Whether a failure is a denial that has not lasted for too long yet.
    pub(crate) fn waits_out(&self, failure: &Failure) -> bool {
        let since = self.reach.refused_since().filter(|_| failure.is_denied());
        since.is_some_and(|since| self.now() < since + DENIED_FOR)
    }

    pub(crate) fn has_time_left(&self, policy: &RetryPolicy) -> bool {
        !policy.stop.is_cancelled()
            && self
                .reach
                .ends(policy.until)
                .is_none_or(|end| self.now() < end)
    }
}
