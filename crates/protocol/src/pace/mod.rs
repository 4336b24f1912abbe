//! The pace at which a waiter polls a queue.

mod lateness;
mod throttle;
mod turns;

pub use throttle::ThrottleBackoff;

use std::collections::VecDeque;
use std::time::Duration;

use crate::moment::Moment;
use crate::ticket::Ticket;
use lateness::ReleaseLateness;
use turns::Turns;

/// Where a waiter stands, for the pace of its polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollPosition {
    /// This many successors come before it.
    Successor(usize),
    /// This many tickets come before it on the way to a slot.
    Queue(u64),
}

/// When to poll next.
///
/// The first successor polls again as soon as it has its answer, one request after the other. It slows down with the hold that it watches.
/// So the handoff waits for its poll for half a round trip on average, and for a twentieth of the hold at most. When the hold has lasted
/// for about as long as holds do, the successor polls again before the answer has come.
///
/// Waiters behind it pace their polls by the turns before them. A successor polls twice in the time that these turns take. A waiter in the
/// queue polls after three quarters of that time: if it is late, the successors are still before it. So a queue of N costs O(log N) polls a
/// turn. The speed of the queue is the number of tickets over the time between two polls. It is never learnt from the gaps between the
/// waiter's own polls: from these a waiter would learn its own slowness.
///
/// Requests are slow at first: connections are made, and many processes start at once. So a turn is remembered as the time that it took
/// beyond the requests' own time. The queue counts as fast as the fastest of the last answers lets it be. And no waiter sleeps for longer
/// than half of the time for which it has known the queue. Otherwise a waiter that polled once at a slow moment would stop the queue
/// because of that poll.
#[derive(Clone, Debug)]
pub struct PollSchedule {
    shortest: Duration,
    longest: Duration,
    /// When the last poll was sent.
    sent: Moment,
    /// How long an answer takes, as seen so far.
    round_trip: Duration,
    /// How long each of the last answers took.
    answers: VecDeque<Duration>,
    /// Since when the waiter has polled.
    began: Option<Moment>,
    /// For how long the queue was known when this wait began.
    known: Duration,
    /// The current holder's ticket, and when it was first seen to hold the lock.
    holder: Option<(Ticket, Moment)>,
    /// Since when no holder was seen: the waiters wait for a caller that drew a ticket and may be dead.
    free: Option<Moment>,
    turns: Turns,
    lateness: ReleaseLateness,
    /// Whether the last place that was asked by a notification answered. `true` until one does not.
    is_path_open: bool,
}

/// A late poll costs the handoff at most this share of the hold: a twentieth.
const HOLD_SHARE: u32 = 20;
/// The fastest of this many answers says how fast requests are.
const ANSWERS: usize = 3;
/// A waiter that knows nothing of a queue polls after this many times the shortest pause between two polls.
const POLLS_TO_LEARN: u32 = 100;

/// A brake delays a poll by no more than this, after which it is half released. A waiter that is far back now may be next by then, and
/// slows the whole queue down if it sleeps on.
const MAX_BY_BRAKE: Duration = Duration::from_secs(1);
/// A successor that polls rarely anyhow, in a long hold, polls this many times as rarely at most.
const SLOWEST: u32 = 4;

impl PollSchedule {
    /// The pace in a queue of which nothing is known, with polls between `shortest` and `longest` apart.
    pub fn new(shortest: Duration, longest: Duration) -> Self {
        PollSchedule {
            shortest,
            longest,
            sent: Moment::default(),
            round_trip: Duration::ZERO,
            answers: VecDeque::with_capacity(ANSWERS),
            began: None,
            known: Duration::ZERO,
            holder: None,
            free: None,
            turns: Turns::default(),
            lateness: ReleaseLateness::default(),
            is_path_open: true,
        }
    }

    /// The pace for the next wait in this queue: the time until then is no waiter's turn.
    pub fn at_rest(mut self) -> Self {
        self.known = self.known_for(self.sent);
        (self.began, self.holder, self.free) = (None, None, None);
        self
    }

