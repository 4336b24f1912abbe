//! Replaces stamps that stand in a caller's way: what has none, and what lies in the future.

use fairlock_protocol::failure::Failure;
use fairlock_protocol::redating::{Redating, next_redating};
use fairlock_protocol::stamps::Reading;

use crate::queue;
use crate::queue::snapshot::Snapshot;
use crate::store::requests::Requests;
use crate::store::{Store, all_of};
use crate::vocabulary::name::LockName;

/// Stamps what keeps a dead entry, by one write at most. A process that enters before any answer told it the time leaves no date before its
/// first renewal, and a front end that is ahead leaves one of the future. If it dies then, callers that do not wait could not tell. So a
/// caller that meets the entry stamps it. A failure is left to the next caller.
pub(crate) async fn stamp(
    requests: &Requests,
    name: &LockName,
    (seen, reading): (&Snapshot, Reading),
) {
    if let Err(failure) = send(&requests.store, name, (seen, reading)).await {
        tracing::debug!(lock = %name, %failure, "left what has no date to the next who comes");
    }
}

async fn send(
    store: &Store,
    name: &LockName,
    (seen, reading): (&Snapshot, Reading),
) -> Result<(), Failure> {
    match next_redating(all_of(name), &seen.item, &seen.rows, reading) {
        Some(Redating::OnItem(write)) => store.write(name, &write).await.map(drop),
        Some(Redating::InRow(ticket, write)) => {
            queue::write(store, name, ticket, &write).await.map(drop)
        }
        None => Ok(()),
    }
}
