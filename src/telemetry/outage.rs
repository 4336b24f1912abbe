//! Spans of time in which DynamoDB does not serve waiting calls: when one begins, and when it ends.

use std::time::Duration;

use crate::vocabulary::name::LockName;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::outage::{OutageKind, is_unanswered};

/// Something keeps the waiting calls of a lock from their turn.
pub(crate) fn unserved(lock: &LockName, kind: OutageKind, failure: &Failure) {
    let what = match kind {
        OutageKind::Throttled => "DynamoDB is too busy",
        OutageKind::Conflict => "transactions of others use the item",
        OutageKind::Refused => "DynamoDB refuses a request",
        OutageKind::LoadingCredentials => "credentials are still being loaded",
        _ => "cannot reach DynamoDB",
    };
    tracing::warn!(%lock, %failure, "{what}: goes on trying while its callers wait");
}

/// Nothing does any more, after so long.
pub(crate) fn served(lock: &LockName, kind: OutageKind, after: Duration) {
    match is_unanswered(kind) {
        true => tracing::info!(%lock, ?after, "reached DynamoDB again"),
        false => tracing::info!(%lock, ?after, "DynamoDB serves requests again"),
    }
}
