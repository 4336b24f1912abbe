//! The name of each operation, and the database's method that does it.

use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;

type Said<T> = Result<T, DynoxideError>;

/// Returns the JSON answer to a JSON request, or `None` if the database has no such operation.
pub(crate) fn run(db: &Database, operation: &str, body: &[u8]) -> Said<Option<String>> {
    match operation {
        "GetItem" => json(body, |request| db.get_item(request)),
        "PutItem" => json(body, |request| db.put_item(request)),
        "UpdateItem" => json(body, |request| db.update_item(request)),
        "DeleteItem" => json(body, |request| db.delete_item(request)),
        "Query" => json(body, |request| db.query(request)),
        "Scan" => json(body, |request| db.scan(request)),
        "BatchGetItem" => json(body, |request| db.batch_get_item(request)),
        "BatchWriteItem" => json(body, |request| db.batch_write_item(request)),
        "TransactGetItems" => json(body, |request| db.transact_get_items(request)),
        "TransactWriteItems" => json(body, |request| db.transact_write_items(request)),
        "CreateTable" => json(body, |request| db.create_table(request)),
        "DescribeTable" => json(body, |request| db.describe_table(request)),
        "UpdateTable" => json(body, |request| db.update_table(request)),
        "DeleteTable" => json(body, |request| db.delete_table(request)),
        "ListTables" => json(body, |request| db.list_tables(request)),
        "UpdateTimeToLive" => json(body, |request| db.update_time_to_live(request)),
        "DescribeTimeToLive" => json(body, |request| db.describe_time_to_live(request)),
        "TagResource" => json(body, |request| db.tag_resource(request)),
        "UntagResource" => json(body, |request| db.untag_resource(request)),
        _ => Ok(None),
    }
}

/// Reads a request, has it done, and writes the answer.
pub(crate) fn json<Q: DeserializeOwned, A: Serialize>(
    body: &[u8],
    work: impl FnOnce(Q) -> Said<A>,
) -> Said<Option<String>> {
    let request = serde_json::from_slice(body).map_err(unreadable)?;
    let answer = serde_json::to_string(&work(request)?);
    answer.map(Some).map_err(unsayable)
}

/// The error for a request that cannot be read. The engine marks requests that DynamoDB calls invalid by a word in capitals before the
/// message.
fn unreadable(error: serde_json::Error) -> DynoxideError {
    let text = error.to_string();
    match text.split_once(':') {
        Some((mark, message)) if mark.starts_with("VALIDATION") => {
            DynoxideError::ValidationException(message.to_owned())
        }
        _ => DynoxideError::SerializationException(text),
    }
}

fn unsayable(error: serde_json::Error) -> DynoxideError {
    DynoxideError::InternalServerError(error.to_string())
}
