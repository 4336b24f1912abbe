//! What a worker reports to the demo: one line of JSON each.

use fairlock_cli::contention::turn::Turn;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Ready,
    Granted(Grant),
    Turn(Turn),
    /// The ledger refused the turn.
    Refused(String),
    Failed(String),
    /// How many requests the worker sent, in a phase in which requests are counted.
    Sent(u64),
    /// The last line.
    Done,
}

/// A turn begins.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) worker: u32,
    pub(crate) ticket: u64,
    pub(crate) acquired_ns: u64,
    /// The waiters behind it, in order.
    pub(crate) queue: Vec<String>,
}

impl Line {
    /// Sorts grants by their times, and before the lines about their results.
    pub(crate) fn order(&self) -> u64 {
        match self {
            Line::Granted(grant) => grant.acquired_ns,
            _ => u64::MAX,
        }
    }
}
