//! The time of a call for several locks.

use std::future::pending;
use std::time::Duration;

use crate::agent::client_state::ClientHandle;
use crate::vocabulary::wait::RecordWait;
use fairlock_protocol::moment::Moment;

/// What is left of a time-out that has all but ended.
const NO_TIME: Duration = Duration::from_nanos(1);

/// The time that a call has for all of its locks.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub(super) wait: RecordWait,
    started: Moment,
    /// From then on the call asks for no further lock, and does not begin again. `None` if it waits without end.
    pub(super) ends: Option<Moment>,
}

impl Time {
    pub(super) fn from_now(inner: &ClientHandle, wait: RecordWait, locks: usize) -> Self {
        let started = inner.store.now();
        let ends = match wait {
            RecordWait::Timeout(span) => Some(started + span),
            // By then the call asks for the last lock, however long each lock before it took.
            RecordWait::NoWait => {
                let before = u32::try_from(locks.saturating_sub(1)).unwrap_or(u32::MAX);
                Some(started + inner.no_wait_lasts().saturating_mul(before))
            }
            RecordWait::Infinite => None,
        };
        Time {
            wait,
            started,
            ends,
        }
    }

    pub(super) fn waited(self, inner: &ClientHandle) -> Duration {
        inner.store.now().since(self.started)
    }

    pub(super) fn is_over(self, inner: &ClientHandle) -> bool {
        self.ends.is_some_and(|ends| ends <= inner.store.now())
    }

    /// When the call returns at the latest, unless its client's runtime stands still. The lock that it asked for last has its
    /// time, and then the release of the locks that it took has a request time-out.
    pub(super) fn ends_late(self, inner: &ClientHandle) -> Option<Moment> {
        let release = inner.store.config().request_timeout;
        let late = match self.wait {
            RecordWait::NoWait => inner.no_wait_lasts() + release,
            // This covers leaving the queue and the release.
            RecordWait::Timeout(_) | RecordWait::Infinite => release,
        };
        self.ends.map(|ends| ends + late)
    }

    /// The time that is left for the next lock.
    pub(super) fn left(self, inner: &ClientHandle) -> RecordWait {
        match self.wait {
            RecordWait::Timeout(span) if !span.is_zero() => {
                let left = span.saturating_sub(self.waited(inner));
                RecordWait::Timeout(left.max(NO_TIME))
            }
            other => other,
        }
    }

    /// Resolves with the result of `work` within the time, and never if that comes later.
    pub(super) async fn or_never<T>(
        self,
        inner: &ClientHandle,
        work: impl Future<Output = T>,
    ) -> T {
        let Some(ends) = self.ends else {
            return work.await;
        };
        tokio::select! {
            biased;
            () = inner.store.config().clock.sleep_until(ends) => pending().await,
            done = work => done,
        }
    }
}