    /// Takes in which ticket held the lock when an answer arrived.
    pub fn saw(&mut self, holder: Option<Ticket>, arrived: Moment) {
        self.began.get_or_insert(arrived);
        self.free = match holder {
            Some(_) => None,
            None => self.free.or(Some(arrived)),
        };
        match (self.holder, holder) {
            (Some((before, since)), Some(ticket)) if before < ticket => {
                let turns = ticket.get() - before.get();
                self.turns.learn(turns, arrived.since(since), self.handoff());
                self.holder = Some((ticket, arrived));
            }
            // A poll that was overtaken shows an older ticket.
            (Some((before, _)), Some(ticket)) if ticket <= before => {}
            (_, ticket) => self.holder = ticket.map(|ticket| (ticket, arrived)),
        }
    }

    /// Takes in how long a poll took. It counts for an eighth, so that one slow answer does not make the network seem slow.
    pub fn timed(&mut self, sent: Moment, arrived: Moment) {
        self.sent = sent;
        let round_trip = arrived.since(sent);
        remember(&mut self.answers, ANSWERS, round_trip);
        self.round_trip = match self.round_trip {
            Duration::ZERO => round_trip,
            known => (known * 7 + round_trip) / 8,
        };
    }

    /// How long a poll takes.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Takes in that the place before was asked, instead of the table.
    pub fn asked(&mut self, now: Moment) {
        self.sent = now;
    }

    /// Whether the last place that was asked by a notification answered.
    pub fn is_path_open(&self) -> bool {
        self.is_path_open
    }

    /// Takes in whether the place before answered.
    pub fn path_is(&mut self, open: bool) {
        self.is_path_open = open;
    }

    /// How long after the notification of a release to poll.
    pub fn lateness(&self) -> Duration {
        self.lateness.beyond(self.round_trip)
    }

    /// Takes in how many polls came too early for a release that was told.
    pub fn released(&mut self, early: u32) {
        self.lateness.learn(early, self.round_trip);
    }

    /// How long after the poll for a release that was told another one is sent. It finds the release if the first one came too early.
    pub fn second_poll(&self) -> Duration {
        (self.round_trip / 4).max(self.shortest)
    }

    /// Whether a poll sent at `sent` is newer than the last one taken in, and no older than polls are when they are answered.
    pub fn is_news(&self, sent: Moment, now: Moment) -> bool {
        sent > self.sent && now.since(sent) < self.round_trip
    }

    /// How long after its poll a successor with `before` others before it sends the next, though no answer has come. Returns `None` if it
    /// waits for the answer.
    pub fn overlap(&self, before: usize, now: Moment) -> Option<Duration> {
        let span = match before {
            0 if self.expects_an_end(now) && self.slack(now) < self.round_trip => {
                self.round_trip / 2
            }
            0 => return None,
            _ => self.time_of(before as u64) / 2,
        };
        let span = span.max(self.shortest);
        (self.turns.are_known() && span < self.round_trip).then_some(span)
    }

    /// Whether the hold has lasted for about as long as holds do.
    fn expects_an_end(&self, now: Moment) -> bool {
        let Some((_, since)) = self.holder else {
            return true;
        };
        let (held, usual) = (now.since(since), self.turn());
        usual * 3 / 5 <= held && held <= usual * 2
    }

    /// The mean of the turns seen, handoffs included. Returns `None` until a turn was seen to end.
    pub fn mean(&self) -> Option<Duration> {
        self.turns.mean()
    }

    /// How long this many turns take, if the queue is fast.
    pub fn time_of(&self, turns: u64) -> Duration {
        times(self.turn(), turns)
    }

    /// After how long a waiter polls, however far back it is. A newcomer polls early, to learn the queue, and then after half as long again
    /// each time.
    fn time_to_learn(&self, now: Moment) -> Duration {
        let early = self.shortest.min(self.turn()) * POLLS_TO_LEARN;
        early.max(self.known_for(now) / 2)
    }

