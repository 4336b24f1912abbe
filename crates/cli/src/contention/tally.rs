//! What a run's turns show: which turns overlapped, came out of order or are missing, and how long they took.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::turn::Turn;

/// Turns in the order of their grants.
#[derive(Debug)]
pub struct Tally(Vec<Turn>);

/// How long turns waited.
#[derive(Debug, PartialEq, Eq)]
pub struct Waits {
    /// The shortest.
    pub min: Duration,
    /// The mean.
    pub mean: Duration,
    /// The longest.
    pub max: Duration,
}

/// How long the lock took from one turn to the next.
#[derive(Debug, PartialEq, Eq)]
pub struct Handoffs {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
    /// The mean.
    pub mean: Duration,
}

impl Tally {
    /// Makes a tally of turns in any order.
    pub fn new(mut turns: Vec<Turn>) -> Tally {
        sort(&mut turns);
        Tally(turns)
    }

    /// How many turns there were.
    pub fn turns(&self) -> usize {
        self.0.len()
    }

    /// Counts the pairs of turns that held the lock at the same time.
    pub fn overlaps(&self) -> usize {
        let after = |place: usize| self.0.iter().skip(place + 1);
        let overlapped = |(place, turn): (usize, &Turn)| {
            after(place)
                .take_while(|later| later.acquired_ns <= turn.releasing_ns)
                .count()
        };
        self.0.iter().enumerate().map(overlapped).sum()
    }

    /// Counts the turns whose ticket is not above that of every turn granted before.
    pub fn out_of_order(&self) -> usize {
        let mut newest = None;
        let is_late = |turn: &&Turn| {
            let before = newest;
            newest = newest.max(Some(turn.ticket));
            before >= Some(turn.ticket)
        };
        self.0.iter().filter(is_late).count()
    }

    /// Returns `None` if there are no turns.
    pub fn waits(&self) -> Option<Waits> {
        let waits = || self.0.iter().map(Turn::waited);
        Some(Waits {
            min: waits().min()?,
            mean: mean(waits())?,
            max: waits().max()?,
        })
    }

    /// How long each handoff took, in the order of the turns.
    pub fn handoff_times(&self) -> Vec<Duration> {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.map(|(turn, next)| turn.handoff_to(next)).collect()
    }

    /// Returns `None` if there are fewer than two turns.
    pub fn handoffs(&self) -> Option<Handoffs> {
        let mut took = self.handoff_times();
        took.sort_unstable();
        Some(Handoffs {
            p50: percentile(&took, 50)?,
            p99: percentile(&took, 99)?,
            max: percentile(&took, 100)?,
            mean: mean(took.iter().copied())?,
        })
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [min, mean, max] = [self.min, self.mean, self.max].map(ms);
        write!(f, "min {min}, mean {mean}, max {max}")
    }
}

impl fmt::Display for Handoffs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max, mean] = [self.p50, self.p99, self.max, self.mean].map(ms);
        write!(f, "p50 {p50}, p99 {p99}, max {max}, mean {mean}")
    }
}

/// Writes a duration in milliseconds, for people.
pub fn ms(span: Duration) -> String {
    format!("{:.2} ms", span.as_secs_f64() * 1e3)
}

/// The turns of `1..=workers` in `1..=cycles` that are missing, by worker and cycle.
pub fn missing(turns: &[Turn], workers: u32, cycles: u32) -> Vec<(u32, u32)> {
    let there: BTreeSet<_> = turns.iter().map(|turn| (turn.worker, turn.cycle)).collect();
    let wanted = (1..=workers).flat_map(|worker| (1..=cycles).map(move |cycle| (worker, cycle)));
    wanted.filter(|turn| !there.contains(turn)).collect()
}

/// Makes the second turn start before the first one ends, and swaps the tickets of the last two.
pub fn plant_fault(turns: &mut [Turn]) {
    sort(turns);
    if let [first, second, ..] = turns {
        second.acquired_ns = first.releasing_ns;
    }
    if let [.., before, last] = turns {
        std::mem::swap(&mut before.ticket, &mut last.ticket);
    }
}

/// The sort is stable, so that a planted turn keeps its position.
fn sort(turns: &mut [Turn]) {
    turns.sort_by_key(|turn| turn.acquired_ns);
}

fn mean(spans: impl ExactSizeIterator<Item = Duration>) -> Option<Duration> {
    let count = u32::try_from(spans.len()).ok()?;
    spans.sum::<Duration>().checked_div(count)
}

