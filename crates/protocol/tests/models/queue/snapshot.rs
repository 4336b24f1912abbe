//! A snapshot: the lock item first, then the rows one after the other, each as it is when its turn comes.

use super::rules::{Mutant, Rules};
use super::table::{Entry, Item, Row, Table};
use fairlock_protocol::step::{JudgedSnapshot, Known, Occupant, Row as Shown, RowAt};
use fairlock_protocol::ticket::Ticket;

/// How many rows behind the slots a run can have at most.
const BEHIND: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Snapshot {
    pub(crate) item: Item,
    rows: [Option<Row>; BEHIND],
    passed: u8,
    in_page: u8,
}

impl Snapshot {
    pub(crate) fn new(item: Item) -> Self {
        Snapshot {
            item,
            rows: [None; BEHIND],
            passed: 0,
            in_page: 0,
        }
    }

    /// Reads on by one ticket. Returns whether the page ends there.
    pub(crate) fn read(&mut self, table: &Table, page: usize) -> bool {
        let row = table.row(self.upto() + 1);
        self.rows[usize::from(self.passed)] = row;
        self.passed += 1;
        self.in_page += u8::from(row.is_some());
        let is_full = usize::from(self.in_page) == page;
        self.in_page *= u8::from(!is_full);
        is_full || self.is_whole()
    }

    /// Counts rows behind the watermark as read that the client knows without reading them.
    pub(crate) fn know(&mut self, rows: &[Entry]) {
        for (row, entry) in self.rows.iter_mut().zip(rows) {
            *row = Some(Row::Waiting(*entry));
        }
        self.passed = rows.len() as u8;
    }

    pub(crate) fn is_unread(&self) -> bool {
        self.passed == 0 && !self.is_whole()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.upto() >= self.item.last
    }

    fn upto(&self) -> u8 {
        self.item.watermark + self.passed
    }

    fn known(&self) -> Known {
        match self.passed {
            _ if self.is_whole() => Known::All,
            0 => Known::Nothing,
            _ => Known::UpTo(Ticket::new(self.upto().into())),
        }
    }

    /// The row of `ticket`, if this snapshot has read that far.
    pub(crate) fn row(&self, ticket: u8) -> Option<Row> {
        let behind = ticket.checked_sub(self.item.watermark + 1)?;
        self.rows.get(usize::from(behind)).copied().flatten()
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.iter_mut().flatten()
    }

    /// Whether the row of `ticket` was read and was not there.
    pub(crate) fn misses(&self, ticket: u8) -> bool {
        (self.item.watermark + 1..=self.upto()).contains(&ticket) && self.row(ticket).is_none()
    }

    /// The first ticket of a row.
    fn first(&self, ticket: u8) -> Option<u8> {
        self.row(ticket).map(|row| match row {
            Row::Waiting(entry) => entry.first,
            Row::Void(first) => first,
        })
    }

    pub(crate) fn entry(&self, ticket: u8) -> Option<Entry> {
        match self.row(ticket)? {
            Row::Waiting(entry) => Some(entry),
            Row::Void(_) => None,
        }
    }

    pub(crate) fn digest(
        &self,
        rules: &Rules,
        judge: impl Fn(Entry) -> Occupant,
    ) -> JudgedSnapshot {
        let live_is_dead = |mutant, occupant| match occupant {
            Occupant::Alive if rules.broken(mutant) => Occupant::Dead,
            other => other,
        };
        let holds = |entry| live_is_dead(Mutant::LiveHolderEvicted, judge(entry));
        let waits = |entry| live_is_dead(Mutant::LiveSuccessorEvicted, judge(entry));
        JudgedSnapshot {
            holder: self.item.holder(rules).map(holds),
            sharers: self.item.sharers.iter().map(holds).collect(),
            admitted: self.item.admitted(rules).0,
            successors: self.item.successors(rules).map(waits).collect(),
            rows: self.rows_shown(rules, &judge),
            last: Ticket::new(self.item.last.into()),
            watermark: Ticket::new(self.item.watermark.into()),
            known: self.known(),
        }
    }

    fn rows_shown(&self, rules: &Rules, judge: impl Fn(Entry) -> Occupant) -> Vec<RowAt> {
        let skipped = rules.broken(Mutant::GapSkipped).then_some(Shown::Void);
        let tickets = self.item.watermark + 1..=self.upto();
        tickets
            .filter_map(|ticket| {
                let shown = match self.row(ticket) {
                    Some(Row::Waiting(entry)) => Some(match judge(entry) {
                        Occupant::Suspect if rules.broken(Mutant::LateIsPassed) => Shown::Void,
                        occupant => Shown::Waiting(occupant),
                    }),
                    Some(Row::Void(_)) => Some(Shown::Void),
                    None => skipped,
                };
                let first = self
                    .first(ticket)
                    .filter(|_| !rules.broken(Mutant::RowOfOne));
                shown.map(|row| RowAt {
                    first: Ticket::new(first.unwrap_or(ticket).into()),
                    ticket: Ticket::new(ticket.into()),
                    row,
                })
            })
            .collect()
    }
}

/// The first waiting row of all that were read, as the article looks for it.
pub(crate) fn lowest(digest: &JudgedSnapshot) -> Option<Occupant> {
    digest.rows.iter().find_map(|at| match at.row {
        Shown::Waiting(occupant) => Some(occupant),
        Shown::Void => None,
    })
}
