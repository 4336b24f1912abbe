//! One write into the table behind everybody's back.
mod strike;

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::Error;
pub use strike::delete_all;

/// As the SDK has it.
pub type Item = HashMap<String, AttributeValue>;

/// Whose items they are.
pub struct Table {
    /// What writes go through.
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
    /// The entry of the first of those who have the lock beside the holder's place.
    Sharer,
    /// And its ticket.
    Drawn,
}

/// What is done to lock `a`.
#[derive(Clone, Debug)]
pub enum Blow {
    /// An attribute becomes this.
    Set(Target, &'static str, AttributeValue),
    /// An attribute is gone.
    Remove(Target, &'static str),
    /// A key of the lock's that is nobody's.
    Foreign(&'static str, AttributeValue),
    /// A row at the newest ticket plus this, drawn or not.
    Row(i64, RowBody),
    /// The whole item is gone.
    Delete(Target),
    /// Both counters, or the newest ticket alone, by this.
    Shift(bool, i64),
    /// So large that every write to it is refused.
    Fill(Target),
}

/// What is in a row that nobody of the line wrote.
#[derive(Clone, Copy, Debug)]
pub enum RowBody {
    /// Its keys.
    Empty,
    /// A ticket that counts for nothing any more.
    Void,
    /// Somebody's entry whom nobody knows.
    Stranger,
    /// Attributes of the wrong types.
    Nonsense,
}

/// Every attribute of a lock item, by its path.
pub const OF_LOCK_ITEM: [&str; 32] = [
    "format",
    "permits",
    "taken",
    "sharers",
    "drawn",
    "last",
    "seated",
    "entered",
    "left",
    "holder",
    "heirs",
    "drawn_at",
    "granted_at",
    "expires_at",
    "holder.nonce",
    "holder.owner",
    "holder.beat",
    "holder.lease_ms",
    "holder.ticket",
    "holder.permits",
    "holder.renewed_at",
    "holder.since",
    "holder.id",
    "heirs[0]",
    "heirs[0].nonce",
    "heirs[0].owner",
    "heirs[0].beat",
    "heirs[0].lease_ms",
    "heirs[0].ticket",
    "heirs[0].permits",
    "heirs[0].renewed_at",
    "heirs[0].id",
];

/// What stands on the item of a lock that several have, and that carries data.
pub const OF_A_SHARED_LOCK: [&str; 12] = [
    "permits",
    "taken",
    "sharers",
    "drawn",
    "data",
    "written",
    "written.ticket",
    "written.count",
    "holder",
    "holder.permits",
    "holder.ticket",
    "heirs[0].permits",
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

/// What says who has the lock, and for how long.
const OF_A_HOLD: [&str; 4] = [
    "holder",
    "holder.nonce",
    "holder.lease_ms",
    "holder.renewed_at",
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

/// Sort keys that look like those of a lock, and are of none.
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
    /// It takes the lock from whoever has it, or makes its lease look over: who may write the table can do that.
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

    /// It sets a ticket, or the counter that tickets come from, back.
    pub fn moves_tickets(&self) -> bool {
        match self {
            Blow::Set(Target::LockItem, path, _) => *path == "heirs[0].ticket",
            Blow::Shift(_, by) => *by < 0,
            _ => false,
        }
    }
}

/// Or is DynamoDB's own refusal of a write to what was damaged.
pub fn names_the_item(error: &Error) -> bool {
    match error {
        Error::Unreadable { item, .. } => item.starts_with("pk = a, sk = fairlock/"),
        Error::Refused { .. } => error.to_string().contains(" refuses `"),
        _ => false,
    }
}
