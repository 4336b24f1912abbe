//! Creates a table of locks, whatever other processes do about it at the same time, and however far they have come.
//!
//! The work is done in rounds: describe the table, do what is missing, describe it again. A round that is not the last fails with
//! a conflict, as if others were in its way, and [`Requests::retry`] makes the next one.

use std::time::Duration;

use aws_sdk_dynamodb::types::{TableDescription, TableStatus};
use tokio_util::sync::CancellationToken;

use crate::store::requests::{Limit, Requests, RetryPolicy};
use crate::store::{Refusal, Store, refused};
use fairlock_protocol::failure::{Failure, Kind, cause};
use fairlock_protocol::moment::Moment;

use super::check::is_strong;
use super::finding::Finding;
use super::requests::{self, CREATE, DESCRIBE, DESCRIBE_TTL, Extend, SWITCH_ON_TTL, Ttl};
use super::schema::Schema;

/// DynamoDB makes a table within seconds as a rule, and says it may take minutes.
const WITHIN: Duration = Duration::from_secs(300);
/// DynamoDB may take an hour over switching TTL on, and nothing depends on when it is done.
const TTL_WITHIN: Duration = Duration::from_secs(60);
/// The most attempts at the first request, before anything is known to be there.
const FIRST_ATTEMPTS: usize = 4;
/// The most attempts that find neither a table nor another process that creates it: some ten seconds, for example for a full
/// disk.
const ATTEMPTS: usize = 10;
/// Requests about tables take longer than those about items, by up to this factor.
const MORE_TIME: u32 = 5;

/// Creates the table unless it is there, waits until it is active, and switches TTL on.
pub(crate) async fn create(
    requests: &Requests,
    extend: &Extend<'_>,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let policy = RetryPolicy::stopped_by(&stop).until(requests.store.now() + WITHIN);
    let first = policy.clone().within(Limit::Attempts(FIRST_ATTEMPTS));
    // A wrong endpoint must show itself quickly, however long a table may take. So this request has the time-out of any request.
    let describe = || requests::describe(&requests.store);
    let _ = requests.retry(&first, describe).await?;
    let requests = requests.with_more_time(MORE_TIME);
    let store = &requests.store;
    let policy = policy.within(Limit::Unanswered(ATTEMPTS));
    let table = requests
        .retry(&policy, || bring_about(store, extend))
        .await?;
    // A sweeper removes what TTL would, where there is none.
    if !is_strong(&table) {
        let until = store.now() + TTL_WITHIN;
        let ttl = || bring_ttl_about(store, until);
        requests.retry(&policy, ttl).await?;
    }
    Ok(())
}

/// A single round. Returns the table if nothing more is to be done.
async fn bring_about(store: &Store, extend: &Extend<'_>) -> Result<TableDescription, Failure> {
    match requests::describe(store).await? {
        Ok(table) => usable(store, table),
        Err(refusal) if refusal.is_missing() => {
            match requests::create(store, extend).await? {
                Ok(()) => tracing::info!(table = %store.config().table, "creates the table"),
                Err(refusal) => may_pass(CREATE, refusal)?,
            }
            Err(not_yet(CREATE, "the table is being created"))
        }
        Err(refusal) => Err(refusal.into_failure(DESCRIBE)),
    }
}

fn usable(store: &Store, table: TableDescription) -> Result<TableDescription, Failure> {
    let status = table.table_status().cloned();
    let status = status.unwrap_or(TableStatus::Active);
    if status == TableStatus::Deleting {
        return Err(not_yet(CREATE, "the table of this name is being deleted"));
    }
    if let Some(mismatch) = Schema::mismatch(&table, &store.config().names) {
        return Err(unfit(CREATE, mismatch));
    }
    match status {
        TableStatus::Active => Ok(table),
        TableStatus::Creating | TableStatus::Updating => {
            Err(not_yet(CREATE, "the table is not active yet"))
        }
        other => {
            let status = other.as_str().to_owned();
            Err(unfit(CREATE, Finding::NotActive { status }))
        }
    }
}

/// A single round. After `until`, TTL that is being switched on counts as on.
async fn bring_ttl_about(store: &Store, until: Moment) -> Result<(), Failure> {
    let needed = &store.config().names.ttl;
    match requests::describe_ttl(store).await? {
        Ok(Ttl::On(found) | Ttl::Coming(found)) if found != *needed => {
            let needed = needed.clone();
            Err(unfit(SWITCH_ON_TTL, Finding::OtherTtl { found, needed }))
        }
        Ok(Ttl::On(_)) => Ok(()),
        Ok(Ttl::Coming(_)) if store.now() >= until => Ok(()),
        Ok(Ttl::Coming(_)) => Err(not_yet(SWITCH_ON_TTL, "TTL is being switched on")),
        Ok(Ttl::Going) => Err(not_yet(SWITCH_ON_TTL, "TTL is being switched off")),
        Ok(Ttl::Off) => switch_on(store).await,
        Err(refusal) if refusal.is_unknown() => without_ttl(store),
        Err(refusal) => Err(refusal.into_failure(DESCRIBE_TTL)),
    }
}

async fn switch_on(store: &Store) -> Result<(), Failure> {
    match requests::switch_on_ttl(store).await? {
        Ok(()) => Err(not_yet(SWITCH_ON_TTL, "TTL is being switched on")),
        Err(refusal) if refusal.is_unknown() => without_ttl(store),
        Err(refusal) => match requests::describe_ttl(store).await? {
            // DynamoDB refuses it if another process was faster, so this reads what that process made of TTL.
            Ok(Ttl::On(_) | Ttl::Coming(_)) => {
                Err(not_yet(SWITCH_ON_TTL, "another process switched TTL on"))
            }
            _ => {
                may_pass(SWITCH_ON_TTL, refusal)?;
                Err(not_yet(SWITCH_ON_TTL, "the table is being changed"))
            }
        },
    }
}

fn without_ttl(store: &Store) -> Result<(), Failure> {
    tracing::warn!(table = %store.config().table, "this engine has no TTL: what is out of use stays, unless it is swept");
    Ok(())
}

/// Ignores a refusal because of another process at work on the table: that passes, and the next round sees what it did.
fn may_pass(verb: &'static str, refusal: Refusal) -> Result<(), Failure> {
    match refusal.code.as_str() {
        "ResourceInUseException" => Ok(()),
        _ => Err(refusal.into_failure(verb)),
    }
}

fn not_yet(verb: &'static str, why: &'static str) -> Failure {
    Failure {
        verb,
        kind: Kind::Conflict(cause(why)),
    }
}

fn unfit(verb: &'static str, finding: Finding) -> Failure {
    refused(verb, finding)
}
