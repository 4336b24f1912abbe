//! What holders write in transactions of their own. Such a transaction is applied only while the hold exists.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType, TransactWriteItem, Update};
use fairlock::LockGuard;
use fairlock::embedded::Engine;
use fairlock_testkit::keyed_tables;

use crate::history::Event;
use crate::world::{Host, World, wait};

const TABLE: &str = "cells";

/// Creates the table of what the locks protect.
pub(crate) async fn create_table(engine: &Engine) {
    let keys = [("lock", ScalarAttributeType::S)];
    keyed_tables::create_table(&engine.client(), TABLE, &keys).await;
}

/// Writes once. The caller may give up before the answer comes, and then the write is still under way. A caller that believes in its hold
/// must not be refused. Where there is an operator it may be: its hold may be broken, or moved on the lock's item by a change of the permits.
pub(crate) async fn write(world: &World, host: &Host, guard: &LockGuard) {
    let Ok(check) = guard.check_item() else {
        return;
    };
    let write = send(&host.client, world.history.next_transaction(), guard, check);
    let written = tokio::select! {
        biased;
        written = write => written,
        () = wait(host.plan.timeout) => Written::Perhaps,
    };
    host.link.awake().await;
    if written == Written::Refused && guard.is_held() && !world.plan.operates {
        let told = format!("{} is refused a checked write", guard.ticket());
        world.history.note(Event::Surprise(told));
    }
}

#[derive(PartialEq)]
enum Written {
    /// The check of the hold failed.
    Refused,
    /// The write was applied, or its outcome is unknown.
    Perhaps,
}

async fn send(
    client: &Client,
    name: String,
    guard: &LockGuard,
    check: TransactWriteItem,
) -> Written {
    let token = AttributeValue::N(guard.ticket().get().to_string());
    let cell = Update::builder()
        .table_name(TABLE)
        .key("lock", AttributeValue::S(guard.name().to_owned()))
        .update_expression("SET #token = :token")
        .expression_attribute_names("#token", "token")
        .expression_attribute_values(":token", token);
    let cell = TransactWriteItem::builder().update(cell.build().unwrap());
    let transaction = client.transact_write_items().client_request_token(name);
    let transaction = transaction.transact_items(cell.build());
    let sent = transaction.transact_items(check).send().await;
    match sent.map_err(|error| error.into_service_error()) {
        Err(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            let mut reasons = cancelled.cancellation_reasons().iter();
            match reasons.any(|reason| reason.code() == Some("ConditionalCheckFailed")) {
                true => Written::Refused,
                false => Written::Perhaps,
            }
        }
        _ => Written::Perhaps,
    }
}
