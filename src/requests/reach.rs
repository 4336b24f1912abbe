//! What keeps a waiting call from its turn, since when, and when the listener is told.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::outage::{Access, News, Outages, ToldOutage};

type Listener = Box<dyn Fn(News) + Send + Sync>;

/// What keeps one call. The store that the call uses carries it. By default there is no listener.
#[derive(Clone, Default)]
pub(crate) struct Reach(Option<Arc<ReachState>>);

/// What is known of one call.
struct ReachState {
    listener: Listener,
    /// For how long the call puts up with no answers.
    most: Option<Duration>,
    state: Mutex<Outages>,
}

impl Reach {
    /// Tells `listener` what keeps a call. Another call at the door may have been told before.
    pub(crate) fn new(
        most: Option<Duration>,
        told: Option<ToldOutage>,
        listener: impl Fn(News) + Send + Sync + 'static,
    ) -> Self {
        Reach(Some(Arc::new(ReachState {
            listener: Box::new(listener),
            most,
            state: Mutex::new(Outages::after(told)),
        })))
    }

    /// Takes in the result of a request.
    pub(super) fn heard<T>(
        &self,
        access: Access,
        (sent, now): (Moment, Moment),
        answer: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(reach) = &self.0 else { return answer };
        reach.state().hears(access, sent, answer.as_ref().err());
        self.review(now);
        answer
    }

    /// Tells the listener what is due to be told.
    pub(crate) fn review(&self, now: Moment) {
        let Some(reach) = &self.0 else { return };
        let news = reach.state().news(now);
        if let Some(news) = news {
            (reach.listener)(news);
        }
    }

    /// When there will be something to tell, if nothing changes until then.
    pub(crate) fn due(&self) -> Option<Moment> {
        self.0.as_ref()?.state().due()
    }

    /// For how long DynamoDB has refused the requests of the call.
    pub(super) fn refused_for(&self) -> Option<Duration> {
        self.0.as_ref()?.state().refused_for()
    }

    /// When there are no more attempts: at the end of a call's policy, or when there have been no answers for as long as the call
    /// puts up with that.
    pub(super) fn ends(&self, until: Option<Moment>) -> Option<Moment> {
        until.into_iter().chain(self.until()).min()
    }

    /// When there will have been no answers for as long as the call puts up with that.
    pub(super) fn until(&self) -> Option<Moment> {
        let reach = self.0.as_ref()?;
        let since = reach.state().unanswered_since();
        Some(since? + reach.most?)
    }
}

impl ReachState {
    fn state(&self) -> MutexGuard<'_, Outages> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.0.as_ref().map(|reach| reach.state().told());
        f.debug_struct("Reach")
            .field("told", &told)
            .finish_non_exhaustive()
    }
}
