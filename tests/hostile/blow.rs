//! One write into the table behind everybody's back.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::Error;

// Every suite is offered all of it, and need not use all.
const _: () = {
    let _ = (values, names_the_item, delete_all, Blow::strike);
    let _ = (Blow::takes_the_lock, Blow::moves_tickets);
    let _ = (OF_LOCK_ITEM, OF_ROW, FOREIGN, Blow::Shift);
    let _ = [RowBody::Empty, RowBody::Void, RowBody::Stranger];
};

pub(crate) type Item = HashMap<String, AttributeValue>;

/// Whose items they are.
pub(crate) struct Table {
    pub(crate) client: Client,
    pub(crate) name: String,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    LockItem,
    /// The first row of a ticket.
    Row,
}

#[derive(Clone, Debug)]
pub(crate) enum Blow {
    Set(Target, &'static str, AttributeValue),
    Remove(Target, &'static str),
    /// A key of the lock's that is nobody's.
    Foreign(&'static str, AttributeValue),
    /// A row at the newest ticket plus this, drawn or not.
    Row(i64, RowBody),
    Delete(Target),
    /// Both counters, or the newest ticket alone, by this.
    Shift(bool, i64),
    /// So large that every write to it is refused.
    Fill(Target),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum RowBody {
    Empty,
    Void,
    Stranger,
    Nonsense,
}

/// Every attribute of a lock item, by its path.
pub(crate) const OF_LOCK_ITEM: [&str; 30] = [
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
    "heirs[0]",
    "heirs[0].nonce",
    "heirs[0].owner",
    "heirs[0].beat",
    "heirs[0].lease_ms",
    "heirs[0].ticket",
    "heirs[0].permits",
    "heirs[0].renewed_at",
];

/// What says who has the lock, and for how long.
const OF_A_HOLD: [&str; 4] = [
    "holder",
    "holder.nonce",
    "holder.lease_ms",
    "holder.renewed_at",
];

/// Every attribute of a row.
pub(crate) const OF_ROW: [&str; 11] = [
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
];

pub(crate) const FOREIGN: [&str; 8] = [
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

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Every type of DynamoDB, and every edge of its numbers.
pub(crate) fn values() -> Vec<AttributeValue> {
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
    pub(crate) fn takes_the_lock(&self) -> bool {
        match self {
            Blow::Set(Target::LockItem, path, _) | Blow::Remove(Target::LockItem, path) => {
                OF_A_HOLD.contains(path)
            }
            Blow::Delete(target) => *target == Target::LockItem,
            _ => false,
        }
    }

    /// It sets a ticket, or the counter that tickets come from, back.
    pub(crate) fn moves_tickets(&self) -> bool {
        match self {
            Blow::Set(Target::LockItem, path, _) => *path == "heirs[0].ticket",
            Blow::Shift(_, by) => *by < 0,
            _ => false,
        }
    }

    /// Strikes. Whether it met something: what DynamoDB itself refuses changes nothing.
    pub(crate) async fn strike(&self, table: &Table) -> bool {
        match self {
            Blow::Set(target, path, value) => set(table, *target, path, value.clone()).await,
            Blow::Remove(target, path) => remove(table, *target, path).await,
            Blow::Foreign(sort_key, value) => {
                put(table, sort_key, Item::from([("x".into(), value.clone())])).await
            }
            Blow::Row(offset, body) => put_row(table, *offset, *body).await,
            Blow::Delete(target) => delete(table, *target).await,
            Blow::Shift(both, by) => shift(table, *both, *by).await,
            Blow::Fill(target) => fill(table, *target).await,
        }
    }
}

/// Everything that the table has of the lock and its namespace.
async fn items(table: &Table) -> Vec<Item> {
    let query = table.client.query().table_name(&table.name);
    let query = query.key_condition_expression("pk = :pk AND begins_with(sk, :ours)");
    let query = query.expression_attribute_values(":pk", text("a"));
    let query = query.expression_attribute_values(":ours", text("fairlock/"));
    let mut pages = query.into_paginator().items().send();
    let mut items = Vec::new();
    while let Some(item) = pages.next().await {
        items.push(item.unwrap());
    }
    items
}

async fn key(table: &Table, target: Target) -> Option<AttributeValue> {
    let lock = text("fairlock/#lock");
    match target {
        Target::LockItem => Some(lock),
        Target::Row => {
            let items = items(table).await;
            let keys = items.iter().map(|item| item["sk"].clone());
            keys.into_iter()
                .find(|key| key.as_s().unwrap().len() == "fairlock/".len() + 38)
        }
    }
}

/// `holder.beat` as `#holder.#beat`, and what each `#name` stands for.
fn expressed(path: &str) -> (String, HashMap<String, String>) {
    let parts = path.split('.');
    let names = parts.clone().map(|part| part.split('[').next().unwrap());
    let names = names.map(|name| (format!("#{name}"), name.to_owned()));
    let path: Vec<_> = parts.map(|part| format!("#{part}")).collect();
    (path.join("."), names.collect())
}

/// As full as DynamoDB takes it.
async fn fill(table: &Table, target: Target) -> bool {
    for size in (408_000..=409_500).rev().step_by(20) {
        let filling = AttributeValue::B(Blob::new(vec![7; size]));
        if set(table, target, "filling", filling).await {
            return true;
        }
    }
    false
}

async fn set(table: &Table, target: Target, path: &str, value: AttributeValue) -> bool {
    let (path, names) = expressed(path);
    let Some(key) = key(table, target).await else {
        return false;
    };
    let update = table.client.update_item().table_name(&table.name);
    let update = update.key("pk", text("a")).key("sk", key);
    let update = update.update_expression(format!("SET {path} = :value"));
    let update = update.condition_expression("attribute_exists(pk)");
    let update = update.set_expression_attribute_names(Some(names));
    let update = update
        .expression_attribute_values(":value", value)
        .send()
        .await;
    update.is_ok()
}

async fn remove(table: &Table, target: Target, path: &str) -> bool {
    let (path, names) = expressed(path);
    let Some(key) = key(table, target).await else {
        return false;
    };
    let update = table.client.update_item().table_name(&table.name);
    let update = update.key("pk", text("a")).key("sk", key);
    let update = update.update_expression(format!("REMOVE {path}"));
    let update = update.condition_expression("attribute_exists(pk)");
    let update = update
        .set_expression_attribute_names(Some(names))
        .send()
        .await;
    update.is_ok()
}

async fn put(table: &Table, sort_key: &str, mut item: Item) -> bool {
    item.insert("pk".into(), text("a"));
    item.insert("sk".into(), text(sort_key));
    let put = table
        .client
        .put_item()
        .table_name(&table.name)
        .set_item(Some(item));
    put.send().await.is_ok()
}

async fn delete_key(table: &Table, key: AttributeValue) {
    let delete = table.client.delete_item().table_name(&table.name);
    delete
        .key("pk", text("a"))
        .key("sk", key)
        .send()
        .await
        .unwrap();
}

/// The way out, as docs/operations.md has it, between stopping the callers and starting them.
pub(crate) async fn delete_all(table: &Table) {
    for item in items(table).await {
        delete_key(table, item["sk"].clone()).await;
    }
}

/// Or is DynamoDB's own refusal of a write to what was damaged.
pub(crate) fn names_the_item(error: &Error) -> bool {
    match error {
        Error::Unreadable { item, .. } => item.starts_with("pk = a, sk = fairlock/"),
        Error::Refused { .. } => error.to_string().contains(" refuses `"),
        _ => false,
    }
}

async fn delete(table: &Table, target: Target) -> bool {
    let Some(key) = key(table, target).await else {
        return false;
    };
    delete_key(table, key).await;
    true
}

async fn last(table: &Table) -> Option<u64> {
    let items = items(table).await;
    let lock = items
        .iter()
        .find(|item| item["sk"] == text("fairlock/#lock"))?;
    lock.get("last")?.as_n().ok()?.parse().ok()
}

async fn put_row(table: &Table, offset: i64, body: RowBody) -> bool {
    let Some(ticket) = last(table)
        .await
        .and_then(|last| last.checked_add_signed(offset))
    else {
        return false;
    };
    let stranger = || {
        Item::from([
            ("nonce".into(), text("0123456789abcdef0123456789abcdef")),
            ("owner".into(), text("a stranger")),
            ("ticket".into(), number(ticket)),
            ("beat".into(), number(3)),
            ("lease_ms".into(), number(5_000)),
        ])
    };
    let item = match body {
        RowBody::Empty => Item::new(),
        RowBody::Void => Item::from([("state".into(), text("void"))]),
        RowBody::Stranger => Item::from([
            ("state".into(), text("waiting")),
            ("entry".into(), AttributeValue::M(stranger())),
        ]),
        RowBody::Nonsense => Item::from([("state".into(), number(7))]),
    };
    put(table, &format!("fairlock/{ticket:038}"), item).await
}

async fn shift(table: &Table, both: bool, by: i64) -> bool {
    let Some(to) = last(table)
        .await
        .and_then(|last| last.checked_add_signed(by))
    else {
        return false;
    };
    set(table, Target::LockItem, "last", number(to)).await
        && (!both || set(table, Target::LockItem, "seated", number(to)).await)
}
