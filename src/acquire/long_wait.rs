//! When to log a wait that has become long.

use std::time::Duration;

use fairlock_protocol::moment::Moment;

/// A wait is logged when it has lasted this long, and again whenever it has doubled.
const LONG: Duration = Duration::from_secs(10);

/// When to log a wait next.
#[derive(Debug)]
pub(super) struct LongWaitLog {
    started: Moment,
    next: Duration,
}

impl LongWaitLog {
    pub(super) fn of(started: Moment) -> Self {
        LongWaitLog {
            started,
            next: LONG,
        }
    }

    pub(super) fn due(&self) -> Moment {
        self.started + self.next
    }

    /// How long the wait is, if it is to be logged now.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Duration> {
        let waited = now.since(self.started);
        if waited < self.next {
            return None;
        }
        // Ends when the next time is later than the wait has lasted: each pass of the loop doubles it.
        while self.next <= waited {
            self.next = self.next.saturating_mul(2);
        }
        Some(waited)
    }
}
