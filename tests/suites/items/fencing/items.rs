//! A table of the callers' own with one item that the tests fence, and what an engine answers to a write.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsError, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType};
use fairlock::{Fence, Item, Ticket};

use fairlock_testkit::keyed_tables::create_table;
use fairlock_testkit::lab::Lab;

/// The item's table, behind a network without faults.
pub(crate) async fn things(lab: &Lab) -> Client {
    let client = lab.engine.client();
    create_table(&client, "things", &[("id", ScalarAttributeType::S)]).await;
    client
}

pub(crate) fn id() -> AttributeValue {
    AttributeValue::S("thing".into())
}

pub(crate) fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn fence(ticket: u64) -> Fence {
    Fence::new("fence", Ticket::new(ticket))
}

pub(crate) fn put(things: &Client, value: u64) -> PutItemFluentBuilder {
    let put = things.put_item().table_name("things");
    put.item("id", id()).item("value", n(value))
}

pub(crate) fn set(things: &Client, value: u64) -> UpdateItemFluentBuilder {
    let update = things.update_item().table_name("things").key("id", id());
    update
        .update_expression("SET #v = :v")
        .expression_attribute_names("#v", "value")
        .expression_attribute_values(":v", n(value))
}

pub(crate) fn raise(things: &Client) -> UpdateItemFluentBuilder {
    things.update_item().table_name("things").key("id", id())
}

pub(crate) fn delete(things: &Client) -> DeleteItemFluentBuilder {
    things.delete_item().table_name("things").key("id", id())
}

pub(crate) async fn item(things: &Client) -> Option<Item> {
    let get = things.get_item().table_name("things").key("id", id());
    get.consistent_read(true).send().await.unwrap().item
}

/// The number in an attribute of the item.
pub(crate) async fn number(things: &Client, attribute: &str) -> Option<u64> {
    let item = item(things).await?;
    let digits = item.get(attribute)?.as_n().unwrap();
    Some(digits.parse().unwrap())
}

/// Whether a write applied. If it did not, its condition must have failed.
pub(crate) fn applied<T, E: ProvideErrorMetadata + std::fmt::Debug>(
    answer: Result<T, SdkError<E>>,
) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => false,
        Err(error) => panic!("not a condition: {error:?}"),
    }
}

/// Whether a transaction applied. If it did not, the part with this number must have refused it.
pub(crate) fn committed(
    answer: Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>>,
    refusing: usize,
) -> bool {
    let Err(error) = answer else { return true };
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
        error.as_service_error()
    else {
        panic!("not cancelled: {error:?}")
    };
    for (part, reason) in cancelled.cancellation_reasons().iter().enumerate() {
        let refused = reason.code() == Some("ConditionalCheckFailed");
        assert_eq!(refused, part == refusing, "{cancelled:?}");
    }
    false
}
