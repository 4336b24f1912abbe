//! The verbs on ticket rows, and the read along the queue.

use std::time::Duration;

use fairlock_protocol::entry::{Entry, Nonce, ServerTime};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{LockItem, RowState, TicketRow};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{RowChange, RowWrite};

use crate::name::LockName;

use super::codec::{self, Item, text};
use super::{Attempt, Store, Timed, Write};

/// A range query from the lock item, or from a ticket on, to the end of the queue.
const KEYS: &str = "#pk = :pk AND #sk BETWEEN :from AND :to";

/// A page of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The lock item, if the page began with it and there is one.
    pub(crate) lock: Option<LockItem>,
    pub(crate) rows: Vec<TicketRow>,
    /// Where to read on. `None` at the end of the queue.
    pub(crate) next: Option<Cursor>,
}

/// The last key of a page.
#[derive(Clone, Debug)]
pub(crate) struct Cursor(Item);

type Answer = Result<Timed<Write<TicketRow>>, Failure>;

impl Store {
    /// Puts a drawn ticket's row into the queue.
    pub(crate) async fn join(&self, name: &LockName, attempt: &Attempt, ticket: Ticket) -> Answer {
        let write = RowWrite::join(self.new_entry(attempt, ticket), self.row_expiry());
        attempt.note(self.write_row(name, ticket, write).await)
    }

    /// Makes tickets void whose row never came: this one, and the tickets just before it.
    pub(crate) async fn void_gap(&self, name: &LockName, ticket: Ticket, tickets: u64) -> Answer {
        let gap = TicketRow {
            ticket,
            tickets,
            state: RowState::Void(None),
            expires_at: self.row_expiry(),
        };
        self.write_row(name, ticket, RowWrite::void_gap(gap)).await
    }

    /// Makes the tickets of a dead waiter's row void.
    pub(crate) async fn void_dead(&self, name: &LockName, dead: &Entry) -> Answer {
        self.write_row(name, dead.ticket, RowWrite::void_dead(dead))
            .await
    }

    /// Makes the tickets of a waiter's row void that is as it was seen, though its owner may be alive.
    pub(crate) async fn break_row(
        &self,
        name: &LockName,
        (ticket, tickets): (Ticket, u64),
        nonce: Nonce,
        beat: u64,
    ) -> Answer {
        let write = RowWrite::break_row(nonce, beat, tickets);
        self.write_row(name, ticket, write).await
    }

    /// Makes the attempt's own tickets void, whether their row came or not.
    pub(crate) async fn void_own(
        &self,
        name: &LockName,
        ticket: Ticket,
        attempt: &Attempt,
    ) -> Answer {
        let write = RowWrite::void_own(attempt.nonce, attempt.tickets, self.row_expiry());
        self.write_row(name, ticket, write).await
    }

    /// Renews a waiting row for its owner's `lease`, without its stamp if a later date stands there.
    pub(crate) async fn renew_row(
        &self,
        name: &LockName,
        attempt: &Attempt,
        ticket: Ticket,
        lease: Duration,
    ) -> Answer {
        let renew = |beat, dating| {
            let beat = (beat, attempt.in_table(lease));
            let write = RowWrite::renew(attempt.nonce, beat, dating, self.row_expiry());
            self.write_row(name, ticket, write)
        };
        self.renewed(attempt, renew, TicketRow::waiting).await
    }

    /// Stamps a row that its owner has not stamped.
    pub(super) async fn date_row(
        &self,
        name: &LockName,
        undated: &Entry,
        now: ServerTime,
    ) -> Result<(), Failure> {
        let write = RowWrite::date(undated, now);
        let dated = self.write_row(name, undated.ticket, write).await;
        dated.map(drop)
    }

    /// Reads one page of the queue, strongly consistent: from the lock item on, or from where a page ended.
    pub(crate) async fn read_queue(
        &self,
        name: &LockName,
        from: Option<Cursor>,
        limit: usize,
    ) -> Result<Timed<Page>, Failure> {
        let verb = "read the queue";
        let values = [
            (":pk", name.lock().to_owned()),
            (":from", name.lock_key()),
            (":to", name.end_of_queue()),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), text(value)));
        let from = from.map(|Cursor(key)| key);
        let answer = self.query(verb, (KEYS, values.into()), from, limit).await?;
        answer.try_map(|(items, next)| self.decode_page(verb, name, items, next.map(Cursor)))
    }

    /// Deletes a row that is still as it was seen. Returns whether this call deleted it: `false` also if another client had.
    pub(crate) async fn remove_row(
        &self,
        name: &LockName,
        seen: &TicketRow,
    ) -> Result<bool, Failure> {
        let (write, key) = (RowWrite::remove(seen), self.row_key(name, seen.ticket));
        self.delete(write.verb, key, write.expressions()).await
    }

    /// Where the queue goes on behind a ticket, whether or not it has a row.
    pub(crate) fn behind(&self, name: &LockName, ticket: Ticket) -> Cursor {
        Cursor(self.row_key(name, ticket))
    }

    /// A client that writes a row has had the answer to a draw, so this host's clock counts only where answers do not tell the
    /// time.
    fn row_expiry(&self) -> u64 {
        let by_host = || {
            self.config
                .clock
                .unix()
                .saturating_add(self.config.idle_retention)
                .as_secs()
        };
        self.expiry().unwrap_or_else(by_host)
    }

    async fn write_row(&self, name: &LockName, ticket: Ticket, write: RowWrite) -> Answer {
        let (verb, key) = (write.verb, self.row_key(name, ticket));
        let answer = match &write.change {
            RowChange::Put(row) => {
                let mut item = key.clone();
                let ttl = &self.config.names.ttl;
                item.extend(codec::attributes(RowWrite::attributes(row, ttl)));
                self.put(verb, item, write.expressions()).await?
            }
            RowChange::Update(_) | RowChange::Delete => {
                self.update(verb, key.clone(), write.expressions()).await?
            }
        };
        let answer = self.in_the_way(verb, key, answer).await?;
        answer.try_map(|answer| answer.try_map(|item| self.decode_row(verb, name, ticket, item)))
    }

    /// Skips items that are neither the lock item nor a ticket's row: they are not fairlock's.
    fn decode_page(
        &self,
        verb: &'static str,
        name: &LockName,
        items: Vec<Item>,
        next: Option<Cursor>,
    ) -> Result<Page, Failure> {
        let mut page = Page {
            lock: None,
            rows: Vec::with_capacity(items.len()),
            next,
        };
        for item in items {
            let sort_key = item
                .get(&self.config.names.sort_key)
                .and_then(|key| key.as_s().ok());
            let Some(sort_key) = sort_key else { continue };
            if *sort_key == name.lock_key() {
                page.lock = Some(self.decode_lock(verb, name, item)?);
            } else if let Some(ticket) = name.ticket_of(sort_key) {
                page.rows.push(self.decode_row(verb, name, ticket, item)?);
            }
        }
        Ok(page)
    }

    fn decode_row(
        &self,
        verb: &'static str,
        name: &LockName,
        ticket: Ticket,
        item: Item,
    ) -> Result<TicketRow, Failure> {
        let ttl = &self.config.names.ttl;
        fairlock_protocol::codec::ticket_row(&codec::values(item), ticket, ttl)
            .map_err(|problem| self.unreadable(verb, name, &name.row_key(ticket), problem))
    }
}