    fn known_for(&self, now: Moment) -> Duration {
        let waited = self.began.map(|began| now.since(began));
        self.known + waited.unwrap_or_default()
    }

    /// How long one ticket's turn takes. A waiter that has seen few turns assumes that the queue is as fast as can be.
    fn turn(&self) -> Duration {
        match self.turns.are_known() {
            true => self.turns.usual(self.handoff()),
            false => self.fastest(),
        }
    }

    /// How long a request takes now.
    fn fastest(&self) -> Duration {
        self.answers.iter().min().copied().unwrap_or_default()
    }

    /// A handoff takes at least this long: from the release to an answer of the first poll after it.
    fn handoff(&self) -> Duration {
        self.fastest() * 5 / 4
    }

    /// By how much a poll may be late in a hold that has lasted this long, or at a lock that has been free this long.
    fn slack(&self, now: Moment) -> Duration {
        let held = self.holder.map(|(_, since)| since).or(self.free);
        held.map(|since| now.since(since)).unwrap_or_default() / HOLD_SHARE
    }

    /// How long from `now` until the next poll. `jitter`, a factor around one, is for the waiters behind, of which there are many. `slowed`
    /// is the factor by which all polls are slowed down.
    pub fn until_next(
        &self,
        position: PollPosition,
        jitter: f64,
        slowed: u32,
        now: Moment,
    ) -> Duration {
        let (turns, longest) = match position {
            PollPosition::Successor(before) => {
                let longest = times(self.longest, before as u64 + 1);
                (self.time_of(before as u64) / 2, longest)
            }
            PollPosition::Queue(before) => {
                let longest = times(self.longest, before);
                let turns = self.time_of(before).min(self.time_to_learn(now));
                (turns * 3 / 4, longest)
            }
        };
        let longest = longest.max(self.shortest);
        let turns = turns.min(longest).mul_f64(jitter);
        let span = self.slack(now).max(turns).clamp(self.shortest, longest);
        let most = match position {
            PollPosition::Successor(_) => span.saturating_mul(SLOWEST),
            PollPosition::Queue(_) => span,
        };
        let most = most.max(MAX_BY_BRAKE);
        let slowed = span.saturating_mul(slowed).min(most);
        (self.sent + slowed).since(now)
    }
}

/// Keeps `newest`, and drops the oldest if there are already `most`.
fn remember<T>(kept: &mut VecDeque<T>, most: usize, newest: T) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(newest);
}

