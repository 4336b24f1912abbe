//! Sends a write to an engine, and reads what became of the item.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
use fairlock_protocol::codec::{self, FORMAT};
use fairlock_protocol::item::{LockItem, TicketRow};
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::value::{Map, Value};
use fairlock_protocol::write::{Expressions, LockWrite, RowChange, RowWrite};

use super::rows::TICKET;
use super::some::Few;
use super::{http, stored};
use fairlock_testkit::keyed_tables::{OF_LOCKS, create_table};

const TABLE: &str = "differential";
/// Not the default, so that a write that names the default is noticed.
pub(crate) const TTL: &str = "goes_at";

/// Whether a write applied, and if it did, the item after it. Or what is wrong with the answer, or with the item after it.
pub(crate) type Played<T> = Result<Option<Option<T>>, String>;

pub(crate) struct Engine {
    client: Client,
    /// Keeps the embedded engine alive.
    _engine: Option<fairlock::embedded::Engine>,
}

/// The kind of request.
enum Request {
    Update,
    Put(Map),
    Delete,
    Check,
}

impl Engine {
    pub(crate) async fn embedded() -> Self {
        let engine = fairlock::embedded::Engine::memory().unwrap();
        let client = engine.client();
        create_table(&client, TABLE, &OF_LOCKS).await;
        Engine {
            client,
            _engine: Some(engine),
        }
    }

    pub(crate) async fn at(url: &str) -> Self {
        let client = http::client(&http::network(), url);
        create_table(&client, TABLE, &OF_LOCKS).await;
        Engine {
            client,
            _engine: None,
        }
    }

    pub(crate) async fn lock(
        &self,
        item: Option<&LockItem>,
        write: &LockWrite,
    ) -> Played<LockItem> {
        let before = item.map(stored::lock);
        self.play_lock(before, write).await
    }

    async fn play_lock(&self, before: Option<Map>, write: &LockWrite) -> Played<LockItem> {
        let request = match () {
            () if write.deletes => Request::Delete,
            () if write.effects.is_empty() => Request::Check,
            () => Request::Update,
        };
        let after = self
            .play("n/#lock", before, request, write.expressions())
            .await?;
        let read = |item: Map| {
            let read = codec::lock_item(&item, TTL).map_err(|problem| problem.to_string())?;
            match stored::has_litter(&item, &read) {
                true => Err("a ticket stands beside no place".to_owned()),
                false => Ok(read),
            }
        };
        after.map(|item| item.map(read).transpose()).transpose()
    }

    /// Whether a write applies to an item of a newer format, which it must not.
    pub(crate) async fn newer(&self, item: Option<&LockItem>, write: &LockWrite) -> bool {
        let Some(mut before) = item.map(stored::lock) else {
            return false;
        };
        before.insert("format".to_owned(), Value::number(FORMAT + 1));
        let request = match () {
            () if write.deletes => Request::Delete,
            () if write.effects.is_empty() => Request::Check,
            () => Request::Update,
        };
        let played = self
            .play("n/#lock", Some(before), request, write.expressions())
            .await;
        played.is_ok_and(|after| after.is_some())
    }

    pub(crate) async fn row(
        &self,
        row: Option<&TicketRow>,
        write: &RowWrite,
        some: &mut Few,
    ) -> Played<TicketRow> {
        let before = row.map(|row| {
            let mut before = RowWrite::attributes(row, TTL);
            if row.expires_at == 0 {
                before.remove(TTL);
            }
            if let fairlock_protocol::item::RowState::Void(Some(nonce)) = row.state {
                // A void row still contains the entry that its owner put.
                let entry = some.entry(nonce, row.ticket, 1);
                let entry = codec::entry(&entry, Some(entry.ticket));
                before.insert("entry".to_owned(), entry);
            }
            before
        });
        let request = match &write.change {
            RowChange::Put(row) => Request::Put(RowWrite::attributes(row, TTL)),
            RowChange::Update(_) => Request::Update,
            RowChange::Delete => Request::Delete,
        };
        let key = format!("n/{}", Ticket::new(TICKET).key());
        let after = self
            .play(&key, before, request, write.expressions())
            .await?;
        let read = |item: Map| {
            codec::ticket_row(&item, Ticket::new(TICKET), TTL)
                .map_err(|problem| problem.to_string())
        };
        after.map(|item| item.map(read).transpose()).transpose()
    }

    async fn play(
        &self,
        sort_key: &str,
        before: Option<Map>,
        request: Request,
        expressions: Expressions,
    ) -> Played<Map> {
        let key = HashMap::from([
            ("pk".to_owned(), AttributeValue::S("a".to_owned())),
            ("sk".to_owned(), AttributeValue::S(sort_key.to_owned())),
        ]);
        self.set(&key, before).await;
        let applied = self.send(&key, request, expressions).await?;
        let get = self.client.get_item().table_name(TABLE).set_key(Some(key));
        let after = get.consistent_read(true).send().await.unwrap().item;
        Ok(applied.then(|| after.map(values)))
    }

