//! Deletes rows of past turns, by as few requests as the policy of the table allows. What stays is left to the next client that cleans, and
//! to TTL.

use futures::future::try_join_all;

use crate::queue;
use crate::store::Operation;
use crate::store::requests::Requests;
use crate::vocabulary::name::LockName;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::RowWrite;

/// DynamoDB's limit for one batch of writes.
const BATCH: usize = 25;

/// Deletes settled rows once.
pub(crate) async fn delete_rows(
    requests: &Requests,
    name: &LockName,
    settled: &[Ticket],
) -> Result<(), Failure> {
    let store = &requests.store;
    for batch in settled.chunks(BATCH) {
        let keys = batch.iter().map(|row| store.row_key(name, *row));
        let deletes = store.delete_all("delete settled rows", keys);
        if !permitted(requests, Operation::BatchWriteItem, deletes).await? {
            delete_singly(requests, name, batch, &RowWrite::remove_settled()).await?;
        }
    }
    Ok(())
}

/// Deletes rows by a request for each, unless a policy denies that. Deletes the first row by itself, so that no more than one request is
/// denied.
async fn delete_singly(
    requests: &Requests,
    name: &LockName,
    rows: &[Ticket],
    write: &RowWrite,
) -> Result<(), Failure> {
    let delete = |row: &Ticket| queue::delete(&requests.store, name, *row, write);
    let deletes = async {
        let (first, others) = rows.split_at(rows.len().min(1));
        try_join_all(first.iter().map(delete)).await?;
        try_join_all(others.iter().map(delete)).await.map(drop)
    };
    if !permitted(requests, Operation::DeleteItem, deletes).await? {
        requests.denials.leave(rows.len());
    }
    Ok(())
}

/// Runs an action that only cleaning needs. Returns `false` if a policy denies it, or denied it a while ago.
async fn permitted(
    requests: &Requests,
    action: Operation,
    request: impl Future<Output = Result<(), Failure>>,
) -> Result<bool, Failure> {
    let (store, denials) = (&requests.store, &requests.denials);
    if denials.is_denied(action, store.now()) {
        return Ok(false);
    }
    match request.await {
        Ok(()) => Ok(true),
        Err(failure) if failure.is_denied() => {
            if denials.note(action, store.now()) {
                warn(&store.config().table, action, &failure);
            }
            Ok(false)
        }
        Err(failure) => Err(failure),
    }
}

fn warn(table: &str, denied: Operation, failure: &Failure) {
    let action = denied.name();
    match denied {
        Operation::BatchWriteItem => tracing::warn!(
            table, action, %failure,
            "may not delete settled rows in batches, and deletes them one by one: permit the action to this client"
        ),
        _ => tracing::warn!(
            table, action, %failure,
            "may not delete settled rows, which stay until TTL or a sweep: permit the action to this client"
        ),
    }
}
