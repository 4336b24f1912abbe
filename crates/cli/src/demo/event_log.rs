//! What the workers reported of a contest, in the order in which it happened.

use fairlock_cli::contention::monotonic::now_ns;
use fairlock_cli::contention::turn::Turn;

use super::line::{Grant, Line};

pub(crate) struct EventLog {
    started_ns: u64,
    grants: Vec<Grant>,
    pub(crate) turns: Vec<Turn>,
    /// How many requests the workers sent, if they counted them.
    pub(crate) requests: u64,
    /// How many turns the ledger refused.
    pub(crate) refused: usize,
    /// What went wrong, including the refusals.
    pub(crate) troubles: Vec<String>,
}

impl EventLog {
    pub(crate) fn start() -> EventLog {
        EventLog {
            started_ns: now_ns(),
            grants: Vec::new(),
            turns: Vec::new(),
            requests: 0,
            refused: 0,
            troubles: Vec::new(),
        }
    }

    /// Records a report. Returns the text to show for it, if any.
    pub(crate) fn note(&mut self, line: Line) -> Option<String> {
        match line {
            Line::Granted(grant) => Some(self.grant(grant)),
            Line::Turn(turn) => {
                self.turns.push(turn);
                None
            }
            Line::Sent(requests) => {
                self.requests += requests;
                None
            }
            Line::Refused(trouble) => {
                self.refused += 1;
                Some(self.trouble(trouble))
            }
            Line::Failed(trouble) => Some(self.trouble(trouble)),
            Line::Ready | Line::Done => None,
        }
    }

    fn grant(&mut self, grant: Grant) -> String {
        let (worker, ticket) = (grant.worker, grant.ticket);
        let behind = behind(&grant.queue);
        let said = format!("worker {worker} has it, ticket {ticket}; {behind}");
        let shown = self.at(grant.acquired_ns, &said);
        self.grants.push(grant);
        shown
    }

    /// The tickets of all grants, in the order of their times.
    pub(crate) fn tickets(&mut self) -> Vec<u64> {
        self.grants.sort_by_key(|grant| grant.acquired_ns);
        self.grants.iter().map(|grant| grant.ticket).collect()
    }

    fn trouble(&mut self, trouble: String) -> String {
        let shown = self.at(now_ns(), &trouble);
        self.troubles.push(trouble);
        shown
    }

    fn at(&self, at_ns: u64, what: &str) -> String {
        let seconds = at_ns.saturating_sub(self.started_ns) as f64 / 1e9;
        format!("{seconds:8.3} s  {what}")
    }
}

fn behind(line: &[String]) -> String {
    let number = |owner: &String| owner.trim_start_matches("worker ").to_owned();
    let numbers: Vec<_> = line.iter().map(number).collect();
    match numbers.as_slice() {
        [] => "nobody waits".into(),
        numbers => format!("behind it {}", numbers.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(line: &[&str]) -> Line {
        Line::Granted(Grant {
            worker: 3,
            ticket: 17,
            acquired_ns: 0,
            queue: line.iter().map(|owner| (*owner).to_owned()).collect(),
        })
    }

    #[test]
    fn a_grant_is_shown_with_those_behind_it_in_order() {
        let mut log = EventLog::start();
        assert_eq!(
            log.note(granted(&["worker 5", "worker 4"])).unwrap(),
            "   0.000 s  worker 3 has it, ticket 17; behind it 5, 4"
        );
        assert_eq!(
            log.note(granted(&[])).unwrap(),
            "   0.000 s  worker 3 has it, ticket 17; nobody waits"
        );
        assert_eq!(log.tickets(), [17, 17]);
    }

    #[test]
    fn a_refusal_is_counted_shown_and_a_trouble() {
        let mut log = EventLog::start();
        let refused = Line::Refused("worker 3, cycle 1: refused".into());
        let shown = log.note(refused).unwrap();
        assert!(shown.ends_with(" s  worker 3, cycle 1: refused"), "{shown}");
        assert_eq!((log.refused, log.troubles.len()), (1, 1));
    }

    #[test]
    fn grants_are_sorted_by_their_times_however_they_are_heard() {
        let at = |acquired_ns, ticket| {
            Line::Granted(Grant {
                worker: 1,
                ticket,
                acquired_ns,
                queue: Vec::new(),
            })
        };
        let mut lines = [Line::Failed("worker 3 died".into()), at(2, 9), at(1, 8)];
        lines.sort_by_key(Line::order);
        assert!(matches!(lines[2], Line::Failed(_)));
        let mut log = EventLog::start();
        for line in [at(3, 10), at(1, 8), at(2, 9)] {
            log.note(line);
        }
        assert_eq!(log.tickets(), [8, 9, 10]);
    }
}
