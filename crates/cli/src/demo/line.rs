//! What a worker says to the demo: a line of JSON each.

use fairlock_cli::contest::turn::Turn;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Ready,
    Granted(Grant),
    Turn(Turn),
    /// By the ledger.
    Refused(String),
    Failed(String),
    /// The last one.
    Done,
}

/// A turn begins.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) worker: u32,
    pub(crate) ticket: u64,
    pub(crate) acquired_ns: u64,
    /// Who waits behind it, in order.
    pub(crate) queue: Vec<String>,
}

impl Line {
    /// Sorts grants by their times, and before what came of them.
    pub(crate) fn order(&self) -> u64 {
        match self {
            Line::Granted(grant) => grant.acquired_ns,
            _ => u64::MAX,
        }
    }
}
