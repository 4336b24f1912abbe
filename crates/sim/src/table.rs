//! The table: each lock's item and rows as values, changed by the protocol's own writes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use fairlock_protocol::agent::{Answer, Cursor, Page, Shown, What};
use fairlock_protocol::failure::{Failure, Kind};
use fairlock_protocol::item::{LockItem, RowState, TicketRow};
use fairlock_protocol::problem::ItemProblem;
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::write::{LockWrite, RowWrite};

use crate::mistakes::Mistake;

/// The format of the items that newer hosts write, and the one before it.
const NEWER: (u64, u64) = (99, 98);

/// The table.
pub(crate) struct Table {
    locks: Vec<Kept>,
    mistake: Option<Mistake>,
}

/// What stands in the table for a lock.
#[derive(Clone, Default)]
struct Kept {
    item: Option<Arc<LockItem>>,
    rows: BTreeMap<Ticket, TicketRow>,
    /// The item is of a newer format, which old hosts cannot read.
    is_newer: bool,
}

/// What a request came to at the table.
pub(crate) struct Served {
    pub(crate) answer: Result<Answer, Failure>,
    /// The request changed the lock item.
    pub(crate) has_changed: bool,
}

impl Table {
    pub(crate) fn new(locks: usize, mistake: Option<Mistake>) -> Self {
        Table {
            locks: vec![Kept::default(); locks],
            mistake,
        }
    }

    pub(crate) fn item(&self, lock: usize) -> Option<&Arc<LockItem>> {
        self.locks[lock].item.as_ref()
    }

    pub(crate) fn rows(&self, lock: usize) -> &BTreeMap<Ticket, TicketRow> {
        &self.locks[lock].rows
    }

    /// Serves a request of a host that reads newer formats, or does not.
    pub(crate) fn serve(&mut self, lock: usize, what: &What, reads_newer: bool) -> Served {
        if !reads_newer && self.is_unreadable(lock, what) {
            let answer = Err(newer_format(what));
            return Served {
                answer,
                has_changed: false,
            };
        }
        let (answer, has_changed) = match what {
            What::Write { write, shows } => self.answer_write(lock, write, *shows),
            What::WriteRow(ticket, write) => (self.answer_row(lock, *ticket, write), false),
            What::Read => (Answer::Read(self.item(lock).cloned()), false),
            What::Query { after, limit } => {
                (Answer::Page(self.page(lock, after.as_ref(), *limit)), false)
            }
            What::Delete(tickets) => {
                let rows = &mut self.locks[lock].rows;
                tickets.iter().for_each(|ticket| _ = rows.remove(ticket));
                (Answer::Deleted, false)
            }
        };
        Served {
            answer: Ok(answer),
            has_changed,
        }
    }

    /// Whether the request meets an item that its host cannot read. No write of such a host applies to it.
    fn is_unreadable(&self, lock: usize, what: &What) -> bool {
        let kept = &self.locks[lock];
        let meets_item = match what {
            What::Write { .. } | What::Read => true,
            What::Query { after, .. } => after.is_none(),
            What::WriteRow(..) | What::Delete(_) => false,
        };
        meets_item && kept.is_newer && kept.item.is_some()
    }

    fn answer_write(&mut self, lock: usize, write: &LockWrite, shows: bool) -> (Answer, bool) {
        match self.write(lock, write) {
            Some(Some(item)) => (Answer::Applied(Shown::Item(item)), true),
            Some(None) => (Answer::Applied(Shown::Nothing), true),
            None => {
                let shown = self.item(lock).filter(|_| shows);
                (
                    Answer::ConditionFailed(shown.cloned().map(Shown::Item)),
                    false,
                )
            }
        }
    }

    /// Returns the item after the write, if it was applied. The inner `None` means that it was deleted.
    pub(crate) fn write(
        &mut self,
        lock: usize,
        write: &LockWrite,
    ) -> Option<Option<Arc<LockItem>>> {
        let mistaken = self
            .mistake
            .as_ref()
            .and_then(|mistake| mistake.made_of(write));
        let kept = &mut self.locks[lock];
        let item = mistaken
            .as_ref()
            .unwrap_or(write)
            .apply(kept.item.as_deref())?;
        kept.item = item.map(Arc::new);
        kept.is_newer &= kept.item.is_some();
        Some(kept.item.clone())
    }

