//! Blows as they are struck: each is one write behind the clients' backs.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::{Blow, Item, RowBody, Table, Target, number, text};

impl Blow {
    /// Strikes. Returns whether the blow met something: what DynamoDB itself refuses changes nothing.
    pub async fn strike(&self, table: &Table) -> bool {
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

/// All items that the table has of the lock and its namespace.
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
        Target::LockItem | Target::Sharer | Target::Beside => Some(lock),
        Target::Row => {
            let items = items(table).await;
            let keys = items.iter().map(|item| item["sk"].clone());
            keys.into_iter()
                .find(|key| key.as_s().unwrap().len() == "fairlock/".len() + 38)
        }
    }
}

/// The path from the item's root.
async fn whole(table: &Table, target: Target, path: &str) -> Option<String> {
    let items = items(table).await;
    match target {
        Target::LockItem | Target::Row => Some(path.to_owned()),
        Target::Sharer => {
            let shared = |item: &&Item| item.contains_key("sharers");
            let sharers = items.iter().find(shared)?["sharers"].as_m().ok()?;
            let whole = format!("sharers.{}.{path}", sharers.keys().min()?);
            Some(whole.trim_end_matches('.').to_owned())
        }
        Target::Beside => {
            let names = items.iter().flat_map(|item| item.keys());
            let is_nonce = |name: &&String| {
                name.len() == 32 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
            };
            names.filter(is_nonce).min().cloned()
        }
    }
}

/// Turns `slots[0].beat` into `#slots[0].#beat`, with what each `#name` stands for.
fn expressed(path: &str) -> (String, HashMap<String, String>) {
    let parts = path.split('.');
    let names = parts.clone().map(|part| part.split('[').next().unwrap());
    let names = names.map(|name| (format!("#{name}"), name.to_owned()));
    let path: Vec<_> = parts.map(|part| format!("#{part}")).collect();
    (path.join("."), names.collect())
}

/// Makes the item as full as DynamoDB accepts.
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
    let form = |path: &str| format!("SET {path} = :value");
    update(table, target, path, form, Some(value)).await
}

async fn remove(table: &Table, target: Target, path: &str) -> bool {
    let form = |path: &str| format!("REMOVE {path}");
    update(table, target, path, form, None).await
}

/// Returns whether there was something to change, and DynamoDB accepted the change.
async fn update(
    table: &Table,
    target: Target,
    path: &str,
    form: impl Fn(&str) -> String,
    value: Option<AttributeValue>,
) -> bool {
    let Some(key) = key(table, target).await else {
        return false;
    };
    let Some(path) = whole(table, target, path).await else {
        return false;
    };
    let (path, names) = expressed(&path);
    let update = table.client.update_item().table_name(&table.name);
    let update = update.key("pk", text("a")).key("sk", key);
    let update = update.update_expression(form(&path));
    let update = update.condition_expression("attribute_exists(pk)");
    let values = value.map(|value| HashMap::from([(":value".to_owned(), value)]));
    let update = update
        .set_expression_attribute_names(Some(names))
        .set_expression_attribute_values(values)
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

/// The way out, as docs/repair.md describes it, between stopping the callers and starting them.
pub async fn delete_all(table: &Table) {
    for item in items(table).await {
        delete_key(table, item["sk"].clone()).await;
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
            ("permits".into(), number(64)),
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
        && (!both || set(table, Target::LockItem, "watermark", number(to)).await)
}
