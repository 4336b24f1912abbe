//! Turns that all take about as long: by them a waiter knows when the present one ends.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::remember;

/// How many turns are remembered.
const TURNS: usize = 5;
/// It takes this many turns to expect the end of a hold by them. A poll is late by little if that is wrong.
const ENOUGH: usize = 2;
/// It takes this many turns to sleep by them. A waiter that took a slow beginning for a slow queue would stop the queue.
const ENOUGH_TO_SLEEP: usize = 4;

/// The last turns whose beginning and end were seen closely.
#[derive(Clone, Debug, Default)]
pub(super) struct RegularTurns {
    turns: VecDeque<Bounds>,
    /// How fast requests were then.
    request: Duration,
}

/// The shortest and the longest that a turn may have been.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: Duration,
    most: Duration,
    /// The turn was another client's, as polls have seen it.
    is_seen: bool,
}

impl RegularTurns {
    /// Takes in a turn that took from `least` to `most`, where a request takes `request`. A turn that is known less closely than by two
    /// requests and a quarter of it teaches nothing. Turns of a time in which requests took more than twice as long, or less than half as
    /// long, are forgotten.
    pub(super) fn saw(&mut self, least: Duration, most: Duration, request: Duration) {
        self.learn(least, most, true, request);
    }

    /// Takes in a turn of this client's own.
    pub(super) fn had(&mut self, least: Duration, most: Duration, request: Duration) {
        self.learn(least, most, false, request);
    }

    fn learn(&mut self, least: Duration, most: Duration, is_seen: bool, request: Duration) {
        if most.saturating_sub(least) > (least / 4).max(request * 2) {
            return;
        }
        if !self.was_as_fast(request) {
            self.turns.clear();
            self.request = request;
        }
        let bounds = Bounds {
            least,
            most,
            is_seen,
        };
        remember(&mut self.turns, TURNS, bounds);
    }

    /// How long the next turn takes, if the last ones took about as long as each other.
    pub(super) fn expected(&self, request: Duration) -> Option<RangeInclusive<Duration>> {
        let least = self.turns.iter().map(|turn| turn.least).min()?;
        let most = self.turns.iter().map(|turn| turn.most).max()?;
        let is_regular = most <= least + least / 2 + request * 2;
        let is_known = self.turns.len() >= ENOUGH && self.was_as_fast(request);
        (is_regular && is_known).then_some(least..=most)
    }

    /// How long a turn takes at the least, for the first successor.
    pub(super) fn shortest(&self, request: Duration) -> Option<Duration> {
        let expected = self.expected(request)?;
        (self.turns.len() >= ENOUGH_TO_SLEEP).then_some(*expected.start())
    }

    /// How long a turn takes at the least, for a waiter behind several of them. Its client's own turns do not count: they may be of another
    /// kind than those before it.
    pub(super) fn least(&self, request: Duration) -> Option<Duration> {
        let expected = self.expected(request)?;
        let seen = self.turns.iter().filter(|turn| turn.is_seen).count();
        (seen >= ENOUGH_TO_SLEEP).then_some(*expected.start())
    }

    fn was_as_fast(&self, request: Duration) -> bool {
        self.request <= request * 2 && request <= self.request * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Turns from so many to so many milliseconds, where a request takes 10 ms.
    fn after(turns: &[(u32, u32)]) -> RegularTurns {
        let mut regular = RegularTurns::default();
        for (least, most) in turns {
            regular.saw(MS * *least, MS * *most, 10 * MS);
        }
        regular
    }

    #[test]
    fn two_turns_that_took_about_as_long_are_regular() {
        let expected = |turns| after(turns).expected(10 * MS);
        assert_eq!(expected(&[(60, 70)]), None, "one turn");
        assert_eq!(expected(&[(60, 70), (80, 95)]), Some(60 * MS..=95 * MS));
        assert_eq!(expected(&[(60, 70), (160, 170)]), None, "of two kinds");
        let irregular_before = [(160, 170), (61, 70), (62, 70), (63, 70), (64, 70), (60, 70)];
        assert_eq!(expected(&irregular_before), Some(60 * MS..=70 * MS));
    }

    #[test]
    fn a_turn_that_was_not_seen_closely_teaches_nothing() {
        let expected = |turns| after(turns).expected(10 * MS);
        assert_eq!(expected(&[(60, 81), (60, 81)]), None);
        assert_eq!(expected(&[(400, 501), (400, 501)]), None);
        assert!(expected(&[(400, 500), (400, 500)]).is_some());
    }

    #[test]
    fn turns_while_requests_were_slow_say_nothing_of_when_they_are_fast() {
        let mut regular = after(&[(60, 70), (60, 70)]);
        assert!(regular.expected(20 * MS).is_some());
        assert_eq!(regular.expected(21 * MS), None);
        assert_eq!(regular.expected(4 * MS), None);
        regular.saw(15 * MS, 20 * MS, 4 * MS);
        assert_eq!(regular.expected(4 * MS), None);
        regular.saw(15 * MS, 20 * MS, 4 * MS);
        assert_eq!(regular.expected(4 * MS), Some(15 * MS..=20 * MS));
    }

    #[test]
    fn waiters_farther_back_need_four_turns() {
        assert_eq!(after(&[(60, 70); 3]).least(10 * MS), None);
        let mut regular = after(&[(60, 70); 3]);
        regular.had(60 * MS, 70 * MS, 10 * MS);
        assert_eq!(regular.least(10 * MS), None, "three of others");
        assert_eq!(
            regular.shortest(10 * MS),
            Some(60 * MS),
            "three of others, and its own"
        );
        assert_eq!(after(&[(60, 70); 4]).least(10 * MS), Some(60 * MS));
    }
}
