//! Whether DynamoDB answers a waiting call, since when it does not, and the listener that is told.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock_protocol::moment::Moment;

use super::failure::Failure;

/// What a waiting call is told of its requests.
#[derive(Debug)]
pub(crate) enum News {
    /// A request had no answer.
    Unanswered {
        /// When the first request without an answer was sent.
        since: Moment,
        /// No request has been lost before this one since the last answer.
        is_first: bool,
        failure: Failure,
    },
    /// The first answer after that came, this long after `since`.
    Answered { after: Duration },
}

type Listener = Box<dyn Fn(News) + Send + Sync>;

/// Whether DynamoDB answers one call. The store that the call uses carries it. By default there is no listener.
#[derive(Clone, Default)]
pub(crate) struct Reach(Option<Arc<ReachState>>);

/// What is known of one call.
struct ReachState {
    listener: Listener,
    /// For how long the call puts up with no answers.
    most: Option<Duration>,
    since: Mutex<Option<Moment>>,
}

impl Reach {
    /// Tells `listener` of requests without an answer. Another call may have sent the first of them before.
    pub(crate) fn new(
        most: Option<Duration>,
        since: Option<Moment>,
        listener: impl Fn(News) + Send + Sync + 'static,
    ) -> Self {
        Reach(Some(Arc::new(ReachState {
            listener: Box::new(listener),
            most,
            since: Mutex::new(since),
        })))
    }

    /// Takes in the result of a request.
    pub(super) fn heard<T>(
        &self,
        sent: Moment,
        now: Moment,
        answer: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(state) = &self.0 else { return answer };
        match answer {
            Err(failure) if failure.is_unanswered() => {
                let (failure, other) = failure.shared();
                state.lost(sent, failure);
                Err(other)
            }
            // Nothing was sent, so nothing is known.
            Err(failure) if failure.is_unsigned() => Err(failure),
            answer => {
                state.found(now);
                answer
            }
        }
    }

    /// When there are no more attempts: at the end of a call's policy, or when there have been no answers for as long as the call
    /// puts up with that.
    pub(super) fn ends(&self, until: Option<Moment>) -> Option<Moment> {
        until.into_iter().chain(self.until()).min()
    }

    /// When there will have been no answers for as long as the call puts up with that.
    pub(super) fn until(&self) -> Option<Moment> {
        let state = self.0.as_ref()?;
        let since = *state.since();
        Some(since? + state.most?)
    }
}

impl ReachState {
    fn lost(&self, sent: Moment, failure: Failure) {
        let (since, is_first) = {
            let mut since = self.since();
            let is_first = since.is_none();
            (*since.get_or_insert(sent), is_first)
        };
        (self.listener)(News::Unanswered {
            since,
            is_first,
            failure,
        });
    }

    fn found(&self, now: Moment) {
        let since = self.since().take();
        if let Some(since) = since {
            let after = now.since(since);
            (self.listener)(News::Answered { after });
        }
    }

    fn since(&self) -> MutexGuard<'_, Option<Moment>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.as_ref().map(|state| *state.since());
        f.debug_struct("Reach")
            .field("since", &since)
            .finish_non_exhaustive()
    }
}
