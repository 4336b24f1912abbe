//! A lock as a line of the list: its numbers at one moment.

use std::cmp::{Ordering, Reverse};
use std::time::{Duration, SystemTime};

use super::turn_rate::Seen;

/// What is told of one lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The name as the table has it.
    pub(crate) lock: String,
    /// The holder that has held the lock for longest.
    pub(crate) holder: Option<String>,
    pub(crate) holders: usize,
    pub(crate) held_for: Option<Duration>,
    /// What is left of the holder's lease. Zero means that it looks dead.
    pub(crate) lease_left: Option<Duration>,
    pub(crate) waiting: u64,
    pub(crate) turns_a_minute: Option<f64>,
    /// How long a turn takes, the handoff included.
    pub(crate) turn: Option<Duration>,
    /// When the hold is expected to end: zero if it has lasted longer than the mean turn.
    pub(crate) ends_in: Option<Duration>,
}

impl Row {
    pub(crate) fn of(seen: &Seen, now: SystemTime) -> Row {
        let lock = &seen.lock;
        let held_for = |since| now.duration_since(since).unwrap_or_default();
        let held_for = lock.held_since.map(held_for);
        let holder = lock.holders.first();
        let turn = seen.turn();
        Row {
            lock: lock.name.clone(),
            holder: holder.map(|holder| holder.owner.clone()),
            holders: lock.holders.len(),
            held_for,
            lease_left: holder.and_then(|holder| holder.lease_left),
            waiting: lock.waiting,
            turns_a_minute: seen.turns_a_minute(),
            turn,
            ends_in: turn
                .zip(held_for)
                .map(|(turn, held)| turn.saturating_sub(held)),
        }
    }

    /// How long a caller that came now may wait.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let turns = u32::try_from(self.waiting).ok()?;
        Some(
            self.turn?
                .saturating_mul(turns)
                .saturating_add(self.ends_in?),
        )
    }
}

/// By what the list is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The locks with most turns a minute first, and then those with the longest queues.
    #[default]
    Turns,
    /// The longest queues first.
    Waiting,
    /// The longest holds first.
    Held,
    /// By name.
    Name,
}

impl Sort {
    const ALL: [Sort; 4] = [Sort::Turns, Sort::Waiting, Sort::Held, Sort::Name];

    /// The next one, and after the last the first.
    pub(crate) fn next(self) -> Sort {
        let later = Sort::ALL.iter().skip_while(|sort| **sort != self).nth(1);
        later.copied().unwrap_or_default()
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Sort::Turns => "turns a minute",
            Sort::Waiting => "waiting",
            Sort::Held => "held for",
            Sort::Name => "name",
        }
    }

    /// Sorts rows. Rows that are alike are sorted by their names, so that they stay where they are from read to read.
    pub(crate) fn sort(self, rows: &mut [Row]) {
        rows.sort_by(|a, b| self.compare(a, b).then_with(|| a.lock.cmp(&b.lock)));
    }

    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let by_waiting = || Reverse(a.waiting).cmp(&Reverse(b.waiting));
        let turns = |row: &Row| row.turns_a_minute.unwrap_or_default();
        match self {
            Sort::Turns => turns(b).total_cmp(&turns(a)).then_with(by_waiting),
            Sort::Waiting => by_waiting(),
            Sort::Held => b.held_for.cmp(&a.held_for),
            Sort::Name => Ordering::Equal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::samples::{THEN, contended, free};

    const SECOND: Duration = Duration::from_secs(1);

    /// A lock in whose queue a turn ends every two seconds.
    fn moving() -> Seen {
        let mut seen = Seen::new(contended("a", 100, 3), Duration::ZERO);
        for nth in 1..6 {
            seen.read(contended("a", 100 + u64::from(nth), 3), 2 * nth * SECOND);
        }
        seen
    }

    #[test]
    fn the_end_is_expected_after_the_mean_turn_and_the_wait_is_one_for_each_waiter_besides() {
        let row = Row::of(&moving(), THEN + SECOND / 2);
        assert_eq!(row.turn, Some(2 * SECOND));
        assert_eq!(row.ends_in, Some(3 * SECOND / 2));
        assert_eq!(row.wait(), Some(15 * SECOND / 2));
        let late = Row::of(&moving(), THEN + 9 * SECOND);
        assert_eq!(
            (late.held_for, late.ends_in),
            (Some(9 * SECOND), Some(Duration::ZERO))
        );
        // A clock behind that of the server makes no hold of less than nothing.
        let early = Row::of(&moving(), THEN - SECOND);
        assert_eq!(early.held_for, Some(Duration::ZERO));
    }

    #[test]
    fn a_free_lock_has_no_hold() {
        let row = Row::of(&Seen::new(free("a", 7), Duration::ZERO), THEN);
        assert_eq!((row.holder, row.held_for, row.ends_in), (None, None, None));
    }

    #[test]
    fn rows_are_sorted_by_what_was_asked_for_and_then_by_name() {
        let row = |lock: &str, turns, waiting, held| Row {
            lock: lock.to_owned(),
            turns_a_minute: turns,
            waiting,
            held_for: held,
            ..Row::of(&Seen::new(free("", 1), Duration::ZERO), THEN)
        };
        let all = [
            row("c", None, 9, None),
            row("b", Some(2.0), 1, Some(SECOND)),
            row("d", Some(2.0), 2, Some(3 * SECOND)),
            row("a", None, 1, None),
        ];
        let sorted = |sort: Sort| {
            let mut rows = all.clone();
            sort.sort(&mut rows);
            rows.map(|row| row.lock).concat()
        };
        assert_eq!(sorted(Sort::Turns), "dbca");
        assert_eq!(sorted(Sort::Waiting), "cdab");
        assert_eq!(sorted(Sort::Held), "dbac");
        assert_eq!(sorted(Sort::Name), "abcd");
        assert_eq!(Sort::Name.next(), Sort::Turns);
    }
}
