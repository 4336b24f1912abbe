//! How much is measured.

use std::time::Duration;

use fairlock_testkit::queue::QueueSetup;

pub(crate) struct Budget {
    pub(crate) is_brief: bool,
    /// Runs of each figure that has a bound.
    pub(crate) runs: usize,
    /// Runs of each other figure that does not take long.
    pub(crate) fewer: usize,
    /// The turns of a run, at least.
    pub(crate) turns: u32,
    /// The turns of a run, where turns take long.
    pub(crate) slow_turns: u32,
    /// How long the lock is held where processes that are notified are measured with long holds.
    pub(crate) long_hold_ms: u32,
    /// The turns of such a run. A process learns in its first turns how long the others hold the lock.
    pub(crate) long_turns: u32,
    pub(crate) lengths: &'static [u32],
    pub(crate) holds_ms: &'static [u32],
    pub(crate) queues: Vec<QueueSetup>,
    /// How long waiters wait before they are watched.
    pub(crate) settles: Duration,
    /// How long waiters are watched, to compute the cost of a day of waiting.
    pub(crate) watched: Duration,
    /// The number of tasks whose memory is measured.
    pub(crate) tasks: usize,
}

impl Budget {
    pub(crate) fn whole() -> Budget {
        let short = [1, 2, 8, 32, 128].map(|waiters| queue(waiters, 20, 300));
        let long = [queue(1_000, 100, 1_000), queue(10_000, 150, 700)];
        Budget {
            is_brief: false,
            runs: 5,
            fewer: 3,
            turns: 80,
            slow_turns: 24,
            long_hold_ms: 1_000,
            long_turns: 40,
            lengths: &[2, 4, 8, 16, 32],
            holds_ms: &[0, 10, 50, 200, 1_000],
            queues: short.into_iter().chain(long).collect(),
            settles: Duration::from_secs(60),
            watched: Duration::from_secs(1_800),
            tasks: 10_000,
        }
    }

    pub(crate) fn brief() -> Budget {
        Budget {
            is_brief: true,
            runs: 1,
            fewer: 1,
            turns: 2,
            slow_turns: 2,
            long_hold_ms: 100,
            long_turns: 2,
            lengths: &[2, 8],
            holds_ms: &[0, 50],
            queues: [2, 8].map(|waiters| queue(waiters, 10, 5)).to_vec(),
            settles: Duration::from_secs(5),
            watched: Duration::from_secs(60),
            tasks: 20,
        }
    }
}

fn queue(waiters: usize, settles: u64, handoffs: usize) -> QueueSetup {
    QueueSetup {
        waiters,
        hold: Duration::from_millis(50),
        round_trip: Duration::from_millis(10),
        settles: Duration::from_secs(settles),
        handoffs,
    }
}