/// A span, `count` times over.
pub fn times(span: Duration, count: u64) -> Duration {
    span.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Moment {
        Moment::default() + MS * ms
    }

    /// Takes in a poll over a network with a round trip of 10 ms.
    fn poll(pace: &mut PollSchedule, holder: u64, arrived: u32) {
        let holder = Some(Ticket::new(holder));
        pace.timed(at(arrived.saturating_sub(10)), at(arrived));
        pace.saw(holder, at(arrived));
    }

    fn pace() -> PollSchedule {
        let mut pace = PollSchedule::new(5 * MS, 1000 * MS);
        poll(&mut pace, 1, 10);
        pace
    }

    #[test]
    fn the_first_successor_polls_without_pause_until_a_twentieth_of_the_hold_is_longer_than_a_round_trip()
     {
        let mut pace = pace();
        for (arrived, pause) in [(20, 0), (110, 0), (410, 10), (10_010, 490), (100_010, 990)] {
            poll(&mut pace, 1, arrived);
            let next = pace.until_next(PollPosition::Successor(0), 0.8, 1, at(arrived));
            assert_eq!(next, MS * pause, "at {arrived} ms");
        }
    }

    #[test]
    fn a_brake_slows_down_the_first_successor_too() {
        let mut pace = pace();
        poll(&mut pace, 1, 20);
        for (slowed, pause) in [(1, 0), (2, 0), (4, 10), (64, 310)] {
            let next = pace.until_next(PollPosition::Successor(0), 1.0, slowed, at(20));
            assert_eq!(next, MS * pause, "{slowed} times");
        }
    }

    #[test]
    fn a_brake_makes_nobody_sleep_for_longer_than_it_stays_pressed() {
        let mut pace = pace();
        for turn in 1..=9 {
            poll(&mut pace, 1 + turn, 10 + turn as u32 * 100);
        }
        let next =
            |before, slowed| pace.until_next(PollPosition::Queue(before), 1.0, slowed, at(900));
        for (before, slowed, pause) in [(2, 1, 150), (2, 4, 600), (2, 64, 1_000), (8, 64, 1_000)] {
            assert_eq!(
                next(before, slowed),
                MS * pause,
                "{before} before, {slowed} times"
            );
        }
    }

    #[test]
    fn an_answer_that_takes_no_time_is_followed_by_a_pause() {
        let mut pace = PollSchedule::new(5 * MS, 1000 * MS);
        pace.timed(at(0), at(0));
        assert_eq!(
            pace.until_next(PollPosition::Successor(0), 1.2, 1, at(0)),
            5 * MS
        );
    }

    #[test]
    fn successors_poll_twice_in_the_time_of_the_turns_before_them_and_those_behind_after_three_quarters()
     {
        let mut pace = pace();
        for turn in 1..=9 {
            poll(&mut pace, 1 + turn * 4, 10 + turn as u32 * 400);
        }
        let next = |position| pace.until_next(position, 1.0, 1, at(3610));
        assert_eq!(next(PollPosition::Successor(2)), 90 * MS);
        assert_eq!(next(PollPosition::Queue(6)), 440 * MS);
        // The queue was seen for 3.6 s.
        assert_eq!(next(PollPosition::Queue(u64::MAX)), 1_340 * MS);
    }

    #[test]
    fn nobody_sleeps_for_longer_than_half_the_time_for_which_it_has_known_the_queue() {
        let mut pace = pace();
        let next = |pace: &PollSchedule, now| {
            let next = pace.until_next(PollPosition::Queue(1_000_000), 1.0, 1, at(now));
            (next + 10 * MS).as_millis()
        };
        assert_eq!(next(&pace, 10), 375);
        poll(&mut pace, 1, 385);
        assert_eq!(next(&pace, 385), 375);
        poll(&mut pace, 1, 8_010);
        assert_eq!(next(&pace, 8_010), 3_000);
        pace = pace.at_rest();
        poll(&mut pace, 9, 90_000);
        assert_eq!(next(&pace, 90_000), 2_996);
    }

    #[test]
    fn requests_that_were_slow_make_no_slow_queue() {
        let mut pace = PollSchedule::new(5 * MS, 1000 * MS);
        for turn in 1..=9 {
            pace.timed(at(turn * 300 - 200), at(turn * 300));
            pace.saw(Some(Ticket::new(u64::from(turn))), at(turn * 300));
        }
        assert_eq!(pace.turn(), 300 * MS);
        pace.timed(at(2_700), at(2_710));
        // What a turn took beyond a round trip and a quarter, plus a round trip and a quarter as it is now.
        assert_eq!(pace.turn(), 50 * MS + 10 * MS * 5 / 4);
    }

    #[test]
    fn the_first_successors_polls_overlap_when_the_hold_is_about_to_end() {
        let mut pace = pace();
        for turn in 1..=9 {
            assert_eq!(pace.overlap(0, at(20)), None, "knows {turn} turns");
            poll(&mut pace, 1 + turn, 10 + turn as u32 * 100);
        }
        let (before, overlap) = (None, Some(5 * MS));
        for (ms, expected) in [
            (969, before),
            (970, overlap),
            (1109, overlap),
            (1110, before),
        ] {
            assert_eq!(pace.overlap(0, at(ms)), expected, "at {ms} ms");
        }
        pace.saw(None, at(1200));
        assert_eq!(pace.overlap(0, at(1200)), overlap, "free");
    }

    #[test]
    fn the_polls_of_those_behind_overlap_when_turns_are_as_short_as_round_trips() {
        let short = |turn: u32| {
            let mut pace = pace();
            for holder in 2..=10 {
                poll(&mut pace, holder, 10 + holder as u32 * turn);
            }
            [1, 2].map(|before| pace.overlap(before, at(10 + turn * 10)))
        };
        assert_eq!(short(15), [Some(MS * 15 / 2), None]);
        assert_eq!(short(60), [None, None]);
    }

    #[test]
    fn polls_overlap_by_no_less_than_the_shortest() {
        let mut pace = PollSchedule::new(5 * MS, 1000 * MS);
        for turn in 0..10 {
            pace.timed(at(turn * 50), at(turn * 50 + 6));
            pace.saw(Some(Ticket::new(1 + u64::from(turn))), at(turn * 50 + 6));
        }
        assert_eq!(pace.overlap(0, at(500)), Some(5 * MS));
        (0..99).for_each(|_| pace.timed(at(0), at(4)));
        assert_eq!(pace.overlap(0, at(500)), None);
    }

    #[test]
    fn nobody_sleeps_for_longer_than_the_max_poll_interval_for_each_before_it() {
        let mut pace = pace();
        for turn in 1..=9 {
            poll(&mut pace, 1 + turn, 10 + turn as u32 * 60_000);
        }
        let next = |position| pace.until_next(position, 1.0, 1, at(540_010));
        assert_eq!(next(PollPosition::Successor(1)), 1990 * MS);
        assert_eq!(next(PollPosition::Queue(30)), 29_990 * MS);
    }

    #[test]
    fn who_has_seen_little_takes_the_queue_to_be_fast() {
        let mut pace = pace();
        poll(&mut pace, 2, 60_000);
        poll(&mut pace, 3, 120_000);
        assert_eq!(pace.turn(), 10 * MS);
    }

    #[test]
    fn one_long_hold_is_no_slow_queue() {
        let mut pace = pace();
        for turn in 1..=8 {
            poll(&mut pace, 1 + turn, 10 + turn as u32 * 65);
        }
        poll(&mut pace, 10, 60_000);
        assert_eq!(pace.turn(), 65 * MS);
    }

    #[test]
    fn the_mean_is_none_until_a_turn_was_seen_to_end_and_counts_the_last_nine() {
        let mut pace = pace();
        assert_eq!(pace.mean(), None);
        poll(&mut pace, 2, 110);
        assert_eq!(pace.mean(), Some(100 * MS));
        for turn in 1..=8 {
            poll(&mut pace, 2 + turn, 110 + turn as u32 * 10);
        }
        assert_eq!(pace.mean(), Some(20 * MS));
        poll(&mut pace, 11, 200);
        assert_eq!(pace.mean(), Some(10 * MS));
    }

    #[test]
    fn a_poll_that_was_overtaken_shows_no_new_turn() {
        let mut pace = pace();
        poll(&mut pace, 5, 60_010);
        poll(&mut pace, 4, 60_015);
        poll(&mut pace, 6, 60_020);
        assert_eq!(pace.turns.last(), Some(10 * MS));
        assert!(!pace.is_news(at(60_010), at(60_020)));
        assert!(pace.is_news(at(60_015), at(60_020)));
    }

    #[test]
    fn the_time_between_two_waits_is_no_turn() {
        let mut pace = pace();
        for turn in 1..=9 {
            poll(&mut pace, 1 + turn, 10 + turn as u32 * 65);
        }
        for wait in 1..=9 {
            pace = pace.at_rest();
            poll(&mut pace, 10 + wait, wait as u32 * 3_600_000);
        }
        assert_eq!(pace.turn(), 65 * MS);
    }

    #[test]
    fn the_speed_of_the_queue_is_not_learnt_from_the_waiters_own_polls() {
        let mut pace = pace();
        // The polls are very late: a hundred turns go by between any two.
        for poll_at in 1..=9 {
            poll(&mut pace, 1 + poll_at * 100, 10 + poll_at as u32 * 5_000);
        }
        assert_eq!(pace.turn(), 50 * MS);
    }
}
