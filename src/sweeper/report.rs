//! What a sweep removed.

use std::fmt;

/// How many things a sweep removed, by kind. Each count is a lower bound: a removal whose answer was lost may add one.
///
/// # Examples
///
/// ```
/// # async fn sweep(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
/// let swept = lock.sweep().await?;
/// println!("{}: {swept}", lock.name());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Dead holders evicted.
    pub holders: u64,
    /// Dead successors whose slots were taken away.
    pub successors: u64,
    /// Dead waiters whose tickets were made void.
    pub waiters: u64,
    /// Tickets made void that were drawn and never joined the queue.
    pub gaps: u64,
    /// Rows of settled tickets deleted.
    pub rows: u64,
    /// Idle lock items deleted.
    pub locks: u64,
    /// More may be left to be removed: sweep again. There was more than one pass removes, other clients were first six times in a
    /// row, a client made the lock's item meanwhile, or the sweep was stopped.
    pub has_more: bool,
}

impl SweepReport {
    /// Whether nothing was removed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.counts().iter().all(|(count, _)| *count == 0)
    }

    fn counts(&self) -> [(u64, &'static str); 6] {
        [
            (self.holders, "dead holders"),
            (self.successors, "dead successors"),
            (self.waiters, "dead waiters"),
            (self.gaps, "gaps"),
            (self.rows, "settled rows"),
            (self.locks, "idle locks"),
        ]
    }

    fn add(&mut self, other: SweepReport) {
        self.holders += other.holders;
        self.successors += other.successors;
        self.waiters += other.waiters;
        self.gaps += other.gaps;
        self.rows += other.rows;
        self.locks += other.locks;
        self.has_more |= other.has_more;
    }
}

impl fmt::Display for SweepReport {
    /// The line names the kinds of which something was removed, with their counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        let removed = counts.iter().filter(|(count, _)| *count > 0);
        let removed: Vec<_> = removed
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        match removed.is_empty() {
            true => f.write_str("nothing to remove")?,
            false => write!(f, "removed {}", removed.join(", "))?,
        }
        match self.has_more {
            true => f.write_str("; there is more"),
            false => Ok(()),
        }
    }
}

/// What one sweep of a table did.
///
/// # Examples
///
/// ```
/// assert_eq!(fairlock::TableSweepReport::default().to_string(), "0 locks, 0 failed: nothing to remove");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSweepReport {
    /// Locks that the sweep visited.
    pub locks: u64,
    /// Locks among them that could not be swept to the end; the log says why.
    pub failed: u64,
    /// What the sweep removed from all of them.
    pub removed: SweepReport,
}

impl TableSweepReport {
    /// Counts the sweep of one lock, if it came to an end.
    pub(crate) fn add(&mut self, swept: Option<SweepReport>) {
        self.locks += 1;
        match swept {
            Some(swept) => self.removed.add(swept),
            None => self.failed += 1,
        }
    }
}

impl fmt::Display for TableSweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableSweepReport {
            locks,
            failed,
            removed,
        } = self;
        write!(f, "{locks} locks, {failed} failed: {removed}")
    }
}