/// The smallest value in `sorted` that at least `percent` percent of the values do not exceed.
pub fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn of worker 1 that asked at 0.
    fn turn(ticket: u64, acquired_ns: u64, releasing_ns: u64) -> Turn {
        Turn {
            worker: 1,
            cycle: 1,
            ticket,
            requested_ns: 0,
            acquired_ns,
            releasing_ns,
            released_ns: releasing_ns + 1,
        }
    }

    fn ns(count: u64) -> Duration {
        Duration::from_nanos(count)
    }

    #[test]
    fn turns_one_after_the_other_are_clean_in_whatever_order_they_come() {
        let tally = Tally::new(vec![turn(9, 40, 50), turn(7, 10, 20), turn(8, 21, 39)]);
        assert_eq!(
            (tally.turns(), tally.overlaps(), tally.out_of_order()),
            (3, 0, 0)
        );
    }

    #[test]
    fn every_pair_that_had_the_lock_together_is_an_overlap() {
        let around_all = Tally::new(vec![turn(1, 0, 100), turn(2, 10, 20), turn(3, 30, 40)]);
        assert_eq!(around_all.overlaps(), 2);
        let all_at_once = Tally::new(vec![turn(1, 0, 100), turn(2, 1, 100), turn(3, 2, 100)]);
        assert_eq!(all_at_once.overlaps(), 3);
    }

    #[test]
    fn a_turn_that_starts_at_the_instant_the_one_before_ends_overlaps_it() {
        assert_eq!(
            Tally::new(vec![turn(1, 0, 10), turn(2, 10, 20)]).overlaps(),
            1
        );
        assert_eq!(
            Tally::new(vec![turn(1, 0, 10), turn(2, 11, 20)]).overlaps(),
            0
        );
    }

    #[test]
    fn whoever_is_granted_after_a_later_ticket_is_out_of_order() {
        let tickets = |tickets: &[u64]| {
            let turns = (0..).step_by(10).zip(tickets);
            let turns = turns.map(|(at, ticket)| turn(*ticket, at, at + 5));
            Tally::new(turns.collect()).out_of_order()
        };
        assert_eq!(tickets(&[1, 2, 5, 6]), 0);
        assert_eq!(tickets(&[5, 1, 2, 6]), 2);
        assert_eq!(tickets(&[1, 1]), 1, "a ticket that was granted twice");
        assert_eq!(tickets(&[0]), 0);
    }

    #[test]
    fn waits_count_from_the_request_and_handoffs_from_the_release() {
        let tally = Tally::new(vec![turn(1, 10, 20), turn(2, 23, 40), turn(3, 45, 50)]);
        let (min, mean, max) = (ns(10), ns(26), ns(45));
        assert_eq!(tally.waits(), Some(Waits { min, mean, max }));
        let handoffs = Handoffs {
            p50: ns(3),
            p99: ns(5),
            max: ns(5),
            mean: ns(4),
        };
        assert_eq!(tally.handoffs(), Some(handoffs));
    }

    #[test]
    fn too_few_turns_have_no_numbers() {
        assert_eq!(Tally::new(Vec::new()).waits(), None);
        assert_eq!(Tally::new(vec![turn(1, 0, 1)]).handoffs(), None);
    }

    #[test]
    fn a_percentile_is_the_least_that_so_many_do_not_exceed() {
        let hundred: Vec<_> = (1..=100).map(ns).collect();
        assert_eq!(
            [1, 50, 99, 100].map(|p| percentile(&hundred, p)),
            [1, 50, 99, 100].map(|n| Some(ns(n)))
        );
        assert_eq!(percentile(&hundred[..3], 50), Some(ns(2)));
        assert_eq!(percentile(&hundred[..1], 1), Some(ns(1)));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn missing_turns_are_named() {
        let mut turns = vec![turn(1, 0, 1), turn(2, 2, 3)];
        turns[1].worker = 2;
        assert_eq!(missing(&turns, 2, 2), [(1, 2), (2, 2)]);
        assert_eq!(missing(&turns, 2, 1), []);
    }

    #[test]
    fn a_planted_fault_is_found() {
        let mut turns: Vec<_> = (1..5).map(|n| turn(n, 10 * n, 10 * n + 5)).collect();
        plant_fault(&mut turns);
        let tally = Tally::new(turns);
        assert_eq!((tally.overlaps(), tally.out_of_order()), (1, 1));
        let mut two = vec![turn(1, 0, 1), turn(2, 2, 3)];
        plant_fault(&mut two);
        let tally = Tally::new(two);
        assert_eq!((tally.overlaps(), tally.out_of_order()), (1, 1));
    }
}
