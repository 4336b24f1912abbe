//! What a ledger's book shows, judged without regard to what the ledger itself decided.

use std::fmt;
use std::time::Duration;

use super::ledger::{Book, Hold};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Two processes believed at the same time.
    pub(crate) overlaps: usize,
    /// Accepted with an older ticket than a write before.
    pub(crate) stale: usize,
    /// Grants whose ticket was not above that of the grant before.
    pub(crate) disorder: usize,
    pub(crate) holds: usize,
    pub(crate) writes: usize,
    /// Writes that the ledger refused. A ledger that does not check tickets would have accepted them.
    pub(crate) refused: usize,
    /// The shortest time from a write to the first one of the next holder.
    pub(crate) closest: Duration,
}

impl Verdict {
    pub(crate) fn of(book: &Book) -> Verdict {
        let mut holds = book.holds.clone();
        holds.sort_by_key(|hold| hold.from);
        let disorder = holds
            .windows(2)
            .filter(|pair| pair[0].ticket >= pair[1].ticket);
        Verdict {
            overlaps: overlaps(&holds),
            stale: stale(book),
            disorder: disorder.count(),
            holds: holds.len(),
            writes: book.writes.len(),
            refused: book.refused,
            closest: closest(book),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        (self.overlaps, self.stale, self.disorder) == (0, 0, 0)
    }
}

/// Counts the holds that began before all holds before them had ended.
fn overlaps(holds: &[Hold]) -> usize {
    let mut over = 0;
    let mut count = 0;
    for hold in holds {
        // A process that was stopped before it could check believes in nothing.
        if hold.until <= hold.from {
            continue;
        }
        count += usize::from(hold.from < over);
        over = over.max(hold.until);
    }
    count
}

fn stale(book: &Book) -> usize {
    let mut newest = 0;
    let mut count = 0;
    for write in &book.writes {
        count += usize::from(write.ticket < newest);
        newest = newest.max(write.ticket);
    }
    count
}

fn closest(book: &Book) -> Duration {
    let pairs = book.writes.windows(2);
    let next = pairs.filter(|pair| pair[0].ticket != pair[1].ticket);
    let closest = next.map(|pair| pair[1].at.saturating_sub(pair[0].at)).min();
    Duration::from_nanos(closest.unwrap_or(0))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict {
            overlaps,
            stale,
            disorder,
            holds,
            writes,
            refused,
            closest,
        } = self;
        write!(
            f,
            "{holds} holds, {writes} writes, {refused} refused; {overlaps} overlaps, {stale} stale \
             writes taken, {disorder} grants out of order; handoffs in {closest:.1?} and more"
        )
    }
}
