//! A handle that ends a candidate's term from elsewhere.

use std::sync::Arc;

use crate::runtime::clock::Clock;
use crate::runtime::watched::Watched;
use fairlock_protocol::moment::Moment;

/// How often the candidate was told to resign, and when last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Resigned {
    times: u64,
    last: Option<Moment>,
}

impl Resigned {
    pub(super) fn is_after(self, then: Moment) -> bool {
        self.last > Some(then)
    }
}

/// Ends a candidate's term from elsewhere. Cheap to clone.
///
/// # Examples
///
/// ```
/// # async fn serve(lock: fairlock::FairLock) {
/// let candidate = lock.candidate();
/// let resignation = candidate.resignation();
/// tokio::spawn(candidate.lead::<()>(async |_| std::future::pending().await));
/// resignation.resign(); // another candidate leads next, if there is one
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ResignHandle {
    resigned: Arc<Watched<Resigned>>,
    clock: Clock,
}

impl ResignHandle {
    pub(super) fn new(resigned: Arc<Watched<Resigned>>, clock: Clock) -> Self {
        ResignHandle { resigned, clock }
    }

    /// Ends the term that is under way: its work is dropped, the lock is released, and the candidate stands at the end of the
    /// queue. A term is under way from the moment at which the client holds the lock, also before
    /// [`lead`](crate::Candidate::lead) is polled again and begins the work. Does nothing while the candidate waits.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn maintenance(resignation: &fairlock::ResignHandle) {
    /// resignation.resign();
    /// # }
    /// ```
    pub fn resign(&self) {
        let now = self.clock.now();
        self.resigned.change(|resigned| {
            resigned.times += 1;
            resigned.last = Some(now);
            true
        });
    }
}
