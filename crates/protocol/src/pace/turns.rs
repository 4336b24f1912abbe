//! How long turns take, as a waiter has seen the lock move on.

use std::collections::VecDeque;
use std::time::Duration;

use super::remember;

/// How many turns are remembered. The lower quartile of them counts: one long hold, or one stall, does not make the queue slow. A late poll
/// costs the whole queue, and an early poll costs one request.
const TURNS: usize = 9;
/// How many of the turns that ended between two polls count, each with their mean duration. So it takes two polls to know a queue.
const MAX_OF_ONE_POLL: u32 = 5;

/// The last turns, each as the lock was seen to move on.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(VecDeque<Turn>);

/// How long a ticket's turn took.
#[derive(Clone, Copy, Debug)]
struct Turn {
    took: Duration,
    /// What it took beyond the handoff, by how fast requests were.
    beyond: Duration,
}

impl Turns {
    /// Takes in that this many turns took `span` together, where a handoff takes `handoff`.
    pub(super) fn learn(&mut self, turns: u64, span: Duration, handoff: Duration) {
        let turns = u32::try_from(turns).unwrap_or(u32::MAX).max(1);
        let took = span / turns;
        let beyond = took.saturating_sub(handoff);
        for _ in 0..turns.min(MAX_OF_ONE_POLL) {
            remember(&mut self.0, TURNS, Turn { took, beyond });
        }
    }

    /// Whether enough turns were seen to take the queue for anything but fast.
    pub(super) fn are_known(&self) -> bool {
        self.0.len() >= TURNS - TURNS / 4
    }

    /// The mean of the turns, handoffs included. `None` until a turn was seen to end.
    pub(super) fn mean(&self) -> Option<Duration> {
        let count = u32::try_from(self.0.len()).ok()?;
        let took = self.0.iter().map(|turn| turn.took);
        took.sum::<Duration>().checked_div(count)
    }

    /// How long a turn takes where a handoff takes `handoff`. A turn that was not seen counts as a handoff.
    pub(super) fn usual(&self, handoff: Duration) -> Duration {
        let mut beyond: Vec<_> = self.0.iter().map(|turn| turn.beyond).collect();
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