    fn answer_row(&mut self, lock: usize, ticket: Ticket, write: &RowWrite) -> Answer {
        match self.write_row(lock, ticket, write) {
            Some(Some(row)) => Answer::Applied(Shown::Row(Box::new(row))),
            Some(None) => Answer::Applied(Shown::Nothing),
            None => {
                let row = self.rows(lock).get(&ticket);
                Answer::ConditionFailed(row.cloned().map(Box::new).map(Shown::Row))
            }
        }
    }

    /// Returns the row after the write, if it was applied. The inner `None` means that it was deleted.
    pub(crate) fn write_row(
        &mut self,
        lock: usize,
        ticket: Ticket,
        write: &RowWrite,
    ) -> Option<Option<TicketRow>> {
        let mistaken = self
            .mistake
            .as_ref()
            .and_then(|mistake| mistake.made_of_row(write));
        let nothing = TicketRow {
            ticket,
            tickets: 1,
            state: RowState::Void(None),
            expires_at: 0,
        };
        let rows = &mut self.locks[lock].rows;
        let write = mistaken.as_ref().unwrap_or(write);
        let row = write.apply(rows.get(&ticket), &nothing)?;
        match &row {
            Some(row) => _ = rows.insert(ticket, row.clone()),
            None => _ = rows.remove(&ticket),
        }
        Some(row)
    }

    /// The lock item comes before the rows. DynamoDB says where a page goes on as soon as it is full, also where nothing follows.
    fn page(&self, lock: usize, after: Option<&Cursor>, limit: usize) -> Page {
        let kept = &self.locks[lock];
        let from = match after {
            None => Bound::Unbounded,
            Some(Cursor::Ticket(ticket)) => Bound::Excluded(*ticket),
            Some(Cursor::Key(key)) => match Ticket::from_key(key) {
                Some(ticket) => Bound::Excluded(ticket),
                None => Bound::Unbounded,
            },
        };
        let item = kept.item.clone().filter(|_| after.is_none() && limit > 0);
        let left = limit - usize::from(item.is_some()).min(limit);
        let rows = kept.rows.range((from, Bound::Unbounded)).take(left);
        let rows: Vec<_> = rows.map(|(_, row)| row.clone()).collect();
        let next = match rows.last() {
            Some(row) if rows.len() == left => Some(Cursor::Ticket(row.ticket)),
            None if left == 0 && item.is_some() => Some(Cursor::Key("#lock".into())),
            _ => None,
        };
        Page { item, rows, next }
    }

    /// Deletes what has expired by the clock of TTL. Returns the locks whose item went.
    pub(crate) fn expire(&mut self, now: u64) -> Vec<usize> {
        let has_expired = |expires_at: u64| expires_at != 0 && expires_at < now;
        let mut gone = Vec::new();
        for (lock, kept) in self.locks.iter_mut().enumerate() {
            kept.rows.retain(|_, row| !has_expired(row.expires_at));
            if kept
                .item
                .take_if(|item| has_expired(item.expires_at))
                .is_some()
            {
                kept.is_newer = false;
                gone.push(lock);
            }
        }
        gone
    }

    /// A newer host changes the format of an item, or an operator changes it back.
    pub(crate) fn set_newer(&mut self, lock: usize, is_newer: bool) {
        let kept = &mut self.locks[lock];
        kept.is_newer = is_newer && kept.item.is_some();
    }
}

