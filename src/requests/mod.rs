//! Sends requests again while that may help: the one loop for all.

mod brakes;
mod denials;
mod policy;
mod reach;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::outage::Access;

use crate::name::LockName;
use crate::store::Store;
use crate::telemetry;
use brakes::Brakes;
use denials::Denials;
pub(crate) use policy::{Limit, RetryPolicy};
use policy::{OnBusy, Tries, waits_out};
pub(crate) use reach::Reach;

/// The first pause before a request is sent again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The requests of a client, or of one waiting call of it.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    /// Sends each of them once.
    pub(crate) store: Store,
    pub(crate) denials: Arc<Denials>,
    brakes: Brakes,
    /// The lock of the waiting call.
    lock: Option<LockName>,
    reach: Reach,
}

impl Requests {
    pub(crate) fn new(store: Store) -> Self {
        Requests {
            store,
            denials: Arc::default(),
            brakes: Brakes::default(),
            lock: None,
            reach: Reach::default(),
        }
    }

    /// The requests of one call at a lock. `reach` is told whether DynamoDB answers it.
    pub(crate) fn telling(&self, lock: &LockName, reach: Reach) -> Self {
        Requests {
            reach,
            lock: Some(lock.clone()),
            ..self.clone()
        }
    }

    /// The same with `factor` times the time-out, for a caller whose requests turned out to be too slow.
    pub(crate) fn with_more_time(&self, factor: u32) -> Self {
        Requests {
            store: self.store.with_more_time(factor),
            ..self.clone()
        }
    }

    /// When the call gives up, if DynamoDB does not answer before. Returns `None` while DynamoDB answers.
    pub(crate) fn outage_ends(&self) -> Option<Moment> {
        self.reach.until()
    }

    /// The listener of the call.
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Repeats an attempt for as long as that may help and `policy` lasts, with growing, jittered pauses.
    pub(crate) async fn retry<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        Ok(self.retry_in_doubt(policy, attempt).await?.0)
    }

    /// As `retry`, for a write whose answer may have been lost. Also tells whether a try before the last one may have been applied.
    pub(crate) async fn retry_in_doubt<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        attempt: impl FnMut() -> Fut,
    ) -> Result<(T, bool), Failure> {
        let longest = self.store.config().heartbeat / 2;
        self.repeat((longest, Access::Write), policy, attempt).await
    }

    /// The same for reads.
    pub(crate) async fn retry_read<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        read: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = self.store.config().heartbeat / 2;
        let answer = self.repeat((longest, Access::Read), policy, read).await;
        Ok(answer?.0)
    }

    /// The same for renewals. They are few, and a lease depends on each: however busy DynamoDB is, their pauses stay short.
    pub(crate) async fn retry_renewal<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        renewal: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = self.store.config().heartbeat / 20;
        let answer = self.repeat((longest, Access::Write), policy, renewal).await;
        Ok(answer?.0)
    }

    /// Ends when the policy does: each round of the loop asks it.
    async fn repeat<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        (longest, access): (Duration, Access),
        policy: &RetryPolicy,
        mut attempt: impl FnMut() -> Fut,
    ) -> Result<(T, bool), Failure> {
        let longest = MAX_PAUSE.min(longest);
        let mut pauses = self.pauses(longest).build();
        let mut tries = Tries::default();
        loop {
            let sent = self.store.now();
            let answer = attempt().await;
            let failure = match self.heard(access, sent, answer) {
                Ok(answer) => return Ok((answer, tries.is_in_doubt)),
                Err(failure) => failure,
            };
            self.note_throttling(&failure);
            tries.note(&failure, policy);
            let denied = self.reach.refused_for();
            if !policy.goes_on(&failure, tries, denied) || !self.has_time_left(policy) {
                return Err(failure);
            }
            telemetry::retried(failure.verb);
            let pause = pauses.next().unwrap_or(longest);
            self.pause(self.pause_after(&failure, pause, policy), policy)
                .await;
        }
    }

    fn pauses(&self, longest: Duration) -> ExponentialBuilder {
        let config = self.store.config();
        ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE.min(longest).min(config.request_timeout))
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(config.random_source.seed())
    }

    fn pause_after(&self, failure: &Failure, pause: Duration, policy: &RetryPolicy) -> Duration {
        let now = self.store.now();
        match policy.busy {
            OnBusy::GiveWay(longest, until) if failure.is_busy() && now < until => {
                self.pause_when_busy(longest).min(until.since(now))
            }
            OnBusy::ReadFirst(longest) if failure.is_busy() => self.pause_when_busy(longest),
            _ => pause,
        }
    }

    /// Ends with `span`: each round of the loop sleeps until there is something to tell, or until the end.
    async fn pause(&self, span: Duration, policy: &RetryPolicy) {
        let until = self.store.now() + span;
        let end = self.reach.ends(policy.until);
        let until = end.map_or(until, |end| until.min(end));
        loop {
            let due = self.reach.due().map_or(until, |due| due.min(until));
            tokio::select! {
                biased;
                () = policy.stop.cancelled() => return,
                () = self.store.config().clock.sleep_until(due) => {}
            }
            self.reach.review(self.store.now());
            if until <= self.store.now() {
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
        self.reach.heard(access, (sent, self.store.now()), answer)
    }

    /// Takes in the answer to a read that was sent then, and that nothing tries again.
    pub(crate) fn heard_read<T>(
        &self,
        sent: Moment,
        answer: Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.heard(Access::Read, sent, answer)
    }

    /// Whether a failure is a denial that has not lasted for too long yet.
    pub(crate) fn waits_out(&self, failure: &Failure) -> bool {
        waits_out(failure, self.reach.refused_for())
    }

    pub(crate) fn has_time_left(&self, policy: &RetryPolicy) -> bool {
        let end = self.reach.ends(policy.until);
        !policy.stop.is_cancelled() && end.is_none_or(|end| self.store.now() < end)
    }

    /// Slows the calls at this lock down if a failure says that DynamoDB is too busy.
    pub(crate) fn note_throttling(&self, failure: &Failure) {
        if failure.is_busy() {
            self.brakes.press(self.lock.as_ref(), self.store.now());
        }
    }

    /// By how much polls are slowed down, because DynamoDB is too busy for us.
    pub(crate) fn slowed(&self) -> u32 {
        self.brakes.factor(self.lock.as_ref(), self.store.now())
    }

    /// How long a request pauses that gives way to the holder's, because DynamoDB is too busy.
    pub(crate) fn pause_when_busy(&self, longest: Duration) -> Duration {
        let chance = self.store.config().random_source.unit();
        let lock = self.lock.as_ref();
        self.brakes.pause(lock, (longest, chance), self.store.now())
    }
}
