//! How long to go on trying, and with which pauses.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use tokio_util::sync::CancellationToken;

use fairlock_protocol::moment::Moment;

use super::Store;
use super::failure::Failure;

/// The first pause before a request is sent again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How many attempts there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    Attempts(usize),
    /// So many that the table does not answer for us; that it is too busy is an answer, and shows that it is there.
    Unanswered(usize),
}

/// What to make of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusals {
    /// It is for good.
    Final,
    /// A policy, say, which may be mended in time: what stands in the table is in the way of others until then.
    Passing,
}

/// How long to go on trying.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    until: Option<Moment>,
    limit: Limit,
    refusals: Refusals,
    /// Ends the pauses between attempts; an attempt under way runs to its end.
    pub(crate) stop: CancellationToken,
}

/// The one room in which it is put together.
impl Patience {
    /// Goes on until a request is answered, or refused for good, or this stops it.
    pub(crate) fn stopped_by(stop: &CancellationToken) -> Self {
        Patience {
            until: None,
            limit: Limit::None,
            refusals: Refusals::Final,
            stop: stop.clone(),
        }
    }

    /// No longer than until then.
    pub(crate) fn until(mut self, then: Moment) -> Self {
        self.until = Some(self.until.map_or(then, |until| until.min(then)));
        self
    }

    /// Whether its time is over, whatever else could end it.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    pub(crate) fn within(self, limit: Limit) -> Self {
        Patience { limit, ..self }
    }

    /// Goes on where it is refused: a policy, say, may be mended in time.
    pub(crate) fn through_refusals(self) -> Self {
        Patience {
            refusals: Refusals::Passing,
            ..self
        }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Patience::stopped_by(&CancellationToken::new())
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
    /// Repeats an attempt for as long as that may help and `patience` lasts, with growing, jittered pauses.
    pub(crate) async fn persist<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        patience: &Patience,
        attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = LONGEST_PAUSE.min(self.config.heartbeat / 2);
        self.repeat(longest, patience, attempt).await
    }

    /// The same for renewals. They are few, and a lease depends on each: however busy DynamoDB is, their pauses stay short.
    pub(crate) async fn insist<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        patience: &Patience,
        renewal: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = LONGEST_PAUSE.min(self.config.heartbeat / 20);
        self.repeat(longest, patience, renewal).await
    }

    async fn repeat<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        longest: Duration,
        patience: &Patience,
        mut attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let (clock, stop) = (self.config.clock.clone(), patience.stop.clone());
        let (reach, until) = (self.reach.clone(), patience.until);
        let pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE.min(longest).min(self.config.request_timeout))
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.config.chance.seed());
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
            .when(self.worth_another(patience))
            .await
    }

    /// Whether to try again after a failure; it counts them.
    fn worth_another(&self, patience: &Patience) -> impl FnMut(&Failure) -> bool {
        let mut counted = 0;
        move |failure| {
            self.heed(failure);
            counted += usize::from(patience.limit.counts(failure));
            let may_help = match patience.refusals {
                Refusals::Passing if failure.is_refused() => true,
                Refusals::Passing | Refusals::Final => failure.is_transient(),
            };
            may_help && patience.limit.allows(counted) && self.has_patience(patience)
        }
    }

    pub(crate) fn has_patience(&self, patience: &Patience) -> bool {
        !patience.stop.is_cancelled()
            && self
                .reach
                .ends(patience.until)
                .is_none_or(|end| self.now() < end)
    }
}
