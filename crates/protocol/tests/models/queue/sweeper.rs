//! The sweeper: settles what dead clients left, deletes settled rows, and removes a lock item that is idle.

use super::client::{Client, Task};
use super::request::Request;
use super::rules::{Mutant, Rules};
use super::snapshot::Snapshot;
use super::table::{Entry, Table};
use fairlock_protocol::step::{Occupant, Row, RowAt};
use fairlock_protocol::sweep::{SweepStep, next_sweep};
use fairlock_protocol::ticket::Ticket;

impl Client {
    pub(crate) fn swept(&mut self, request: Request) {
        self.task = Task::Waiting;
        if matches!(request, Request::Remove { .. }) {
            self.finish();
        }
    }

    /// Decides for a sweeper by one snapshot, with the library's own function.
    pub(crate) fn sweep(
        &mut self,
        rules: &Rules,
        snapshot: Snapshot,
        table: &Table,
        judge: impl Fn(Entry) -> Occupant,
        expired: impl Fn(Ticket) -> bool,
    ) {
        let mut digest = snapshot.digest(rules, judge);
        let settled = settled_rows(&snapshot, table, rules).map(void);
        digest.rows.splice(0..0, settled);
        self.task = Task::Waiting;
        if rules.broken(Mutant::SweptUnsettled) {
            digest.watermark = digest.last;
        }
        match next_sweep(&digest, |gap| expired(gap).then_some(gap)) {
            SweepStep::Remove(removal) => self.send(Request::remove(&snapshot, &removal, rules)),
            SweepStep::ReadOn => self.task = Task::Reading(snapshot),
            // Row by row: a sweeper may end between two of them.
            SweepStep::Delete(_) => {
                let first = settled_rows(&snapshot, table, rules).next();
                self.send(first.map(|ticket| Request::Delete { ticket }));
            }
            SweepStep::Idle => {
                let last = snapshot.item.last;
                self.send(Some(Request::Remove { last }));
            }
            SweepStep::Done => self.finish(),
        }
    }
}

/// The rows up to the watermark, which a snapshot of the model does not read.
fn settled_rows(snapshot: &Snapshot, table: &Table, rules: &Rules) -> impl Iterator<Item = u8> {
    let end = match rules.broken(Mutant::SweptUnsettled) {
        true => snapshot.item.last,
        false => snapshot.item.watermark,
    };
    (1..=end).filter(|ticket| table.row(*ticket).is_some())
}

fn void(ticket: u8) -> RowAt {
    let ticket = Ticket::new(ticket.into());
    RowAt {
        first: ticket,
        ticket,
        row: Row::Void,
    }
}
