//! The summary, whose last line says whether the lock kept its promises.

use std::fmt::{self, Formatter};
use std::time::Duration;

use crate::tally::{HandOvers, Tally, Waits};
use crate::traffic::{Sent, Traffic};

pub(crate) struct Report {
    pub(crate) workers: u32,
    pub(crate) tally: Tally,
    pub(crate) missing: Vec<(u32, u32)>,
    pub(crate) traffic: Traffic,
    pub(crate) troubles: Vec<String>,
}

impl Report {
    pub(crate) fn is_good(&self) -> bool {
        let faults = self.tally.overlaps() + self.tally.out_of_order();
        faults == 0 && self.missing.is_empty() && self.troubles.is_empty()
    }

    fn times(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(Waits { min, mean, max }) = self.tally.waits() {
            writeln!(
                f,
                "waits       min {}, mean {}, max {}",
                ms(min),
                ms(mean),
                ms(max)
            )?;
        }
        if let Some(HandOvers { p50, p99, max }) = self.tally.hand_overs() {
            writeln!(
                f,
                "hand-overs  p50 {}, p99 {}, max {}",
                ms(p50),
                ms(p99),
                ms(max)
            )?;
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

    fn troubles(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for trouble in &self.troubles {
            writeln!(f, "failed      {trouble}")?;
        }
        for (worker, cycle) in &self.missing {
            writeln!(f, "missing     the turn of worker {worker}, cycle {cycle}")?;
        }
        Ok(())
    }

    fn a_turn(&self, count: u64) -> String {
        let turns = self.tally.turns().max(1);
        format!("{:.2}", count as f64 / turns as f64)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.times(f)?;
        self.sent(f)?;
        self.troubles(f)?;
        let workers = counted(self.workers as usize, "worker");
        let turns = counted(self.tally.turns(), "turn");
        let overlaps = counted(self.tally.overlaps(), "overlap");
        write!(
            f,
            "{workers}, {turns}: {overlaps}, {} out of order",
            self.tally.out_of_order()
        )
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn ms(span: Duration) -> String {
    format!("{:.2} ms", span.as_secs_f64() * 1e3)
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

    fn report(troubles: Vec<String>, missing: Vec<(u32, u32)>) -> Report {
        let (tally, traffic) = (Tally::new(Vec::new()), Traffic::default());
        Report {
            workers: 8,
            tally,
            missing,
            traffic,
            troubles,
        }
    }

    #[test]
    fn the_last_line_counts_faults() {
        let report = report(Vec::new(), Vec::new());
        assert!(report.is_good());
        let text = report.to_string();
        assert_eq!(
            text.lines().last(),
            Some("8 workers, 0 turns: 0 overlaps, 0 out of order")
        );
        assert_eq!(
            [0, 1, 2].map(|n| counted(n, "turn")),
            ["0 turns", "1 turn", "2 turns"]
        );
    }

    #[test]
    fn troubles_and_missing_turns_are_named_and_fail_the_run() {
        let troubled = report(vec!["worker 3 died".into()], Vec::new());
        assert!(
            !troubled.is_good() && troubled.to_string().contains("failed      worker 3 died\n")
        );
        let missed = report(Vec::new(), vec![(2, 5)]);
        assert!(!missed.is_good() && missed.to_string().contains("worker 2, cycle 5\n"));
    }
}
