//! The results of a run.

use fairlock_cli::contest::turn::Turn;
use fairlock_testkit::traffic::Traffic;

#[derive(Debug, Default)]
pub(crate) struct Harvest {
    pub(crate) turns: Vec<Turn>,
    pub(crate) traffic: Traffic,
    /// What went wrong, one line each.
    pub(crate) troubles: Vec<String>,
}
