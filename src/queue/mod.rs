//! The requests on the rows of a queue: a waiter's insert and renewals, what settles its tickets, and the read along the queue.

pub(crate) mod cleaning;
pub(crate) mod snapshot;

use crate::store::{self, Item, Store, Timed, Write, text};
use crate::vocabulary::name::LockName;
use fairlock_protocol::agent;
use fairlock_protocol::codec;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{LockItem, RowState, TicketRow};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{RowChange, RowWrite};

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

/// The last key of a page. It may be the key of an item that is not fairlock's, so it is no ticket.
#[derive(Clone, Debug)]
pub(crate) struct Cursor(Item);

/// The write that makes tickets void whose row never came: this one, and the tickets just before it.
pub(crate) fn void_gap(store: &Store, ticket: Ticket, tickets: u64) -> RowWrite {
    RowWrite::void_gap(TicketRow {
        ticket,
        tickets,
        state: RowState::Void(None),
        expires_at: store.row_expiry(),
    })
}

/// Writes the row of a ticket, on a condition.
pub(crate) async fn write(
    store: &Store,
    name: &LockName,
    ticket: Ticket,
    write: &RowWrite,
) -> Result<Timed<Write<TicketRow>>, Failure> {
    let (verb, key) = (write.verb, store.row_key(name, ticket));
    let answer = match &write.change {
        RowChange::Put(row) => {
            let mut item = key.clone();
            let ttl = &store.config().names.ttl;
            item.extend(store::attributes(RowWrite::attributes(row, ttl)));
            store.put(verb, item, write.expressions()).await?
        }
        RowChange::Update(_) | RowChange::Delete => {
            store.update(verb, key.clone(), write.expressions()).await?
        }
    };
    let answer = store.in_the_way(verb, key, answer).await?;
    answer.try_map(|answer| answer.try_map(|item| decode(store, verb, (name, ticket), item)))
}

/// Deletes the row of a ticket, on a condition. Returns whether this call deleted it: `false` also if another client had.
pub(crate) async fn delete(
    store: &Store,
    name: &LockName,
    ticket: Ticket,
    write: &RowWrite,
) -> Result<bool, Failure> {
    let key = store.row_key(name, ticket);
    store.delete(write.verb, key, write.expressions()).await
}

/// Reads one page of the queue, strongly consistent: from the lock item on, or from where a page ended.
pub(crate) async fn read(
    store: &Store,
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
    let query = store.query(verb, (KEYS, values.into()), from, limit);
    let answer = query.await?;
    answer.try_map(|(items, next)| page(store, verb, name, (items, next.map(Cursor))))
}

/// Where the queue goes on behind a ticket, whether or not it has a row.
pub(crate) fn behind(store: &Store, name: &LockName, ticket: Ticket) -> Cursor {
    Cursor(store.row_key(name, ticket))
}

/// The cursor, as a client has it.
pub(crate) fn from(store: &Store, name: &LockName, place: &agent::Cursor) -> Cursor {
    match place {
        agent::Cursor::Ticket(ticket) => behind(store, name, *ticket),
        agent::Cursor::Key(sort_key) => Cursor(store.key(name, sort_key.to_string())),
    }
}

impl Cursor {
    /// The same, as a client has it.
    pub(crate) fn place(&self, store: &Store) -> Option<agent::Cursor> {
        let sort_key = store.sort_key(&self.0)?;
        Some(agent::Cursor::Key(sort_key.as_str().into()))
    }
}

/// Skips items that are neither the lock item nor a ticket's row: they are not fairlock's.
fn page(
    store: &Store,
    verb: &'static str,
    name: &LockName,
    (items, next): (Vec<Item>, Option<Cursor>),
) -> Result<Page, Failure> {
    let mut page = Page {
        lock: None,
        rows: Vec::with_capacity(items.len()),
        next,
    };
    for item in items {
        let Some(sort_key) = store.sort_key(&item) else {
            continue;
        };
        if *sort_key == name.lock_key() {
            page.lock = Some(store.decode_lock(verb, name, item)?);
        } else if let Some(ticket) = name.ticket_of(sort_key) {
            page.rows.push(decode(store, verb, (name, ticket), item)?);
        }
    }
    Ok(page)
}

fn decode(
    store: &Store,
    verb: &'static str,
    (name, ticket): (&LockName, Ticket),
    item: Item,
) -> Result<TicketRow, Failure> {
    let ttl = &store.config().names.ttl;
    codec::ticket_row(&store::values(item), ticket, ttl)
        .map_err(|problem| store.unreadable(verb, name, &name.row_key(ticket), problem))
}
