//! The item that refused a write: shown with the refusal, or found by a consistent read.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure::AllOld};

use super::rig::Rig;
use fairlock_testkit::lab::{Host, acquire};
use fairlock_testkit::tamper::Table;

/// Whether a refusal shows the item, tested without fairlock.
async fn shows_items(rig: &Rig) -> bool {
    let Table { client, name } = rig.table();
    let text = |text: &str| AttributeValue::S(text.into());
    let update = client.update_item().table_name(name).key("pk", text("a"));
    let update = update.key("sk", text("fairlock/#lock"));
    let update = update.update_expression("SET #it = :one");
    let update = update.condition_expression("attribute_not_exists(pk)");
    let update = update.expression_attribute_names("#it", "it");
    let update = update.expression_attribute_values(":one", text("one"));
    let update = update.return_values_on_condition_check_failure(AllOld);
    let refused = update.send().await.unwrap_err();
    let refused = refused.into_service_error();
    let ConditionalCheckFailedException(refused) = refused else {
        panic!("{refused}")
    };
    refused.item().is_some()
}

/// What a client sends from now on: the operation, and whether it is a consistent read.
fn sent(host: &Host) -> Arc<Mutex<Vec<(String, bool)>>> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&sent);
    let _ = host.network.clone().script(move |request| {
        let is_consistent = request.body()["ConsistentRead"] == true;
        let request = (request.operation().to_owned(), is_consistent);
        noted.lock().unwrap().push(request);
        None
    });
    sent
}

/// A host that has learned the time from an answer, and so dates its entries. No other client has to date them.
async fn dated(rig: &Rig) -> Host {
    let host = rig.host();
    acquire(&host).await.release().await.unwrap();
    host
}

pub(crate) async fn a_refusal_costs_a_consistent_read_where_it_shows_no_item_and_none_where_it_does(
    rig: &Rig,
) {
    let (holder, other) = (dated(rig).await, dated(rig).await);
    let guard = acquire(&holder).await;
    let shows = shows_items(rig).await;
    assert_eq!(rig.shows_items().unwrap_or(shows), shows);
    let sent = sent(&other);
    let lock = other.lock();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let (write, read) = (("UpdateItem".into(), false), ("GetItem".into(), true));
    let expected = if shows {
        vec![write]
    } else {
        vec![write, read]
    };
    assert_eq!(*sent.lock().unwrap(), expected);
    guard.release().await.unwrap();
}
