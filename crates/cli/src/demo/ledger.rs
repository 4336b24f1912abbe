//! What the demo's lock protects: a file with a line for each turn, which refuses tickets that are not above its last.
//!
//! Reading the last line and writing the next are two steps, and only the lock makes them one. So the ledger refuses a worker that comes
//! after a later ticket was written. Two workers that write at the same instant may both pass, and their times reveal that. A resource that
//! must be safe compares and writes in one step.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::ParseIntError;
use std::path::{Path, PathBuf};

/// The longest line of the ledger, including its end: a ticket, and its holder.
const MAX_LINE: u64 = 100;

#[derive(Debug)]
pub(crate) struct Ledger(PathBuf);

#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerError {
    #[error("the ledger refused ticket {ticket}, for its last one is {last}")]
    Stale { ticket: u64, last: u64 },
    #[error("the ledger cannot be used: {0}")]
    Unusable(#[from] io::Error),
    #[error("the ledger has a line without a ticket: {0}")]
    Damaged(#[from] ParseIntError),
}

impl Ledger {
    pub(crate) fn at(path: PathBuf) -> Ledger {
        Ledger(path)
    }

    /// Appends a line for the holder of this ticket, while it holds the lock.
    pub(crate) fn append(&self, ticket: u64, who: &str) -> Result<(), LedgerError> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).read(true).open(&self.0)?;
        match last(&mut file)? {
            Some(last) if ticket <= last => Err(LedgerError::Stale { ticket, last }),
            _ => Ok(file.write_all(format!("{ticket} {who}\n").as_bytes())?),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// All tickets, in the order in which they were appended. Empty if no turn was taken.
    pub(crate) fn tickets(&self) -> Result<Vec<u64>, LedgerError> {
        match std::fs::read_to_string(&self.0) {
            Ok(text) => Ok(tickets(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The ticket of the last line.
fn last(file: &mut File) -> Result<Option<u64>, LedgerError> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_LINE)))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let line = text.lines().last();
    Ok(line.map(ticket).transpose()?)
}

fn ticket(line: &str) -> Result<u64, ParseIntError> {
    line.split(' ').next().unwrap_or_default().parse()
}

fn tickets(text: &str) -> Result<Vec<u64>, ParseIntError> {
    text.lines().map(ticket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(done: Result<(), LedgerError>) -> String {
        done.unwrap_err().to_string()
    }

    #[test]
    fn a_stale_ticket_is_refused_and_leaves_no_line() {
        let place = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(place.path().join("ledger"));
        ledger.append(7, "worker 1").unwrap();
        ledger.append(9, "worker 2").unwrap();
        let stale = "the ledger refused ticket 8, for its last one is 9";
        assert_eq!(refusal(ledger.append(8, "worker 3")), stale);
        ledger.append(10, "worker 1").unwrap();
        assert_eq!(ledger.tickets().unwrap(), [7, 9, 10]);
    }

    #[test]
    fn a_ticket_is_good_for_one_line() {
        let place = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(place.path().join("ledger"));
        ledger.append(7, "worker 1").unwrap();
        assert!(refusal(ledger.append(7, "worker 1")).contains("refused ticket 7"));
        assert_eq!(ledger.tickets().unwrap(), [7]);
    }

    #[test]
    fn a_line_of_somebody_else_is_told() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ledger");
        std::fs::write(&path, "7 worker 1\nhello\n").unwrap();
        let ledger = Ledger::at(path);
        assert!(refusal(ledger.append(8, "worker 1")).contains("without a ticket"));
        assert!(ledger.tickets().is_err());
    }

    #[test]
    fn a_ledger_that_nobody_wrote_in_is_empty() {
        let place = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(place.path().join("ledger"));
        assert!(ledger.tickets().unwrap().is_empty());
    }
}
