//! How long to wait for a turn, and the pace of looking meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use crate::moment::Moment;
use crate::ticket::Ticket;

/// How long [`acquire`](crate::FairLock::acquire) waits for its turn: the record wait.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fairlock::RecordWait;
///
/// assert_eq!(RecordWait::default(), RecordWait::Timeout(Duration::from_secs(60)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordWait {
    /// Have the lock now or not at all; takes no place in line.
    NoWait,
    /// Wait in line for at most this long, counted from the call. Zero is refused: that is [`NoWait`](Self::NoWait).
    Timeout(Duration),
    /// Wait in line for as long as it takes.
    Infinite,
}

impl Default for RecordWait {
    /// Sixty seconds.
    fn default() -> Self {
        RecordWait::Timeout(Duration::from_secs(60))
    }
}

/// Where a waiter stands, for the pace of its looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// So many heirs come before it.
    Heir(usize),
    /// So many tickets come before it on the way to a seat.
    Queue(u64),
}

/// When to look next.
///
/// The first heir looks again as soon as it has its answer, a request after the other, and slows down with the hold it
/// watches, so that the hand-over waits for its look for half a round trip on average, and for a twentieth of the
/// hold at the most. Those behind look by the turns before them, twice in the time that these take: so a line of N
/// costs O(log N) looks a turn. The speed of the line is tickets over the time between two looks, never the gaps
/// between one's own looks, from which a waiter would learn its own slowness.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    shortest: Duration,
    longest: Duration,
    /// When the last look was sent.
    sent: Moment,
    /// How long an answer takes, as seen so far.
    round_trip: Duration,
    /// The current holder's ticket, and when it was first seen with the lock.
    holder: Option<(Ticket, Moment)>,
    /// How long a ticket's turn took, the last times that the lock was seen to have moved.
    turns: VecDeque<Duration>,
}

/// A late look costs the hand-over at most this share of the hold: a twentieth.
const HOLD_SHARE: u32 = 20;
/// Turns remembered. The lower quartile of them counts: one long hold, or one stall of the line, is no slow line, and to be
/// late costs the whole line, and to be early a look.
const TURNS: usize = 9;

impl Pace {
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Self {
        Pace {
            shortest,
            longest,
            sent: Moment::default(),
            round_trip: Duration::ZERO,
            holder: None,
            turns: VecDeque::with_capacity(TURNS),
        }
    }

    /// For the next wait in this line: the time until then is nobody's turn.
    pub(crate) fn at_rest(mut self) -> Self {
        self.holder = None;
        self
    }

    /// Takes in who held the lock when an answer arrived.
    pub(crate) fn saw(&mut self, holder: Option<Ticket>, arrived: Moment) {
        match (self.holder, holder) {
            (Some((before, since)), Some(ticket)) if before < ticket => {
                self.learn(ticket.get() - before.get(), arrived.since(since));
                self.holder = Some((ticket, arrived));
            }
            (Some((before, _)), Some(ticket)) if before == ticket => {}
            (_, ticket) => self.holder = ticket.map(|ticket| (ticket, arrived)),
        }
    }

    /// Takes in how long a look took: an eighth of that, so that one slow answer is no slow network.
    pub(crate) fn timed(&mut self, sent: Moment, arrived: Moment) {
        self.sent = sent;
        let round_trip = arrived.since(sent);
        self.round_trip = match self.round_trip {
            Duration::ZERO => round_trip,
            known => (known * 7 + round_trip) / 8,
        };
    }

    fn learn(&mut self, turns: u64, span: Duration) {
        if self.turns.len() == TURNS {
            self.turns.pop_front();
        }
        let turns = u32::try_from(turns).unwrap_or(u32::MAX);
        self.turns.push_back(span / turns.max(1));
    }

    /// How long so many tickets' turns take, if the line is fast.
    pub(crate) fn time_of(&self, turns: u64) -> Duration {
        times(self.turn(), turns)
    }

    /// How long one ticket's turn takes. No hand-over takes less than a round trip.
    fn turn(&self) -> Duration {
        let mut turns: Vec<_> = self.turns.iter().copied().collect();
        // Who has seen little takes the line to be fast.
        turns.resize(TURNS, Duration::ZERO);
        turns.sort_unstable();
        turns[TURNS / 4].max(self.round_trip)
    }

    /// How long from `now` until the next look. `jitter`, a factor around one, is for those behind, of whom there are many.
    pub(crate) fn until_next(&self, position: Position, jitter: f64, now: Moment) -> Duration {
        let (turns, longest) = match position {
            Position::Heir(before) => (before as u64, times(self.longest, before as u64 + 1)),
            Position::Queue(before) => (before, times(self.longest, before)),
        };
        let held = self.holder.map(|(_, since)| now.since(since));
        let slack = held.unwrap_or_default() / HOLD_SHARE;
        let longest = longest.max(self.shortest);
        let turns = (self.time_of(turns) / 2).min(longest).mul_f64(jitter);
        let span = slack.max(turns).clamp(self.shortest, longest);
        (self.sent + span).since(now)
    }
}

/// How far looks are slowed down because DynamoDB was too busy: twofold with each time that it said so, and back by as much with
/// each second in which it did not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brake {
    level: u32,
    pressed: Moment,
}

