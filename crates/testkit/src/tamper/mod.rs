//! A write into the table behind the clients' backs.
mod strike;

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::Error;
pub use strike::delete_all;

/// An item, as the SDK has it.
pub type Item = HashMap<String, AttributeValue>;

/// The table of the items.
pub struct Table {
    /// The client that writes go through.
    pub client: Client,
    /// The table's name.
    pub name: String,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The item of lock `a`.
    LockItem,
    /// The first row of a ticket.
    Row,
    /// The entry of the first of the sharers.
    Sharer,
    /// The ticket of an entry whose own write drew it, which stands beside the entry.
    Beside,
}

/// What is done to lock `a`.
#[derive(Clone, Debug)]
pub enum Blow {
    /// An attribute gets this value.
    Set(Target, &'static str, AttributeValue),
    /// An attribute is gone.
    Remove(Target, &'static str),
    /// An item under a key like the lock's own that belongs to no client.
    Foreign(&'static str, AttributeValue),
    /// A row at the newest ticket plus this, drawn or not.
    Row(i64, RowBody),
    /// The whole item is gone.
    Delete(Target),
    /// Both counters, or the newest ticket alone, move by this.
    Shift(bool, i64),
    /// The item becomes so large that every write to it is refused.
    Fill(Target),
}

/// What is in a row that no client of the queue wrote.
#[derive(Clone, Copy, Debug)]
pub enum RowBody {
    /// Its keys alone.
    Empty,
    /// A ticket that counts for nothing any more.
    Void,
    /// The entry of a client that no other client knows.
    Stranger,
    /// Attributes of the wrong types.
    Nonsense,
}

/// Every attribute of a lock item, by its path.
pub const OF_LOCK_ITEM: [&str; 33] = [
    "format",
    "permits",
    "resized",
    "resizes",
    "room",
    "sharers",
    "slots",
    "last",
    "watermark",
    "departures",
    "join_timeout_ms",
    "drawn_at",
    "granted_at",
    "expires_at",
    "slots[0]",
    "slots[0].nonce",
    "slots[0].owner",
    "slots[0].beat",
    "slots[0].lease_ms",
    "slots[0].ticket",
    "slots[0].permits",
    "slots[0].renewed_at",
    "slots[0].since",
    "slots[0].id",
    "slots[1]",
    "slots[1].nonce",
    "slots[1].owner",
    "slots[1].beat",
    "slots[1].lease_ms",
    "slots[1].ticket",
    "slots[1].permits",
    "slots[1].renewed_at",
    "slots[1].id",
];

/// What stands on the item of a lock that several clients hold, and that carries data.
pub const OF_A_SHARED_LOCK: [&str; 12] = [
    "permits",
    "resized",
    "resizes",
    "room",
    "sharers",
    "data",
    "written",
    "written.ticket",
    "written.count",
    "slots",
    "slots[0].permits",
    "slots[0].ticket",
];

/// Every attribute of a sharer's entry; the whole of it first.
pub const OF_A_SHARER: [&str; 10] = [
    "",
    "nonce",
    "owner",
    "beat",
    "lease_ms",
    "permits",
    "ticket",
    "renewed_at",
    "since",
    "id",
];

/// What says which entry holds the lock, how much of it, and for how long.
const OF_A_HOLD: [&str; 6] = [
    "slots",
    "slots[0]",
    "slots[0].nonce",
    "slots[0].permits",
    "slots[0].lease_ms",
    "slots[0].renewed_at",
];

/// Every attribute of a row.
pub const OF_ROW: [&str; 12] = [
    "state",
    "expires_at",
    "entry",
    "entry.nonce",
    "entry.owner",
    "entry.beat",
    "entry.lease_ms",
    "entry.ticket",
    "entry.permits",
    "entry.renewed_at",
    "entry.since",
    "entry.id",
];

/// Sort keys that look like those of a lock, and belong to none.
pub const FOREIGN: [&str; 8] = [
    "fairlock/",
    "fairlock/#lock2",
    "fairlock/#loc",
    "fairlock/0",
    "fairlock/99999999999999999999999999999999999999",
    "fairlock/000000000000000000000000000000000000017",
    "fairlock/zzz",
    "elsewhere/#lock",
];

const NUMBERS: [&str; 10] = [
    "0",
    "1",
    "-1",
    "1.5",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999",
    "-99999999999999999999999999999999999999",
    "0.00000000000000000000000000000000000001",
];

/// A string, as the SDK has it.
pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Every type of DynamoDB, and every edge of its numbers.
pub fn values() -> Vec<AttributeValue> {
    let mut values = vec![
        text("?"),
        AttributeValue::B(Blob::new([0, 255])),
        AttributeValue::Bool(true),
        AttributeValue::Null(true),
        AttributeValue::L(vec![number(1)]),
        AttributeValue::L(Vec::new()),
        AttributeValue::M(Item::from([("x".into(), number(1))])),
        AttributeValue::M(Item::new()),
        AttributeValue::Ss(vec!["?".into()]),
        AttributeValue::Ns(vec!["1".into()]),
        AttributeValue::Bs(vec![Blob::new([1])]),
    ];
    values.extend(NUMBERS.map(number));
    values
}

impl Blow {
    /// Whether it takes the lock from its holder, or makes its lease look expired. Any client that may write the table can do that.
    pub fn takes_the_lock(&self) -> bool {
        match self {
            Blow::Set(Target::LockItem, path, _) | Blow::Remove(Target::LockItem, path) => {
                OF_A_HOLD.contains(path)
            }
            Blow::Set(Target::Sharer, path, _) | Blow::Remove(Target::Sharer, path) => {
                ["", "nonce", "lease_ms", "renewed_at"].contains(path)
            }
            Blow::Delete(target) => *target == Target::LockItem,
            _ => false,
        }
    }

    /// Whether it sets back a ticket, or the counter that tickets come from.
    pub fn moves_tickets(&self) -> bool {
        match self {
            Blow::Set(Target::LockItem, path, _) => *path == "slots[1].ticket",
            Blow::Shift(_, by) => *by < 0,
            _ => false,
        }
    }
}

/// The entry in a slot of a lock item.
///
/// # Panics
///
/// If there is none.
#[expect(clippy::panic, reason = "a test that meets another item has failed")]
pub fn slot(item: &mut Item, index: usize) -> &mut Item {
    match item.get_mut("slots") {
        Some(AttributeValue::L(slots)) => match slots.get_mut(index) {
            Some(AttributeValue::M(entry)) => entry,
            other => panic!("in slot {index}: {other:?}"),
        },
        other => panic!("slots: {other:?}"),
    }
}

/// How many slots of a lock item are taken.
pub fn taken(item: &Item) -> usize {
    slots(item).len()
}

/// The permits of the entry in the first slot, if it holds the lock: then the sharers leave as many.
pub fn held_in_slot(item: &Item) -> Option<i64> {
    let first = slots(item).first()?.as_m().ok()?;
    let number = |item: &Item, name: &str| item.get(name)?.as_n().ok()?.parse::<i64>().ok();
    let (permits, room) = (number(first, "permits")?, number(item, "room")?);
    let is_alone = { item.get("sharers")?.as_m().ok()? }.is_empty();
    let fits = is_alone || permits < number(item, "permits")? && permits <= room;
    fits.then_some(permits)
}

/// How many entries on a lock item wait for the lock.
pub fn successors(item: &Item) -> usize {
    taken(item) - usize::from(held_in_slot(item).is_some())
}

fn slots(item: &Item) -> &[AttributeValue] {
    let slots = item.get("slots").and_then(|slots| slots.as_l().ok());
    slots.map_or(&[], Vec::as_slice)
}

/// Whether the error names the item, or is DynamoDB's own refusal of a write to what was damaged.
pub fn names_the_item(error: &Error) -> bool {
    match error {
        Error::InvalidItem { item, .. } => item.starts_with("pk = a, sk = fairlock/"),
        Error::Refused { .. } => error.to_string().contains(" refuses `"),
        _ => false,
    }
}
