//! The summary, whose last line says whether the lock kept its promises.

use std::fmt::{self, Formatter};

use crate::contest::verdict::Verdict;
use crate::traffic::{Sent, Traffic};

pub(crate) struct Report {
    pub(crate) verdict: Verdict,
    pub(crate) traffic: Traffic,
}

impl Report {
    fn times(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(waits) = self.verdict.tally.waits() {
            writeln!(f, "waits       {waits}")?;
        }
        if let Some(hand_overs) = self.verdict.tally.hand_overs() {
            writeln!(f, "hand-overs  {hand_overs}")?;
        }
        Ok(())
    }

    fn sent(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (turns, beats) = (self.traffic.of_turns(), self.traffic.heartbeats());
        let (requests, writes) = (self.a_turn(turns.requests), self.a_turn(turns.writes));
        writeln!(
            f,
            "sent        {requests} requests a turn, {writes} writes a turn, and {} heartbeats",
            beats.requests
        )?;
        for (operation, verb, sent) in self.traffic.lines() {
            let a_turn = self.a_turn(sent.requests);
            writeln!(
                f,
                "  {operation:<15} {verb:<23} {:>7}  {a_turn:>6} a turn{}",
                sent.requests,
                beyond(sent)
            )?;
        }
        Ok(())
    }

    fn a_turn(&self, count: u64) -> String {
        let turns = self.verdict.tally.turns().max(1);
        format!("{:.2}", count as f64 / turns as f64)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.times(f)?;
        self.sent(f)?;
        write!(f, "{}", self.verdict)
    }
}

/// What sets these requests apart from such as were applied to one item.
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
            verdict: Verdict::new(Vec::new(), 8, 0, Vec::new()),
            traffic: Traffic::default(),
        };
        assert_eq!(
            report.to_string().lines().last(),
            Some("8 workers, 0 turns: 0 overlaps, 0 out of order")
        );
    }
}
