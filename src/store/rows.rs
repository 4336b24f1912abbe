//! The verbs on ticket rows, and the look along the line.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::name::LockName;
use fairlock_protocol::entry::{Entry, ServerTime};
use fairlock_protocol::item::{LockItem, RowState, TicketRow};
use fairlock_protocol::ticket::Ticket;

use super::codec::{self, Item, number, text};
use super::failure::{Failure, sort};
use super::lock_item::judged;
use super::request::{Values, owned};
use super::{Attempt, Dating, Store, Timed, Write, ask, renewal};

/// No row yet: a void one means that this one comes too late.
const NO_ROW: &str = "attribute_not_exists(#pk)";

/// The very beat that was judged: a renewal that came meanwhile saves the waiter.
const VOID_DEAD: [&str; 2] = [
    "SET #state = :void, #tickets = :tickets",
    "#entry.#nonce = :nonce AND #entry.#beat = :beat AND #state = :waiting",
];
/// Absent too: a join of ours that is still under way must not make a row that looks alive.
const VOID_OWN: [&str; 2] = [
    "SET #state = :void, #tickets = :tickets, #expires_at = if_not_exists(#expires_at, :expiry)",
    "attribute_not_exists(#pk) OR #entry.#nonce = :nonce",
];
/// Still waiting, and ours: a void row stays void. No later beat nor date there: a late duplicate must not take them back.
const RENEW: [&str; 2] = [
    "SET #entry.#beat = :beat, #entry.#lease_ms = :lease, #entry.#renewed_at = :renewed_at, #expires_at = :expiry",
    "#entry.#nonce = :nonce AND #entry.#beat < :beat AND #state = :waiting AND NOT #entry.#renewed_at > :newest",
];
/// A later date stands there, and stays.
const RENEW_UNDER_LATER: [&str; 2] = [
    "SET #entry.#beat = :beat, #entry.#lease_ms = :lease, #expires_at = :expiry",
    "#entry.#nonce = :nonce AND #entry.#beat < :beat AND #state = :waiting AND #entry.#renewed_at > :newest",
];
/// By one to whom no answer ever told the time.
const RENEW_UNDATED: [&str; 2] = [
    "SET #entry.#beat = :beat, #entry.#lease_ms = :lease, #expires_at = :expiry REMOVE #entry.#renewed_at",
    "#entry.#nonce = :nonce AND #entry.#beat < :beat AND #state = :waiting",
];
/// The very row that was seen, and still without a date.
const DATE: [&str; 2] = [
    "SET #entry.#renewed_at = :renewed_at",
    "#entry.#nonce = :nonce AND #entry.#beat = :beat AND #state = :waiting \
     AND attribute_not_exists(#entry.#renewed_at)",
];
/// As it was seen.
const REMOVE_VOID: &str = "#state = :void";
const REMOVE_WAITING: &str =
    "#state = :waiting AND #entry.#nonce = :nonce AND #entry.#beat = :beat";

/// A range query from the lock item, or from a ticket on, to the end of the line.
const LINE: &str = "#pk = :pk AND #sk BETWEEN :from AND :to";

/// One page of the line.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The lock item, if the page began with it and there is one.
    pub(crate) lock: Option<LockItem>,
    pub(crate) rows: Vec<TicketRow>,
    /// Where to read on; none at the end of the line.
    pub(crate) next: Option<Cursor>,
}

/// The last key of a page.
#[derive(Clone, Debug)]
pub(crate) struct Cursor(Item);

type Answer = Result<Timed<Write<TicketRow>>, Failure>;

impl Store {
    /// Puts a drawn ticket's row into the line.
    pub(crate) async fn join(&self, name: &LockName, attempt: &Attempt, ticket: Ticket) -> Answer {
        let entry = codec::entry(&self.new_entry(attempt, ticket), Some(ticket));
        let item = self.row_item(name, ticket, "waiting", Some(entry));
        attempt.note(self.timed(self.put_row("join", name, ticket, item)).await)
    }

    /// Settles tickets whose row never came: this one, and those just before it.
    pub(crate) async fn void_gap(&self, name: &LockName, ticket: Ticket, tickets: u64) -> Answer {
        let mut item = self.row_item(name, ticket, "void", None);
        item.extend(codec::several(tickets));
        self.timed(self.put_row("void a gap", name, ticket, item))
            .await
    }

    /// Settles a ticket whose waiter is dead.
    pub(crate) async fn void_dead(&self, name: &LockName, dead: &Entry) -> Answer {
        let mut values = judged(dead);
        values.extend([
            (":void", text("void")),
            (":waiting", text("waiting")),
            (":tickets", number(dead.tickets)),
        ]);
        self.update_row("void a dead row", name, dead.ticket, VOID_DEAD, values)
            .await
    }

    /// Settles one's own tickets, whether their row came or not.
    pub(crate) async fn void_own(
        &self,
        name: &LockName,
        ticket: Ticket,
        attempt: &Attempt,
    ) -> Answer {
        let nonce = attempt.nonce.to_string();
        let values = vec![
            (":void", text("void")),
            (":nonce", text(nonce)),
            (":tickets", number(attempt.tickets)),
            (":expiry", self.row_expiry()),
        ];
        self.update_row("leave", name, ticket, VOID_OWN, values)
            .await
    }

