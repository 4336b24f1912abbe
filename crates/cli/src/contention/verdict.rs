//! Whether the lock kept its promises: the last lines of a report.

use std::fmt::{self, Formatter};

use super::tally::{self, Tally};
use super::turn::Turn;

/// Whether a contest was fair.
pub struct Verdict {
    workers: u32,
    missing: Vec<(u32, u32)>,
    /// The turns that were taken.
    pub tally: Tally,
    /// What went wrong, one line each.
    pub troubles: Vec<String>,
}

impl Verdict {
    /// Judges the turns of `workers` workers, each of which wanted `cycles` turns.
    pub fn new(turns: Vec<Turn>, workers: u32, cycles: u32, troubles: Vec<String>) -> Self {
        Verdict {
            workers,
            missing: tally::missing(&turns, workers, cycles),
            tally: Tally::new(turns),
            troubles,
        }
    }

    /// Whether all turns were taken, in order, and no two at once, without any trouble.
    pub fn is_good(&self) -> bool {
        let faults = self.tally.overlaps() + self.tally.out_of_order();
        faults == 0 && self.missing.is_empty() && self.troubles.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for trouble in &self.troubles {
            writeln!(f, "failed      {trouble}")?;
        }
        for (worker, cycle) in &self.missing {
            writeln!(f, "missing     the turn of worker {worker}, cycle {cycle}")?;
        }
        let workers = counted(self.workers as usize, "worker");
        let turns = counted(self.tally.turns(), "turn");
        let overlaps = counted(self.tally.overlaps(), "overlap");
        let late = self.tally.out_of_order();
        write!(f, "{workers}, {turns}: {overlaps}, {late} out of order")
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_faults() {
        let verdict = Verdict::new(Vec::new(), 8, 0, Vec::new());
        assert!(verdict.is_good());
        assert_eq!(
            verdict.to_string(),
            "8 workers, 0 turns: 0 overlaps, 0 out of order"
        );
        assert_eq!(
            [0, 1, 2].map(|n| counted(n, "turn")),
            ["0 turns", "1 turn", "2 turns"]
        );
    }

    #[test]
    fn troubles_and_missing_turns_are_named_and_fail_the_run() {
        let troubled = Verdict::new(Vec::new(), 8, 0, vec!["worker 3 died".into()]);
        assert!(!troubled.is_good());
        assert!(troubled.to_string().contains("failed      worker 3 died\n"));
        let missed = Verdict::new(Vec::new(), 1, 1, Vec::new());
        assert!(!missed.is_good() && missed.to_string().contains("worker 1, cycle 1\n"));
    }
}
