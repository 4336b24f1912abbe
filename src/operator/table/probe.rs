//! Whether this client may do what locks need, tried in ways that change nothing.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::store::{Item, Operation, Refusal, Store, answered, ask, deletion, number, text};
use fairlock_protocol::failure::Failure;

/// The partition key of all probes, for policies that name leading keys.
const PARTITION: &str = "#fairlock-check";

/// A condition that never holds: at the key of a probe, with its new nonce, there is no item.
const SOMETHING_THERE: &str = "attribute_exists(#pk)";

type Answer = Result<Result<(), Refusal>, Failure>;

/// Tries an operation where there is nothing to be read or changed.
pub(super) async fn probe(store: &Store, operation: Operation) -> Answer {
    let answer = match operation {
        Operation::GetItem => probe_get(store).await,
        Operation::Query => probe_query(store).await,
        Operation::PutItem => probe_put(store).await,
        Operation::UpdateItem => probe_update(store).await,
        Operation::DeleteItem => probe_delete(store).await,
        Operation::BatchWriteItem => probe_batch(store).await,
        Operation::Scan => probe_scan(store).await,
    };
    answer.map(permitted)
}

/// A key at which there is no item: `#` and a new nonce are neither a lock item's nor a row's.
fn nowhere(store: &Store) -> Item {
    let names = &store.config().names;
    let nonce = store.config().random_source.nonce();
    let sort_key = format!("{}/#{nonce}", store.config().namespace);
    Item::from([
        (names.partition_key.clone(), text(PARTITION)),
        (names.sort_key.clone(), text(sort_key)),
    ])
}

async fn probe_get(store: &Store) -> Answer {
    let request = store.client().get_item().table_name(&store.config().table);
    let request = request.set_key(Some(nowhere(store))).consistent_read(true);
    probed("check GetItem", request.send()).await
}

async fn probe_query(store: &Store) -> Answer {
    let keys = "#pk = :pk";
    let request = store.client().query().table_name(&store.config().table);
    let request = request
        .key_condition_expression(keys)
        .set_expression_attribute_names(Some(store.names(&[keys])))
        .expression_attribute_values(":pk", text(PARTITION))
        .consistent_read(true)
        .limit(1);
    probed("check Query", request.send()).await
}

async fn probe_put(store: &Store) -> Answer {
    let request = store.client().put_item().table_name(&store.config().table);
    let request = request
        .set_item(Some(nowhere(store)))
        .condition_expression(SOMETHING_THERE)
        .set_expression_attribute_names(Some(store.names(&[SOMETHING_THERE])));
    probed("check PutItem", request.send()).await
}

async fn probe_update(store: &Store) -> Answer {
    let update = "SET #expires_at = :expiry";
    let request = store
        .client()
        .update_item()
        .table_name(&store.config().table);
    let request = request
        .set_key(Some(nowhere(store)))
        .update_expression(update)
        .condition_expression(SOMETHING_THERE)
        .set_expression_attribute_names(Some(store.names(&[update, SOMETHING_THERE])))
        .expression_attribute_values(":expiry", number(0));
    probed("check UpdateItem", request.send()).await
}

async fn probe_delete(store: &Store) -> Answer {
    let request = store
        .client()
        .delete_item()
        .table_name(&store.config().table);
    let request = request
        .set_key(Some(nowhere(store)))
        .condition_expression(SOMETHING_THERE)
        .set_expression_attribute_names(Some(store.names(&[SOMETHING_THERE])));
    probed("check DeleteItem", request.send()).await
}

/// A batch takes no condition. Deleting an item that is not there changes nothing either.
async fn probe_batch(store: &Store) -> Answer {
    let request = store.client().batch_write_item();
    let request = request.request_items(&store.config().table, vec![deletion(nowhere(store))]);
    probed("check BatchWriteItem", request.send()).await
}

async fn probe_scan(store: &Store) -> Answer {
    let request = store
        .client()
        .scan()
        .table_name(&store.config().table)
        .limit(1);
    probed("check Scan", request.send()).await
}

/// If the condition failed, DynamoDB looked at it, so the operation is permitted.
fn permitted(answer: Result<(), Refusal>) -> Result<(), Refusal> {
    answer.or_else(|refusal| match refusal.code.as_str() {
        "ConditionalCheckFailedException" => Ok(()),
        _ => Err(refusal),
    })
}

/// Sends a probe.
async fn probed<T, E>(
    verb: &'static str,
    request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
) -> Answer
where
    T: Send,
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    answered(verb, ask(verb, request).await).map(nothing)
}

fn nothing<T>(answer: Result<T, Refusal>) -> Result<(), Refusal> {
    answer.map(|_| ())
}