/// Sixty-fourfold.
const MOST_BRAKED: u32 = 6;

impl Brake {
    pub(crate) fn press(&mut self, now: Moment) {
        *self = Brake {
            level: (self.level(now) + 1).min(MOST_BRAKED),
            pressed: now,
        };
    }

    /// The factor for the time between two looks.
    pub(crate) fn factor(&self, now: Moment) -> u32 {
        2_u32.pow(self.level(now))
    }

    fn level(&self, now: Moment) -> u32 {
        let released = u32::try_from(now.since(self.pressed).as_secs()).unwrap_or(u32::MAX);
        self.level.saturating_sub(released)
    }
}

fn times(span: Duration, count: u64) -> Duration {
    span.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Moment {
        Moment::default() + MS * ms
    }

    /// Over a network with a round trip of 10 ms.
    fn look(pace: &mut Pace, holder: u64, arrived: u32) {
        let holder = Some(Ticket::new(holder));
        pace.timed(at(arrived.saturating_sub(10)), at(arrived));
        pace.saw(holder, at(arrived));
    }

    fn pace() -> Pace {
        let mut pace = Pace::new(5 * MS, 1000 * MS);
        look(&mut pace, 1, 10);
        pace
    }

    #[test]
    fn the_first_heir_looks_without_pause_until_a_twentieth_of_the_hold_is_longer_than_a_round_trip()
     {
        let mut pace = pace();
        for (arrived, pause) in [(20, 0), (110, 0), (410, 10), (10_010, 490), (100_010, 990)] {
            look(&mut pace, 1, arrived);
            let next = pace.until_next(Position::Heir(0), 0.8, at(arrived));
            assert_eq!(next, MS * pause, "at {arrived} ms");
        }
    }

    #[test]
    fn an_answer_that_takes_no_time_is_followed_by_a_pause() {
        let mut pace = Pace::new(5 * MS, 1000 * MS);
        pace.timed(at(0), at(0));
        assert_eq!(pace.until_next(Position::Heir(0), 1.2, at(0)), 5 * MS);
    }

    #[test]
    fn those_behind_look_twice_in_the_time_of_the_turns_before_them() {
        let mut pace = pace();
        for turn in 1..=9 {
            look(&mut pace, 1 + turn * 4, 10 + turn as u32 * 400);
        }
        let next = |position| pace.until_next(position, 1.0, at(3610));
        assert_eq!(next(Position::Heir(2)), 90 * MS);
        assert_eq!(next(Position::Queue(6)), 290 * MS);
        assert_eq!(
            next(Position::Queue(u64::MAX)),
            times(MS, u64::MAX) * 50 - 10 * MS
        );
    }

    #[test]
    fn nobody_sleeps_for_longer_than_the_longest_look_for_each_before_it() {
        let mut pace = pace();
        for turn in 1..=9 {
            look(&mut pace, 1 + turn, 10 + turn as u32 * 60_000);
        }
        let next = |position| pace.until_next(position, 1.0, at(540_010));
        assert_eq!(next(Position::Heir(1)), 1990 * MS);
        assert_eq!(next(Position::Queue(30)), 29_990 * MS);
    }

    #[test]
    fn who_has_seen_little_takes_the_line_to_be_fast() {
        let mut pace = pace();
        look(&mut pace, 2, 60_000);
        look(&mut pace, 3, 120_000);
        assert_eq!(pace.turn(), 10 * MS);
    }

    #[test]
    fn one_long_hold_is_no_slow_line() {
        let mut pace = pace();
        for turn in 1..=8 {
            look(&mut pace, 1 + turn, 10 + turn as u32 * 65);
        }
        look(&mut pace, 10, 60_000);
        assert_eq!(pace.turn(), 65 * MS);
    }

    #[test]
    fn the_time_between_two_waits_is_no_turn() {
        let mut pace = pace();
        for turn in 1..=9 {
            look(&mut pace, 1 + turn, 10 + turn as u32 * 65);
        }
        for wait in 1..=9 {
            pace = pace.at_rest();
            look(&mut pace, 10 + wait, wait as u32 * 3_600_000);
        }
        assert_eq!(pace.turn(), 65 * MS);
    }

    #[test]
    fn the_speed_of_the_line_is_not_learnt_from_ones_own_looks() {
        let mut pace = pace();
        // Looks that are very late: a hundred turns go by between any two.
        for look_at in 1..=9 {
            look(&mut pace, 1 + look_at * 100, 10 + look_at as u32 * 5_000);
        }
        assert_eq!(pace.turn(), 50 * MS);
    }

    #[test]
    fn a_brake_is_pressed_twofold_each_time_and_released_by_the_second() {
        let mut brake = Brake::default();
        assert_eq!(brake.factor(at(0)), 1);
        (0..3).for_each(|_| brake.press(at(100)));
        let factors = [100, 1_099, 1_100, 2_100, 3_100].map(|ms| brake.factor(at(ms)));
        assert_eq!(factors, [8, 8, 4, 2, 1]);
        (0..20).for_each(|_| brake.press(at(5_000)));
        assert_eq!(brake.factor(at(5_000)), 64);
    }
}
