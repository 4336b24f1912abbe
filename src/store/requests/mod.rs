//! Sends requests again while that may help: the one loop of all operations but those of places, for which their client decides.

mod denials;
mod policy;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use fairlock_protocol::failure::Failure;

use crate::store::Store;
use crate::telemetry;
use denials::Denials;
use policy::Tries;
pub(crate) use policy::{Limit, RetryPolicy};

/// The first pause before a request is sent again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The requests of a client.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    /// Sends each of them once.
    pub(crate) store: Store,
    pub(crate) denials: Arc<Denials>,
}

impl Requests {
    pub(crate) fn new(store: Store) -> Self {
        Requests {
            store,
            denials: Arc::default(),
        }
    }

    /// The same with `factor` times the time-out, for a caller whose requests turned out to be too slow.
    pub(crate) fn with_more_time(&self, factor: u32) -> Self {
        Requests {
            store: self.store.with_more_time(factor),
            ..self.clone()
        }
    }

    /// Repeats an attempt for as long as that may help and `policy` lasts, with growing, jittered pauses.
    pub(crate) async fn retry<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        Ok(self.retry_in_doubt(policy, attempt).await?.0)
    }

    /// As `retry`, for a write whose answer may have been lost. Also tells whether a try before the last one may have been applied. Ends when
    /// the policy does: each round of the loop asks it.
    pub(crate) async fn retry_in_doubt<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        policy: &RetryPolicy,
        mut attempt: impl FnMut() -> Fut,
    ) -> Result<(T, bool), Failure> {
        let longest = MAX_PAUSE.min(self.store.config().heartbeat / 2);
        let mut pauses = self.pauses(longest).build();
        let mut tries = Tries::default();
        loop {
            let failure = match attempt().await {
                Ok(answer) => return Ok((answer, tries.is_in_doubt)),
                Err(failure) => failure,
            };
            tries.note(&failure, policy);
            if !policy.goes_on(&failure, tries, self.store.now()) {
                return Err(failure);
            }
            telemetry::retried(failure.verb);
            let until = self.store.now() + pauses.next().unwrap_or(longest);
            tokio::select! {
                biased;
                () = policy.stop.cancelled() => {}
                () = self.store.config().clock.sleep_until(policy.earlier(until)) => {}
            }
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
}
