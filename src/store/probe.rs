//! Whether this client may do what locks need, tried in ways that change nothing.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{DeleteRequest, WriteRequest};

use super::codec::{Item, number, text};
use super::failure::{Refusal, answered};
use super::{Store, ask};
use fairlock_protocol::failure::Failure;

/// The operations that fairlock uses on items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    GetItem,
    Query,
    PutItem,
    UpdateItem,
    DeleteItem,
    BatchWriteItem,
    Scan,
}

/// The partition key of all probes, for policies that name leading keys.
const PARTITION: &str = "#fairlock-check";

/// A condition that never holds: at the key of a probe, with its new nonce, there is no item.
const SOMETHING_THERE: &str = "attribute_exists(#pk)";

type Answer = Result<Result<(), Refusal>, Failure>;

impl Operation {
    pub(crate) const ALL: [Operation; 7] = [
        Operation::GetItem,
        Operation::Query,
        Operation::PutItem,
        Operation::UpdateItem,
        Operation::DeleteItem,
        Operation::BatchWriteItem,
        Operation::Scan,
    ];

    /// DynamoDB's name for the operation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::GetItem => "GetItem",
            Operation::Query => "Query",
            Operation::PutItem => "PutItem",
            Operation::UpdateItem => "UpdateItem",
            Operation::DeleteItem => "DeleteItem",
            Operation::BatchWriteItem => "BatchWriteItem",
            Operation::Scan => "Scan",
        }
    }
}

impl Store {
    /// Tries an operation where there is nothing to be read or changed.
    pub(crate) async fn probe(&self, operation: Operation) -> Answer {
        let answer = match operation {
            Operation::GetItem => self.probe_get().await,
            Operation::Query => self.probe_query().await,
            Operation::PutItem => self.probe_put().await,
            Operation::UpdateItem => self.probe_update().await,
            Operation::DeleteItem => self.probe_delete().await,
            Operation::BatchWriteItem => self.probe_batch().await,
            Operation::Scan => self.probe_scan().await,
        };
        answer.map(permitted)
    }

    /// A key at which there is no item: `#` and a new nonce are neither a lock item's nor a row's.
    fn nowhere(&self) -> Item {
        let names = &self.config.names;
        let nonce = self.config.random_source.nonce();
        let sort_key = format!("{}/#{nonce}", self.config.namespace);
        Item::from([
            (names.partition_key.clone(), text(PARTITION)),
            (names.sort_key.clone(), text(sort_key)),
        ])
    }

    async fn probe_get(&self) -> Answer {
        let request = self.client.get_item().table_name(&self.config.table);
        let request = request.set_key(Some(self.nowhere())).consistent_read(true);
        probed("check GetItem", request.send()).await
    }

    async fn probe_query(&self) -> Answer {
        let keys = "#pk = :pk";
        let request = self.client.query().table_name(&self.config.table);
        let request = request
            .key_condition_expression(keys)
            .set_expression_attribute_names(Some(self.names(&[keys])))
            .expression_attribute_values(":pk", text(PARTITION))
            .consistent_read(true)
            .limit(1);
        probed("check Query", request.send()).await
    }

    async fn probe_put(&self) -> Answer {
        let request = self.client.put_item().table_name(&self.config.table);
        let request = request
            .set_item(Some(self.nowhere()))
            .condition_expression(SOMETHING_THERE)
            .set_expression_attribute_names(Some(self.names(&[SOMETHING_THERE])));
        probed("check PutItem", request.send()).await
    }

    async fn probe_update(&self) -> Answer {
        let update = "SET #expires_at = :expiry";
        let request = self.client.update_item().table_name(&self.config.table);
        let request = request
            .set_key(Some(self.nowhere()))
            .update_expression(update)
            .condition_expression(SOMETHING_THERE)
            .set_expression_attribute_names(Some(self.names(&[update, SOMETHING_THERE])))
            .expression_attribute_values(":expiry", number(0));
        probed("check UpdateItem", request.send()).await
    }

    async fn probe_delete(&self) -> Answer {
        let request = self.client.delete_item().table_name(&self.config.table);
        let request = request
            .set_key(Some(self.nowhere()))
            .condition_expression(SOMETHING_THERE)
            .set_expression_attribute_names(Some(self.names(&[SOMETHING_THERE])));
        probed("check DeleteItem", request.send()).await
    }

    /// A batch takes no condition. Deleting an item that is not there changes nothing either.
    #[expect(
        clippy::expect_used,
        reason = "every required field of the request is set here"
    )]
    async fn probe_batch(&self) -> Answer {
        let delete = DeleteRequest::builder().set_key(Some(self.nowhere()));
        let delete = delete.build().expect("a deletion with its key");
        let write = WriteRequest::builder().delete_request(delete).build();
        let request = self.client.batch_write_item();
        let request = request.request_items(&self.config.table, vec![write]);
        probed("check BatchWriteItem", request.send()).await
    }

    async fn probe_scan(&self) -> Answer {
        let request = self.client.scan().table_name(&self.config.table).limit(1);
        probed("check Scan", request.send()).await
    }
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
