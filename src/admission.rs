//! Admission control: thousands who ask one client for locks at once go to their doors a few at a time, in the order in
//! which they asked, or all of them would be late.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::clock::Clock;

/// Three thousand requests a second over a round trip of 10 ms: more than one item takes.
const AT_ONCE: usize = 32;

#[derive(Debug)]
pub(crate) struct Admission {
    places: Semaphore,
    /// How many came through.
    passed: AtomicU64,
}

impl Default for Admission {
    fn default() -> Self {
        Admission {
            places: Semaphore::new(AT_ONCE),
            passed: AtomicU64::new(0),
        }
    }
}

impl Admission {
    /// Waits for one of the places. When nobody came through for all of `jam`, nothing answers, and each is to find out for itself,
    /// without a place. Cancel safe, but for the place in this order.
    pub(crate) async fn admit(&self, clock: &Clock, jam: Duration) -> Option<SemaphorePermit<'_>> {
        let place = self.places.acquire();
        tokio::pin!(place);
        loop {
            let passed = self.passed.load(Ordering::Relaxed);
            tokio::select! {
                biased;
                place = &mut place => return place.ok(),
                () = clock.sleep(jam) => {}
            }
            if self.passed.load(Ordering::Relaxed) == passed {
                return None;
            }
        }
    }

    /// Notes that one came through.
    pub(crate) fn passed(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
    }
}