    /// Renews a waiting row, under the later date if one stands there.
    pub(crate) async fn renew_row(
        &self,
        name: &LockName,
        attempt: &Attempt,
        ticket: Ticket,
        lease: Duration,
    ) -> Answer {
        let renew = |dating: Dating| {
            let mut values = renewal(attempt.nonce, lease, dating);
            values.extend([
                (":beat", attempt.next_beat()),
                (":waiting", text("waiting")),
                (":expiry", self.row_expiry()),
            ]);
            let form = match dating {
                Dating::By(_) => RENEW,
                Dating::UnderLater(_) => RENEW_UNDER_LATER,
                Dating::None => RENEW_UNDATED,
            };
            self.update_row("renew", name, ticket, form, values)
        };
        self.renewed(attempt, renew, TicketRow::waiting).await
    }

    /// Dates a row that its owner has not dated.
    pub(super) async fn date_row(
        &self,
        name: &LockName,
        undated: &Entry,
        now: ServerTime,
    ) -> Result<(), Failure> {
        let mut values = judged(undated);
        values.extend([
            (":waiting", text("waiting")),
            (":renewed_at", codec::millis(now.0)),
        ]);
        let dated = self.update_row("date", name, undated.ticket, DATE, values);
        dated.await.map(drop)
    }

    /// Reads one page of the line, strongly consistent: from the lock item on, or from where a page ended.
    pub(crate) async fn read_line(
        &self,
        name: &LockName,
        from: Option<Cursor>,
        limit: usize,
    ) -> Result<Timed<Page>, Failure> {
        self.timed(self.query_line(name, from, limit)).await
    }

    /// Deletes a row that is still as it was seen. Whether it is gone.
    pub(crate) async fn remove_row(
        &self,
        name: &LockName,
        seen: &TicketRow,
    ) -> Result<bool, Failure> {
        let (condition, values) = match &seen.state {
            RowState::Void(_) => (REMOVE_VOID, vec![(":void", text("void"))]),
            RowState::Waiting(entry) => {
                let mut values = judged(entry);
                values.push((":waiting", text("waiting")));
                (REMOVE_WAITING, values)
            }
        };
        let key = self.row_key(name, seen.ticket);
        self.delete("delete a settled row", key, condition, values)
            .await
    }

    /// Where the line goes on behind a ticket, whether or not it has a row.
    pub(crate) fn behind(&self, name: &LockName, ticket: Ticket) -> Cursor {
        Cursor(self.row_key(name, ticket))
    }

    fn row_item(
        &self,
        name: &LockName,
        ticket: Ticket,
        state: &str,
        entry: Option<AttributeValue>,
    ) -> Item {
        let mut item = self.row_key(name, ticket);
        item.insert("state".into(), text(state));
        item.insert(self.config.names.ttl.clone(), self.row_expiry());
        item.extend(entry.map(|entry| ("entry".into(), entry)));
        item
    }

    /// Whoever writes a row has had the answer to a draw, so this host's clock counts only where answers do not tell the time.
    fn row_expiry(&self) -> AttributeValue {
        let by_host = || (self.config.clock.unix() + self.config.idle_retention).as_secs();
        number(self.expiry().unwrap_or_else(by_host))
    }

    async fn put_row(
        &self,
        verb: &'static str,
        name: &LockName,
        ticket: Ticket,
        item: Item,
    ) -> Result<Write<TicketRow>, Failure> {
        let write = self
            .put(verb, self.row_key(name, ticket), item, NO_ROW)
            .await?;
        write.try_map(|item| self.decode_row(verb, name, ticket, &item))
    }

    async fn update_row(
        &self,
        verb: &'static str,
        name: &LockName,
        ticket: Ticket,
        form: [&str; 2],
        values: Values,
    ) -> Answer {
        self.timed(async {
            let write = self
                .update(verb, self.row_key(name, ticket), form, values)
                .await?;
            write.try_map(|item| self.decode_row(verb, name, ticket, &item))
        })
        .await
    }

    async fn query_line(
        &self,
        name: &LockName,
        from: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, Failure> {
        let verb = "read the line";
        let values = vec![
            (":pk", text(name.lock())),
            (":from", text(name.lock_key())),
            (":to", text(name.end_of_line())),
        ];
        let request = self
            .client
            .query()
            .table_name(&self.config.table)
            .consistent_read(true);
        let request = request
            .key_condition_expression(LINE)
            .set_expression_attribute_names(Some(self.names(&[LINE])))
            .set_expression_attribute_values(Some(owned(values)))
            .set_exclusive_start_key(from.map(|Cursor(key)| key))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let answer = ask(request.send()).await;
        let answer = answer.map_err(|failed| sort(verb, failed).of_a_read())?;
        let next = answer.last_evaluated_key.map(Cursor);
        self.decode_page(verb, name, answer.items.unwrap_or_default(), next)
    }

    /// Items that are neither the lock item nor a ticket's row are somebody else's, and passed over.
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
        for item in &items {
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
        item: &Item,
    ) -> Result<TicketRow, Failure> {
        codec::ticket_row(item, ticket)
            .map_err(|problem| self.unreadable(verb, name, &name.row_key(ticket), problem))
    }
}
