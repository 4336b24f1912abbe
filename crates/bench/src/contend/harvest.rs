//! The results of a run.

use fairlock_cli::contention::turn::Turn;
use fairlock_testkit::request_counts::Traffic;

#[derive(Debug, Default)]
pub(crate) struct Harvest {
    pub(crate) turns: Vec<Turn>,
    pub(crate) traffic: Traffic,
    /// What went wrong, one line each.
    pub(crate) troubles: Vec<String>,
}