    async fn set(&self, key: &HashMap<String, AttributeValue>, item: Option<Map>) {
        match item {
            Some(item) => {
                let mut all = attributes(item);
                all.extend(key.clone());
                let put = self.client.put_item().table_name(TABLE);
                put.set_item(Some(all)).send().await.unwrap();
            }
            None => {
                let delete = self.client.delete_item().table_name(TABLE);
                delete.set_key(Some(key.clone())).send().await.unwrap();
            }
        }
    }

    /// Sends the request. Returns whether it applied.
    async fn send(
        &self,
        key: &HashMap<String, AttributeValue>,
        request: Request,
        expressions: Expressions,
    ) -> Result<bool, String> {
        let Expressions {
            update,
            condition,
            values,
        } = expressions;
        let names = names(&[&update, &condition]);
        let names = (!names.is_empty()).then_some(names);
        let values: HashMap<_, _> = { values.into_iter() }
            .map(|(name, value)| (name.to_owned(), attribute(value)))
            .collect();
        let values = (!values.is_empty()).then_some(values);
        let condition = (!condition.is_empty()).then_some(condition);
        let (client, key) = (&self.client, Some(key.clone()));
        match request {
            Request::Update => {
                let update = (!update.is_empty()).then_some(update);
                let sent = client.update_item().table_name(TABLE).set_key(key);
                let sent = sent
                    .set_update_expression(update)
                    .set_condition_expression(condition);
                let sent = sent
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values);
                answer(sent.send().await)
            }
            Request::Put(item) => {
                let mut all = attributes(item);
                all.extend(key.unwrap());
                let sent = client.put_item().table_name(TABLE).set_item(Some(all));
                let sent = sent.set_condition_expression(condition);
                let sent = sent
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values);
                answer(sent.send().await)
            }
            Request::Delete => {
                let sent = client.delete_item().table_name(TABLE).set_key(key);
                let sent = sent.set_condition_expression(condition);
                let sent = sent
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values);
                answer(sent.send().await)
            }
            Request::Check => {
                let check = ConditionCheck::builder().table_name(TABLE).set_key(key);
                let check = check.condition_expression(condition.ok_or("a check of nothing")?);
                let check = check
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values);
                let check = TransactWriteItem::builder()
                    .condition_check(check.build().unwrap())
                    .build();
                answer(
                    client
                        .transact_write_items()
                        .transact_items(check)
                        .send()
                        .await,
                )
            }
        }
    }
}

fn answer<T, E: ProvideErrorMetadata + std::fmt::Debug>(
    answer: Result<T, E>,
) -> Result<bool, String> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) => match error.code() {
            Some("ConditionalCheckFailedException" | "TransactionCanceledException") => Ok(false),
            _ => Err(format!("{error:?}")),
        },
    }
}

/// Maps each `#name` to itself, and that of the TTL attribute to what it is called here.
fn names(expressions: &[&str]) -> HashMap<String, String> {
    let starts = expressions
        .iter()
        .flat_map(|expression| expression.split('#').skip(1));
    let words = starts.map(|rest| {
        let is_of_a_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let end = rest.find(|c| !is_of_a_word(c)).unwrap_or(rest.len());
        &rest[..end]
    });
    words
        .map(|word| {
            let name = if word == "expires_at" { TTL } else { word };
            (format!("#{word}"), name.to_owned())
        })
        .collect()
}

fn attribute(value: Value) -> AttributeValue {
    match value {
        Value::N(digits) => AttributeValue::N(digits),
        Value::S(text) => AttributeValue::S(text),
        Value::B(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::M(map) => AttributeValue::M(attributes(map)),
        Value::L(list) => AttributeValue::L(list.into_iter().map(attribute).collect()),
        Value::Null | Value::Other => AttributeValue::Null(true),
    }
}

fn attributes(map: Map) -> HashMap<String, AttributeValue> {
    map.into_iter()
        .map(|(name, value)| (name, attribute(value)))
        .collect()
}

fn value(attribute: AttributeValue) -> Value {
    match attribute {
        AttributeValue::N(digits) => Value::N(digits),
        AttributeValue::S(text) => Value::S(text),
        AttributeValue::B(bytes) => Value::B(bytes.into_inner()),
        AttributeValue::M(map) => Value::M(values(map)),
        AttributeValue::L(list) => Value::L(list.into_iter().map(value).collect()),
        AttributeValue::Null(_) => Value::Null,
        _ => Value::Other,
    }
}

fn values(item: HashMap<String, AttributeValue>) -> Map {
    item.into_iter()
        .map(|(name, attribute)| (name, value(attribute)))
        .collect()
}
