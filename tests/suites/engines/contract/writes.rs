//! Writes of the callers' own: fenced, checked, and versioned.

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use fairlock::embedded::{Fault, When};
use fairlock::{Change, Fence, Item as Attributes, Ticket, UpdateError, Version, VersionedTable};
use futures::future::join_all;

use super::rig::{Rig, SHORT};
use fairlock_testkit::ambiguous_endings::first;
use fairlock_testkit::lab::acquire;
use fairlock_testkit::tamper::Table;

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn n(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn key() -> [(&'static str, AttributeValue); 2] {
    [("pk", text("thing")), ("sk", text("-"))]
}

fn whole_key() -> Attributes {
    key().map(|(name, value)| (name.to_owned(), value)).into()
}

fn part() -> aws_sdk_dynamodb::types::builders::TransactWriteItemBuilder {
    TransactWriteItem::builder()
}

/// A put, an update and a deletion of one item, each with a condition of its own that holds.
fn parts(table: &str, fence: &Fence) -> [TransactWriteItem; 3] {
    let put = Put::builder().table_name(table).set_item(Some(whole_key()));
    let put = put.condition_expression("(attribute_exists(pk) OR attribute_not_exists(pk))");
    let update = Update::builder()
        .table_name(table)
        .set_key(Some(whole_key()));
    let update = update
        .update_expression("REMOVE #o SET #v = :v")
        .condition_expression("attribute_exists(pk) OR attribute_exists(sk)")
        .expression_attribute_names("#o", "other")
        .expression_attribute_names("#v", "value")
        .expression_attribute_values(":v", n(7));
    let delete = Delete::builder()
        .table_name(table)
        .set_key(Some(whole_key()));
    [
        part().put(fence.on(put).build().unwrap()).build(),
        part().update(fence.on(update).build().unwrap()).build(),
        part().delete(fence.on(delete).build().unwrap()).build(),
    ]
}

pub(crate) async fn a_fenced_item_refuses_the_stale_and_takes_the_fresh(rig: &Rig) {
    let Table { client, name } = rig.table();
    let fence = |ticket: u64| Fence::new("a fence", Ticket::new(ticket));
    let raise = |ticket| {
        let update = client.update_item().table_name(&name);
        fence(ticket).on(update.set_key(Some(whole_key()))).send()
    };
    raise(u64::MAX - 1).await.unwrap();
    let refused = raise(u64::MAX - 2).await.unwrap_err();
    assert_eq!(refused.code(), Some("ConditionalCheckFailedException"));
    for (ticket, applies) in [(u64::MAX - 2, false), (u64::MAX, true)] {
        for part in parts(&name, &fence(ticket)) {
            let transaction = client.transact_write_items().transact_items(part);
            let answer = transaction.send().await;
            assert_eq!(answer.is_ok(), applies, "{ticket}: {answer:?}");
        }
    }
    let unfenced = fence(7).on(client
        .put_item()
        .table_name(&name)
        .set_item(Some(whole_key())));
    let unfenced = unfenced.condition_expression("attribute_not_exists(pk)");
    assert_eq!(
        unfenced.send().await.unwrap_err().code(),
        Some("ValidationException")
    );
}

pub(crate) async fn a_checked_transaction_applies_only_while_its_hold_is_the_holder(rig: &Rig) {
    let Table { client, name } = rig.table();
    let (a, b) = (rig.host(), rig.host());
    let guard = acquire(&a).await;
    let checked = |check: &TransactWriteItem| {
        let put = Put::builder().table_name(&name).set_item(Some(whole_key()));
        let put = part().put(put.build().unwrap()).build();
        let transaction = client.transact_write_items().transact_items(put);
        transaction.transact_items(check.clone()).send()
    };
    let check = guard.check_item().unwrap();
    checked(&check).await.unwrap();
    guard.release().await.unwrap();
    let refused = checked(&check).await.unwrap_err();
    assert_eq!(refused.code(), Some("TransactionCanceledException"));
    let next = acquire(&b).await;
    assert!(checked(&check).await.is_err());
    checked(&next.check_item().unwrap()).await.unwrap();
    next.release().await.unwrap();
}

/// A table of versioned items on a network of its own, and the network.
fn versioned(rig: &Rig) -> (VersionedTable, fairlock::embedded::Network) {
    let (client, network) = rig.client();
    let builder = VersionedTable::builder(client, rig.table().name);
    let builder = builder.request_timeout(SHORT).max_attempts(100);
    (builder.build().unwrap(), network)
}

fn counts_up(item: Option<Attributes>) -> Result<Change, &'static str> {
    let mut item = item.unwrap_or_default();
    let count = item.get("count").map_or("0", |it| it.as_n().unwrap());
    let count = count.parse::<u64>().unwrap() + 1;
    item.insert("count".into(), n(count));
    Ok(Change::Put(item))
}

fn deletes(item: Option<Attributes>) -> Result<Change, &'static str> {
    item.map_or(Err("gone"), |_| Ok(Change::Delete))
}

pub(crate) async fn versioned_updates_of_many_at_once_lose_nothing(rig: &Rig) {
    let workers = [(); 4].map(|()| versioned(rig).0);
    let work = workers.iter().map(|table| async move {
        for _ in 0..5 {
            table.update(key(), counts_up).await.unwrap();
        }
    });
    join_all(work).await;
    let kept = workers[0].update(key(), |_| Ok::<_, ()>(Change::Keep));
    let kept = kept.await.unwrap();
    assert_eq!(
        (kept.version, &kept.item.unwrap()["count"]),
        (Version::Number(20), &n(20))
    );
    workers[0].update(key(), deletes).await.unwrap();
    let gone = workers[1].update(key(), deletes).await;
    assert!(matches!(gone, Err(UpdateError::Caller("gone"))), "{gone:?}");
}

pub(crate) async fn a_versioned_write_that_was_applied_unseen_is_made_once(rig: &Rig) {
    let (table, network) = versioned(rig);
    for count in 1..4 {
        first(&network, "PutItem", Fault::Lose(When::After));
        let updated = table.update(key(), counts_up).await.unwrap();
        assert_eq!(
            (updated.version, updated.attempts),
            (Version::Number(count), 1)
        );
        assert_eq!(updated.item.unwrap()["count"], n(count));
    }
}
