//! What several reads of one lock tell: how its turns pass. A single read tells where the lock stands, and nothing of its pace.

use std::collections::VecDeque;
use std::time::Duration;

use super::lock::Lock;

/// Turns a minute are those of this time before the newest read.
const WINDOW: Duration = Duration::from_secs(60);
/// How many reads that saw a turn end are kept, for the mean turn. The library takes the mean of as many turns.
const ENDS: usize = 9;
/// So many turns are long enough a time that a part of one more does not matter.
const MANY: u64 = 8;
/// No lock has more turns in a second: its partition does not take the writes. More of them are another lock of the same name.
const FASTEST: u64 = 1_000;

/// A lock, and what was seen of it since the first read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) lock: Lock,
    /// The reads within the window, and the last one before it.
    marks: VecDeque<Mark>,
    /// The reads that saw a turn end, while callers waited the whole time.
    ends: VecDeque<Mark>,
}

/// How many tickets of a lock had ended when it was read.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Since this program began.
    at: Duration,
    ended: u64,
}

impl Seen {
    pub(crate) fn new(lock: Lock, at: Duration) -> Seen {
        let mut seen = Seen {
            lock,
            marks: VecDeque::new(),
            ends: VecDeque::new(),
        };
        seen.mark(at);
        seen
    }

    /// Takes a later read.
    pub(crate) fn read(&mut self, lock: Lock, at: Duration) {
        let before = std::mem::replace(&mut self.lock, lock);
        if before.newest_ticket > self.lock.newest_ticket {
            // Another item has the name: the lock was deleted meanwhile.
            self.forget();
        }
        self.mark(at);
    }

    fn mark(&mut self, at: Duration) {
        let Some(ended) = self.lock.ended() else {
            return self.forget();
        };
        let last = self.marks.back().copied();
        let mark = Mark {
            at,
            // Readers that see more of the queue also see more tickets that have ended.
            ended: ended.max(last.map_or(0, |last| last.ended)),
        };
        let turns = last.map_or(0, |last| mark.ended - last.ended);
        let since = last.map_or(Duration::ZERO, |last| at.saturating_sub(last.at));
        if turns > FASTEST.saturating_mul(since.as_secs().saturating_add(1)) {
            self.forget();
        }
        if !self.lock.is_queued() {
            self.ends.clear();
        } else if last.is_none() || turns > 0 {
            self.ends.push_back(mark);
            self.ends.drain(..self.ends.len().saturating_sub(ENDS + 1));
        }
        self.marks.push_back(mark);
        // Keeps one mark that is as old as the window. The loop ends with the last mark.
        while self
            .marks
            .get(1)
            .is_some_and(|next| at.saturating_sub(next.at) >= WINDOW)
        {
            self.marks.pop_front();
        }
    }

    fn forget(&mut self) {
        self.marks.clear();
        self.ends.clear();
    }

    /// How many tickets ended in a minute. Waiters that left count too. Returns `None` after one read.
    pub(crate) fn turns_a_minute(&self) -> Option<f64> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let span = last
            .at
            .checked_sub(first.at)
            .filter(|span| !span.is_zero())?;
        Some((last.ended - first.ended) as f64 * 60.0 / span.as_secs_f64())
    }

    /// The mean of the last turns, each with its handoff, while callers waited the whole time. Returns `None` until the reads saw two
    /// turns end at different times, or many at once.
    pub(crate) fn turn(&self) -> Option<Duration> {
        let (first, last) = (self.ends.front()?, self.ends.back()?);
        // The first read saw no turn end, and may have come long before the next end. Where many turns followed, that matters little.
        let first = match last.ended - first.ended {
            many if many >= MANY => first,
            _ => self.ends.get(1)?,
        };
        let turns = u32::try_from(last.ended - first.ended).ok();
        let turns = turns.filter(|turns| *turns > 0)?;
        Some(last.at.saturating_sub(first.at) / turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::samples::{contended, free};

    const SECOND: Duration = Duration::from_secs(1);

    /// Reads of a lock by how many tickets were drawn and how many wait, a second apart.
    fn read(states: impl IntoIterator<Item = Lock>) -> Seen {
        let mut states = states.into_iter();
        let mut seen = Seen::new(states.next().unwrap(), Duration::ZERO);
        for (nth, state) in (1..).zip(states) {
            seen.read(state, nth * SECOND);
        }
        seen
    }

    #[test]
    fn one_read_tells_no_pace() {
        let seen = read([contended("a", 100, 3)]);
        assert_eq!((seen.turns_a_minute(), seen.turn()), (None, None));
    }

    #[test]
    fn turns_are_counted_by_the_tickets_that_ended() {
        // A ticket ends each second, and another caller comes.
        let seen = read((100..=110).map(|drawn| contended("a", drawn, 3)));
        assert_eq!(seen.turns_a_minute(), Some(60.0));
        assert_eq!(seen.turn(), Some(SECOND));
        // The queue grows, and nothing ends.
        let seen = read((0..10).map(|more| contended("a", 100 + more, 3 + more)));
        assert_eq!((seen.turns_a_minute(), seen.turn()), (Some(0.0), None));
    }

    #[test]
    fn two_reads_tell_the_mean_if_there_were_many_turns_between_them() {
        let seen = read([contended("a", 100, 3), contended("a", 120, 3)]);
        assert_eq!(seen.turn(), Some(SECOND / 20));
        let seen = read([contended("a", 100, 3), contended("a", 101, 3)]);
        assert_eq!(seen.turn(), None);
    }

    #[test]
    fn turns_between_two_reads_count_also_of_a_lock_that_is_free_in_both() {
        let seen = read([free("a", 100), free("a", 130)]);
        assert_eq!(seen.turns_a_minute(), Some(30.0 * 60.0));
        // The lock was free at times, so this says nothing of how long a turn takes.
        assert_eq!(seen.turn(), None);
    }

    #[test]
    fn the_rate_is_that_of_the_last_minute_and_the_mean_that_of_the_last_turns() {
        // Slow for a while, and then fast.
        let slow = (0..120).map(|nth| contended("a", 100 + nth / 10, 3));
        let fast = (0..90).map(|nth| contended("a", 112 + nth, 3));
        let seen = read(slow.chain(fast));
        assert_eq!(seen.turns_a_minute(), Some(60.0));
        assert_eq!(seen.turn(), Some(SECOND));
    }

    #[test]
    fn a_lock_that_was_made_again_begins_again() {
        let mut seen = read([contended("a", 100, 1), contended("a", 101, 1)]);
        seen.read(contended("a", 9_000_000, 1), 2 * SECOND);
        assert_eq!(seen.turns_a_minute(), None);
        seen.read(contended("a", 50, 1), 3 * SECOND);
        assert_eq!(seen.turns_a_minute(), None);
        seen.read(contended("a", 51, 1), 4 * SECOND);
        assert_eq!(seen.turns_a_minute(), Some(60.0));
    }

    #[test]
    fn a_queue_that_was_empty_begins_its_mean_again() {
        let drawn = |drawn, waiting| contended("a", drawn, waiting);
        let seen = read([
            drawn(100, 1),
            drawn(101, 1),
            drawn(102, 1),
            drawn(102, 0),
            drawn(103, 1),
        ]);
        assert_eq!(seen.turn(), None);
    }
}
