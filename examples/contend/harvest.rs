//! All that a run brings in.

use crate::contest::turn::Turn;
use crate::traffic::Traffic;

#[derive(Debug, Default)]
pub(crate) struct Harvest {
    pub(crate) turns: Vec<Turn>,
    pub(crate) traffic: Traffic,
    /// What went wrong, one line each.
    pub(crate) troubles: Vec<String>,
}
