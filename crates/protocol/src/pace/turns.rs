//! How long turns take, as a waiter has seen the lock move on.

use std::collections::VecDeque;
use std::time::Duration;

use super::remember;

/// How many turns are remembered. The lower quartile of them counts: one long hold, or one stall, does not make the queue slow. A late poll
/// costs the whole queue, and an early poll costs one request.
const TURNS: usize = 9;
/// How many of the turns that ended between two polls count, each with their mean duration. So it takes two polls to know a queue.
const MAX_OF_ONE_POLL: u32 = 5;

/// So many turns that were seen one by one teach something. A single one may have been a stall, or a long hold before short ones.
const FEW: usize = 2;

/// The last turns, each as the lock was seen to move on.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(VecDeque<Turn>);

/// How long a ticket's turn took.
#[derive(Clone, Copy, Debug)]
struct Turn {
    took: Duration,
    /// How long a handoff took, by how fast requests were.
    handoff: Duration,
    /// No other turn ended between the same two polls.
    is_alone: bool,
}

impl Turn {
    /// What it took beyond the handoff.
    fn beyond(&self) -> Duration {
        self.took.saturating_sub(self.handoff)
    }
}

impl Turns {
    /// Takes in that this many turns took `span` together, where a handoff takes `handoff`.
    pub(super) fn learn(&mut self, turns: u64, span: Duration, handoff: Duration) {
        let turns = u32::try_from(turns).unwrap_or(u32::MAX).max(1);
        let took = span / turns;
        for _ in 0..turns.min(MAX_OF_ONE_POLL) {
            let turn = Turn {
                took,
                handoff,
                is_alone: turns == 1,
            };
            remember(&mut self.0, TURNS, turn);
        }
    }

    /// Whether enough turns were seen to take the queue for anything but fast.
    pub(super) fn are_known(&self) -> bool {
        self.0.len() >= TURNS - TURNS / 4
    }

    /// The shortest of the turns, if a few of them were seen one by one, and if handoffs were about as fast then as they are now.
    pub(super) fn shortest(&self, handoff: Duration) -> Option<Duration> {
        let seen = self.0.iter().filter(|turn| turn.is_alone).count();
        let is_known = seen >= FEW && self.0.iter().all(|turn| turn.handoff <= handoff * 2);
        let shortest = self.0.iter().map(|turn| turn.took).min();
        shortest.filter(|_| is_known)
    }

    /// The mean of the turns, handoffs included. `None` until a turn was seen to end.
    pub(super) fn mean(&self) -> Option<Duration> {
        let count = u32::try_from(self.0.len()).ok()?;
        let took = self.0.iter().map(|turn| turn.took);
        took.sum::<Duration>().checked_div(count)
    }

    /// How long a turn takes where a handoff takes `handoff`. A turn that was not seen counts as a handoff.
    pub(super) fn usual(&self, handoff: Duration) -> Duration {
        let mut beyond: Vec<_> = self.0.iter().map(Turn::beyond).collect();
        beyond.resize(TURNS, Duration::ZERO);
        beyond.sort_unstable();
        beyond[TURNS / 4] + handoff
    }
}

#[cfg(test)]
impl Turns {
    pub(super) fn last(&self) -> Option<Duration> {
        self.0.back().map(|turn| turn.took)
    }
}
