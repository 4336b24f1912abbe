//! All that a run brings in.

use crate::traffic::Traffic;
use crate::turn::Turn;

#[derive(Debug, Default)]
pub(crate) struct Harvest {
    pub(crate) turns: Vec<Turn>,
    pub(crate) traffic: Traffic,
    /// What went wrong, one line each.
    pub(crate) troubles: Vec<String>,
}
