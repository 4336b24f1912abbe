//! Lines that were not empty when this client last released, for as long as that is worth knowing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::name::LockName;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;

/// What this process saw of a line serves to skip an enter that must fail for as long as this.
const LASTS: Duration = Duration::from_secs(1);
/// Hints kept at the most; a client that sees more lines in a second asks without them.
const MOST: usize = 1024;

/// Lines that were not empty when this client last released.
#[derive(Debug, Default)]
pub(super) struct Hints {
    lines: HashMap<LockName, (LockItem, Moment)>,
    /// When each was seen, the oldest first; also of lines that have been seen again, or asked for, since.
    seen: VecDeque<(Moment, LockName)>,
}

impl Hints {
    /// Takes out what a line looked like, if that was a moment ago.
    pub(super) fn take(&mut self, name: &LockName, now: Moment) -> Option<LockItem> {
        self.forget(now);
        self.lines.remove(name).map(|(item, _)| item)
    }

    /// Keeps what a line looks like, but not what its lock carries: nobody decides by that, and it may be large.
    pub(super) fn keep(&mut self, name: &LockName, item: LockItem, now: Moment) {
        self.forget(now);
        if self.lines.len() < MOST && self.seen.len() < MOST {
            let item = LockItem { data: None, ..item };
            self.lines.insert(name.clone(), (item, now));
            self.seen.push_back((now, name.clone()));
        }
    }

    /// Forgets what is too old. Ends with what is not, or with the last.
    pub(super) fn forget(&mut self, now: Moment) {
        while let Some((seen, _)) = self.seen.front()
            && now.since(*seen) >= LASTS
        {
            let Some((seen, name)) = self.seen.pop_front() else {
                return;
            };
            if self.lines.get(&name).is_some_and(|(_, at)| *at == seen) {
                self.lines.remove(&name);
            }
        }
        if self.seen.is_empty() {
            // A burst of lines leaves no room behind.
            self.seen.shrink_to_fit();
            self.lines.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use fairlock_protocol::ticket::Ticket;

    fn name(n: usize) -> LockName {
        LockName::new(&n.to_string(), &Arc::from("namespace")).unwrap()
    }

    fn item() -> LockItem {
        LockItem {
            permits: 64,
            data: Some(Arc::from([7; 1024])),
            ..LockItem::free(Ticket::new(2), Ticket::new(1))
        }
    }

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    #[test]
    fn a_hint_is_of_the_line_and_not_of_what_its_lock_carries() {
        let mut hints = Hints::default();
        hints.keep(&name(1), item(), at(0));
        let hint = hints.take(&name(1), at(999)).unwrap();
        assert_eq!((hint.last, hint.data), (Ticket::new(2), None));
        assert_eq!(hints.take(&name(1), at(999)), None, "it serves once");
    }

    #[test]
    fn what_is_too_old_is_forgotten_whatever_is_asked_for() {
        let mut hints = Hints::default();
        hints.keep(&name(1), item(), at(0));
        hints.keep(&name(2), item(), at(400));
        hints.keep(&name(1), item(), at(600));
        assert_eq!(hints.take(&name(3), at(1399)), None);
        assert_eq!(hints.lines.len(), 2, "one of them was seen again");
        hints.forget(at(1400));
        assert_eq!(hints.lines.len(), 1);
        hints.forget(at(1600));
        assert!(hints.lines.is_empty() && hints.seen.is_empty());
        assert_eq!((hints.lines.capacity(), hints.seen.capacity()), (0, 0));
    }

    #[test]
    fn no_more_are_kept_than_are_worth_it() {
        let mut hints = Hints::default();
        (0..2 * MOST).for_each(|n| hints.keep(&name(n), item(), at(0)));
        // Nor of a few lines that are seen again and again.
        for _ in 0..2 * MOST {
            hints.take(&name(0), at(1));
            hints.keep(&name(0), item(), at(1));
        }
        assert!(hints.lines.len() <= MOST && hints.seen.len() <= MOST);
        hints.keep(&name(0), item(), at(1001));
        assert_eq!(hints.lines.len(), 1);
    }
}
