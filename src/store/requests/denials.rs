//! Actions that only cleaning needs and that a policy denies. Each client reports a denial once, and tries the action again now
//! and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::store::Operation;
use fairlock_protocol::moment::Moment;

/// A client notices after this time that a policy was mended.
const TRIED_AGAIN: Duration = Duration::from_secs(600);

/// The denials that one client knows of.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    /// When each action was last denied.
    denied: Mutex<Vec<(Operation, Moment)>>,
    /// Settled rows that stayed in the table.
    left: AtomicU64,
}

impl Denials {
    /// Whether an action was denied a while ago, so that it is not worth a request now.
    pub(crate) fn is_denied(&self, action: Operation, now: Moment) -> bool {
        let denied = self.denied();
        let mut of_it = denied.iter().filter(|(denied, _)| *denied == action);
        of_it.any(|(_, at)| now.since(*at) < TRIED_AGAIN)
    }

    /// Notes that an action was denied. Returns whether that is news.
    pub(crate) fn note(&self, action: Operation, now: Moment) -> bool {
        let mut denied = self.denied();
        let known = denied.len();
        denied.retain(|(denied, _)| *denied != action);
        denied.push((action, now));
        denied.len() > known
    }

    pub(crate) fn leave(&self, rows: usize) {
        self.left.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// How many settled rows this client left in the table because a policy denies their deletion.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    fn denied(&self) -> MutexGuard<'_, Vec<(Operation, Moment)>> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_action_is_news_once_and_tried_again_after_a_while() {
        let (denials, action) = (Denials::default(), Operation::BatchWriteItem);
        let at = |seconds| Moment(Duration::from_secs(seconds));
        assert!(!denials.is_denied(action, at(0)));
        assert!(denials.note(action, at(0)));
        assert!(denials.is_denied(action, at(599)) && !denials.is_denied(action, at(600)));
        assert!(!denials.note(action, at(600)));
        assert!(denials.is_denied(action, at(1199)));
        assert!(!denials.is_denied(Operation::DeleteItem, at(600)));
        assert!(denials.note(Operation::DeleteItem, at(600)));
    }
}
