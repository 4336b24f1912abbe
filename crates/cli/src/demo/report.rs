//! The result of the contest: a table of the workers, the handoffs, the ledger, and the verdict.

use std::fmt::{self, Formatter};
use std::process::ExitCode;

use fairlock_cli::contention::tally::{self, Tally, Waits, ms};
use fairlock_cli::contention::turn::Turn;
use fairlock_cli::contention::verdict::Verdict;

use super::event_log::EventLog;
use super::ledger::LedgerError;
use super::savings::Saving;
use crate::args::Demo;

pub(crate) struct Report {
    /// The tallies of the workers, from the first.
    tallies: Vec<Tally>,
    /// Lines of the ledger.
    lines: usize,
    refused: usize,
    /// With `--notify`.
    saving: Option<Saving>,
    verdict: Verdict,
}

impl Report {
    /// Makes the report of the phases, in all of which together each worker wanted `wanted` turns. `ledger` has the ledger's tickets.
    pub(crate) fn new(
        options: &Demo,
        wanted: u32,
        mut logs: Vec<EventLog>,
        ledger: Result<Vec<u64>, LedgerError>,
    ) -> Report {
        let saving = Saving::of(&logs);
        let grants: Vec<_> = logs.iter_mut().flat_map(EventLog::tickets).collect();
        let refused = logs.iter().map(|log| log.refused).sum();
        let (mut turns, mut troubles) = (Vec::new(), Vec::new());
        for log in logs {
            turns.extend(log.turns);
            troubles.extend(log.troubles);
        }
        let tickets = ledger.unwrap_or_else(|error| {
            troubles.push(error.to_string());
            Vec::new()
        });
        troubles.extend(disorder(&tickets, &grants));
        if options.plant_fault {
            tally::plant_fault(&mut turns);
        }
        let of = |worker| Tally::new(turns_of(worker, &turns));
        Report {
            tallies: (1..=options.workers).map(of).collect(),
            lines: tickets.len(),
            refused,
            saving,
            verdict: Verdict::new(turns, options.workers, wanted, troubles),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.verdict.is_good() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn turns_of(worker: u32, turns: &[Turn]) -> Vec<Turn> {
    let of_worker = turns.iter().filter(|turn| turn.worker == worker);
    of_worker.cloned().collect()
}

/// Explains if the ledger's tickets are not in the order of the grants. Tickets may be missing: those of workers that died, or that the
/// ledger refused.
fn disorder(ledger: &[u64], grants: &[u64]) -> Option<String> {
    let mut grants = grants.iter();
    let is_in_order = ledger
        .iter()
        .all(|ticket| grants.any(|grant| grant == ticket));
    (!is_in_order).then(|| "the ledger is not in the order of the grants".into())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [min, mean, max] = ["min", "mean", "max"];
        writeln!(
            f,
            "\n{:<12}{:>5}  waited {min:>8} {mean:>12} {max:>12}",
            "", "turns"
        )?;
        for (number, tally) in (1..).zip(&self.tallies) {
            row(f, number, tally)?;
        }
        writeln!(f)?;
        match (&self.saving, self.verdict.tally.handoffs()) {
            (Some(saving), _) => writeln!(f, "{saving}")?,
            (None, Some(handoffs)) => writeln!(f, "handoffs  {handoffs}")?,
            (None, None) => {}
        }
        let (lines, refused) = (self.lines, self.refused);
        writeln!(f, "ledger      {lines} appended, {refused} refused")?;
        write!(f, "{}", self.verdict)
    }
}

fn row(f: &mut Formatter<'_>, number: u32, tally: &Tally) -> fmt::Result {
    let name = format!("worker {number}");
    write!(f, "{name:<12}{:>5}", tally.turns())?;
    if let Some(Waits { min, mean, max }) = tally.waits() {
        let [min, mean, max] = [min, mean, max].map(ms);
        write!(f, "  {min:>15} {mean:>12} {max:>12}")?;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::line::{Grant, Line};
    use fairlock_cli::contention::monotonic::now_ns;
    use std::time::Duration;

    fn options() -> Demo {
        Demo {
            workers: 1,
            turns: 2,
            hold: Duration::ZERO,
            notify: None,
            plant_fault: false,
        }
    }

    /// Two turns of one worker, as they should be.
    fn log() -> EventLog {
        let mut log = EventLog::start();
        let start = now_ns();
        for (cycle, ticket) in [(1, 7), (2, 9)] {
            let at = start + 10 * u64::from(cycle);
            log.note(Line::Granted(Grant {
                worker: 1,
                ticket,
                acquired_ns: at + 1,
                queue: Vec::new(),
            }));
            log.turns.push(Turn {
                worker: 1,
                cycle,
                ticket,
                requested_ns: at,
                acquired_ns: at + 1,
                releasing_ns: at + 5,
                released_ns: at + 6,
            });
        }
        log
    }

    fn report(log: EventLog, ledger: Result<Vec<u64>, LedgerError>) -> Report {
        Report::new(&options(), 2, vec![log], ledger)
    }

    fn is_good(log: EventLog, ledger: Result<Vec<u64>, LedgerError>) -> bool {
        report(log, ledger).verdict.is_good()
    }

    #[test]
    fn turns_in_order_with_their_lines_in_the_ledger_are_good() {
        let report = report(log(), Ok(vec![7, 9]));
        assert!(report.verdict.is_good());
        let text = report.to_string();
        assert!(text.contains("worker 1        2 "), "{text}");
        assert!(
            text.contains("ledger      2 appended, 0 refused\n"),
            "{text}"
        );
        assert!(text.ends_with("\n1 worker, 2 turns: 0 overlaps, 0 out of order"));
    }

    #[test]
    fn a_refusal_of_the_ledger_fails_the_run() {
        let mut refused = log();
        refused.refused = 1;
        refused.troubles.push("refused".into());
        assert!(!is_good(refused, Ok(vec![9])));
    }

    #[test]
    fn a_ledger_in_another_order_than_the_grants_fails_the_run() {
        assert!(!is_good(log(), Ok(vec![9, 7])));
        assert!(!is_good(log(), Ok(vec![7, 9, 11])));
    }

    #[test]
    fn a_ledger_that_cannot_be_read_fails_the_run() {
        let broken = std::io::Error::other("broken").into();
        assert!(!is_good(log(), Err(broken)));
    }

    #[test]
    fn a_worker_without_a_turn_has_a_row() {
        let mut none = log();
        none.turns.clear();
        let text = report(none, Ok(Vec::new())).to_string();
        assert!(text.contains("worker 1        0\n"), "{text}");
    }
}