fn newer_format(what: &What) -> Failure {
    let (found, known) = NEWER;
    Failure {
        verb: what.verb(),
        kind: Kind::Invalid {
            item: "#lock".into(),
            problem: ItemProblem::NewerFormat { found, known },
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairlock_protocol::entry::{Entry, Nonce};
    use fairlock_protocol::stamps::Stamps;
    use fairlock_protocol::write::{Entrance, NewItem, end};

    use super::*;
    use crate::scripted::scripted;

    fn entry(nonce: u128, ticket: u64) -> Entry {
        let lasts = (Stamps::default(), Duration::from_secs(1));
        scripted(Nonce::new(nonce), Ticket::new(ticket), lasts)
    }

    fn enter(nonce: u128) -> What {
        let entrance = Entrance {
            below: end(1),
            slots: None,
            join_timeout: Duration::ZERO,
            new: Some(NewItem {
                start: Ticket::new(10),
                expiry: 100,
            }),
        };
        let write = LockWrite::enter(64, entry(nonce, 0), entrance);
        What::Write { write, shows: true }
    }

    fn table_with_rows(tickets: &[u64]) -> Table {
        let mut table = Table::new(1, None);
        table.serve(0, &enter(1), true);
        for &ticket in tickets {
            let join = RowWrite::join(entry(ticket.into(), ticket), 50);
            table.write_row(0, Ticket::new(ticket), &join);
        }
        table
    }

    fn query(
        table: &mut Table,
        after: Option<Cursor>,
        limit: usize,
    ) -> (bool, Vec<u64>, Option<Cursor>) {
        let served = table.serve(0, &What::Query { after, limit }, true);
        let Ok(Answer::Page(page)) = served.answer else {
            panic!("no page");
        };
        let rows = page.rows.iter().map(|row| row.ticket.get()).collect();
        (page.item.is_some(), rows, page.next)
    }

    #[test]
    fn a_write_applies_once_and_a_refusal_shows_what_it_met_if_that_is_asked_for() {
        let mut table = Table::new(1, None);
        let served = table.serve(0, &enter(1), true);
        assert!(served.has_changed);
        assert!(
            matches!(served.answer, Ok(Answer::Applied(Shown::Item(item))) if item.last.get() == 11)
        );
        let refused = table.serve(0, &enter(2), true);
        let shows =
            |answer: &_| matches!(answer, Ok(Answer::ConditionFailed(Some(Shown::Item(_)))));
        assert!(!refused.has_changed && shows(&refused.answer));
        let What::Write { write, .. } = enter(2) else {
            panic!("no write");
        };
        let unread = What::Write {
            write,
            shows: false,
        };
        let refused = table.serve(0, &unread, true).answer;
        assert!(matches!(refused, Ok(Answer::ConditionFailed(None))));
    }

    #[test]
    fn pages_begin_with_the_item_and_go_on_behind_a_cursor() {
        let mut table = table_with_rows(&[12, 14, 15]);
        let cursor = |ticket| Some(Cursor::Ticket(Ticket::new(ticket)));
        assert_eq!(query(&mut table, None, 9), (true, vec![12, 14, 15], None));
        assert_eq!(query(&mut table, None, 3), (true, vec![12, 14], cursor(14)));
        assert_eq!(query(&mut table, cursor(14), 3), (false, vec![15], None));
        assert_eq!(
            query(&mut table, cursor(14), 1),
            (false, vec![15], cursor(15))
        );
        let (has_item, rows, next) = query(&mut table, None, 1);
        assert!(has_item && rows.is_empty() && next.is_some());
        assert_eq!(query(&mut table, next, 9), (false, vec![12, 14, 15], None));
    }

    #[test]
    fn rows_are_deleted_and_expire_and_so_does_the_item() {
        let mut table = table_with_rows(&[12, 14, 15]);
        let delete = What::Delete(vec![Ticket::new(12), Ticket::new(13)]);
        assert!(matches!(
            table.serve(0, &delete, true).answer,
            Ok(Answer::Deleted)
        ));
        assert_eq!(table.rows(0).len(), 2);
        assert!(table.expire(50).is_empty() && table.rows(0).len() == 2);
        assert!(table.expire(51).is_empty() && table.rows(0).is_empty());
        assert!(table.item(0).is_some());
        assert_eq!(table.expire(101), [0]);
        assert!(table.item(0).is_none());
    }

    #[test]
    fn an_old_host_neither_reads_nor_writes_a_newer_item() {
        let mut table = table_with_rows(&[]);
        table.set_newer(0, true);
        for what in [What::Read, enter(2)] {
            let old = table.serve(0, &what, false);
            assert!(!old.has_changed && old.answer.is_err_and(|it| it.is_newer_format()));
            assert!(table.serve(0, &what, true).answer.is_ok());
        }
    }
}
