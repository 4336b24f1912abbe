//! The summary. Its last line says whether the lock kept its promises.

use std::fmt::{self, Formatter};

use fairlock_cli::contention::verdict::Verdict;
use fairlock_testkit::request_counts::{Sent, Traffic};

use crate::contend::figures::Figures;

pub(crate) struct Report {
    pub(crate) figures: Figures,
    pub(crate) verdict: Verdict,
    pub(crate) traffic: Traffic,
}

impl Report {
    fn sent(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (turns, beats) = (self.traffic.of_turns(), self.traffic.heartbeats());
        let (requests, writes) = (
            self.a_turn(turns.requests as f64),
            self.a_turn(turns.writes as f64),
        );
        writeln!(
            f,
            "sent        {requests} requests a turn, {writes} writes a turn, and {} heartbeats",
            beats.requests
        )?;
        if turns.read_units + turns.write_units > 0.0 {
            let (reads, writes) = (
                self.a_turn(turns.read_units),
                self.a_turn(turns.write_units),
            );
            writeln!(
                f,
                "capacity    {writes} write units a turn, {reads} read units a turn"
            )?;
        }
        for (operation, verb, sent) in self.traffic.lines() {
            let a_turn = self.a_turn(sent.requests as f64);
            writeln!(
                f,
                "  {operation:<15} {verb:<23} {:>7}  {a_turn:>6} a turn{}",
                sent.requests,
                beyond(sent)
            )?;
        }
        Ok(())
    }

    fn a_turn(&self, count: f64) -> String {
        let turns = self.verdict.tally.turns().max(1);
        format!("{:.2}", count / turns as f64)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.figures)?;
        self.sent(f)?;
        write!(f, "{}", self.verdict)
    }
}

/// The requests that were not simply applied to one item, in words.
fn beyond(sent: &Sent) -> String {
    let mut words = Vec::new();
    let more = [(sent.refused, "refused"), (sent.unanswered, "unanswered")];
    let more = more.iter().filter(|(count, _)| *count > 0);
    words.extend(more.map(|(count, what)| format!("{count} {what}")));
    if sent.writes > sent.requests {
        words.push(format!("{} items", sent.writes));
    }
    if words.is_empty() {
        String::new()
    } else {
        format!(", {}", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_verdict() {
        let report = Report {
            figures: Figures::of(&[], None),
            verdict: Verdict::new(Vec::new(), 8, 0, Vec::new()),
            traffic: Traffic::default(),
        };
        assert_eq!(
            report.to_string().lines().last(),
            Some("8 workers, 0 turns: 0 overlaps, 0 out of order")
        );
    }
}
