//! How long to wait for a turn, and the pace of looking meanwhile.

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

/// How long until the next look.
///
/// The first heir looks often, slowing down with the length of the hold it watches, so that a look late costs the
/// hand-over at most a twentieth of the hold. Those behind look by the turns before them, from the speed of the
/// line: tickets between two looks over the time between them, never the gaps between one's own looks, from which
/// a waiter would learn its own slowness.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    least: Duration,
    most: Duration,
    /// The current holder's ticket, and when it was first seen with the lock.
    holder: Option<(Ticket, Moment)>,
    /// How long one ticket's turn takes, as seen so far.
    turn: Option<Duration>,
}

/// A late look costs the hand-over at most this share of the hold: a twentieth.
const HOLD_SHARE: u32 = 20;

impl Pace {
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        Pace {
            least,
            most,
            holder: None,
            turn: None,
        }
    }

    /// Takes in who held the lock when a look arrived.
    pub(crate) fn saw(&mut self, holder: Option<Ticket>, now: Moment) {
        match (self.holder, holder) {
            (Some((before, since)), Some(ticket)) if before < ticket => {
                self.learn(ticket.get() - before.get(), now.since(since));
                self.holder = Some((ticket, now));
            }
            (Some((before, _)), Some(ticket)) if before == ticket => {}
            (_, ticket) => self.holder = ticket.map(|ticket| (ticket, now)),
        }
    }

    /// Half of the new and half of the old, so that one long hold is soon forgotten.
    fn learn(&mut self, turns: u64, span: Duration) {
        let seen = span / u32::try_from(turns).unwrap_or(u32::MAX).max(1);
        self.turn = Some(self.turn.map_or(seen, |before| (before + seen) / 2));
    }

    pub(crate) fn until_next(&self, position: Position, now: Moment) -> Duration {
        let held = self
            .holder
            .map_or(Duration::ZERO, |(_, since)| now.since(since));
        let slack = held / HOLD_SHARE;
        let turn = self.turn.unwrap_or(self.least);
        let span = match position {
            Position::Heir(0) => slack,
            Position::Heir(before) => slack.max(times(turn, before as u64) / 2),
            Position::Queue(before) => slack.max(times(turn, before) / 2).max(self.least * 2),
        };
        span.clamp(self.least, self.most)
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

    fn pace() -> Pace {
        Pace::new(20 * MS, 1000 * MS)
    }

    #[test]
    fn the_first_heir_slows_down_with_the_hold_it_watches() {
        let mut pace = pace();
        pace.saw(Some(Ticket::new(1)), at(0));
        let spans =
            [10, 1_000, 10_000, 100_000].map(|ms| pace.until_next(Position::Heir(0), at(ms)));
        assert_eq!(spans, [20 * MS, 50 * MS, 500 * MS, 1000 * MS]);
    }

    #[test]
    fn those_behind_look_by_the_turns_before_them() {
        let mut pace = pace();
        pace.saw(Some(Ticket::new(1)), at(0));
        pace.saw(Some(Ticket::new(5)), at(400));
        assert_eq!(pace.until_next(Position::Heir(2), at(400)), 100 * MS);
        assert_eq!(pace.until_next(Position::Queue(6), at(400)), 300 * MS);
        assert_eq!(
            pace.until_next(Position::Queue(u64::MAX), at(400)),
            1000 * MS
        );
    }

    #[test]
    fn the_speed_of_the_line_is_not_learnt_from_ones_own_looks() {
        let mut pace = pace();
        pace.saw(Some(Ticket::new(1)), at(0));
        // One look, very late: a hundred turns went by meanwhile.
        pace.saw(Some(Ticket::new(101)), at(5_000));
        assert_eq!(pace.turn, Some(50 * MS));
    }
}
