//! Whether the table is what locks need, and whether this client may use it.

use aws_sdk_dynamodb::types::{MultiRegionConsistency, TableDescription, TableStatus};

use crate::store::requests::{Requests, RetryPolicy};
use crate::store::{Operation, Refusal};
use crate::vocabulary::config::Names;
use crate::vocabulary::name::LockName;

use super::finding::{Finding, Severity, TableReport};
use super::probe::probe;
use super::requests::{self, Ttl};
use super::schema::Schema;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;

/// Of how many items of the table the locks are looked at, at most: some forty read units.
const SAMPLE: i32 = 300;

/// Describes the table and tries every operation on it, changing nothing.
pub(crate) async fn check(
    requests: &Requests,
    policy: &RetryPolicy,
) -> Result<TableReport, Failure> {
    let store = &requests.store;
    let check = Check { requests, policy };
    let (mut findings, table) = check.table().await?;
    let mut tried = vec!["DescribeTable"];
    if !findings.contains(&Finding::NoTable) {
        tried.push("DescribeTimeToLive");
        let is_strong = table.as_ref().is_some_and(is_strong);
        findings.extend(check.ttl(is_strong).await?);
    }
    // A table that cannot be used refuses everything, so its answers say nothing about permissions.
    let is_usable = |finding: &Finding| finding.severity() < Severity::Fatal;
    if findings.iter().all(is_usable) {
        tried.extend(Operation::ALL.map(Operation::name));
        findings.extend(check.operations().await?);
    }
    if !store.knows_the_date() {
        findings.push(Finding::MissingDateHeader);
    } else if store.goes_by_fallback_date() {
        findings.push(Finding::FallbackDate);
    }
    Ok(TableReport::new(findings, tried))
}

struct Check<'a> {
    requests: &'a Requests,
    policy: &'a RetryPolicy,
}

impl Check<'_> {
    /// Returns the findings, and what DynamoDB says of the table.
    async fn table(&self) -> Result<(Vec<Finding>, Option<TableDescription>), Failure> {
        let describe = || requests::describe(&self.requests.store);
        let answer = self.requests.retry(self.policy, describe).await?;
        match answer {
            Ok(table) => {
                let findings = about(&table, &self.requests.store.config().names);
                Ok((findings, Some(table)))
            }
            Err(refusal) => {
                let found = finding(requests::DESCRIBE, "DescribeTable", refusal)?;
                Ok((vec![found], None))
            }
        }
    }

    async fn ttl(&self, is_strong: bool) -> Result<Option<Finding>, Failure> {
        let describe = || requests::describe_ttl(&self.requests.store);
        let needed = &self.requests.store.config().names.ttl;
        match self.requests.retry(self.policy, describe).await? {
            Ok(Ttl::On(found) | Ttl::Coming(found)) => {
                let other = found != *needed;
                let needed = needed.clone();
                Ok(other.then_some(Finding::OtherTtl { found, needed }))
            }
            Ok(Ttl::Off | Ttl::Going) if !is_strong => Ok(Some(Finding::NoTtl)),
            Ok(Ttl::Off | Ttl::Going) => Ok(Some(Finding::WithoutTtl)),
            Err(refusal) if refusal.is_unknown() => Ok(Some(Finding::WithoutTtl)),
            // Another finding says so already, or will.
            Err(refusal) if refusal.is_missing() => Ok(None),
            Err(refusal) => {
                finding(requests::DESCRIBE_TTL, "DescribeTimeToLive", refusal).map(Some)
            }
        }
    }

    async fn operations(&self) -> Result<Vec<Finding>, Failure> {
        let mut findings = Vec::new();
        for operation in Operation::ALL {
            let tried = || probe(&self.requests.store, operation);
            match self.requests.retry(self.policy, tried).await? {
                Err(refusal) => {
                    findings.push(finding("check the table", operation.name(), refusal)?);
                }
                Ok(()) if operation == Operation::Scan => findings.extend(self.locks().await?),
                Ok(()) => {}
            }
            if findings.contains(&Finding::NoTable) {
                break;
            }
        }
        Ok(findings)
    }

    /// What the locks themselves show. An item that is no valid item of a lock is found by its users.
    async fn locks(&self) -> Result<Vec<Finding>, Failure> {
        let sample = || self.requests.store.first_lock_items(SAMPLE);
        let found = self.requests.retry(self.policy, sample).await?;
        let partly = |(name, item): (LockName, Result<LockItem, _>)| notified(&name, &item.ok()?);
        Ok(found.into_iter().filter_map(partly).collect())
    }
}

/// Whether only some of the participants with a slot can be notified.
fn notified(name: &LockName, item: &LockItem) -> Option<Finding> {
    let places = item.entries().count();
    let unreachable = item.entries().filter(|entry| entry.address.is_none());
    let unreachable = unreachable.count();
    (1..places)
        .contains(&unreachable)
        .then(|| Finding::PartlyNotified {
            lock: name.lock().to_owned(),
            places,
            unreachable,
        })
}

/// What is wrong with a table by its description.
fn about(table: &TableDescription, names: &Names) -> Vec<Finding> {
    let findings = [
        not_usable(table),
        Schema::mismatch(table, names),
        replicas(table),
    ];
    findings.into_iter().flatten().collect()
}

fn not_usable(table: &TableDescription) -> Option<Finding> {
    match table.table_status()? {
        TableStatus::Active | TableStatus::Updating => None,
        other => Some(Finding::NotActive {
            status: other.as_str().to_owned(),
        }),
    }
}

/// Whether this is a global table whose replicas agree on each write. Such a table has no TTL.
pub(super) fn is_strong(table: &TableDescription) -> bool {
    table.multi_region_consistency() == Some(&MultiRegionConsistency::Strong)
}

/// Conditions on writes hold in one region only, unless the replicas agree on each write first.
fn replicas(table: &TableDescription) -> Option<Finding> {
    let regions: Vec<_> = table
        .replicas()
        .iter()
        .filter_map(|replica| replica.region_name().map(str::to_owned))
        .collect();
    (!is_strong(table) && !regions.is_empty())
        .then_some(Finding::EventuallyConsistentReplicas { regions })
}

/// What a refusal says about the table. A refusal that is about the caller, for example its credentials, is a failure of the
/// check.
fn finding(
    verb: &'static str,
    operation: &'static str,
    refusal: Refusal,
) -> Result<Finding, Failure> {
    let answer = refusal.to_string();
    match refusal.code.as_str() {
        _ if refusal.is_missing() => Ok(Finding::NoTable),
        _ if refusal.is_denied() => Ok(Finding::Denied { operation, answer }),
        "ValidationException" | "UnknownOperationException" => {
            Ok(Finding::Refused { operation, answer })
        }
        _ => Err(refusal.into_failure(verb)),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::ReplicaDescription;

    use super::*;

    fn replicated(consistency: Option<MultiRegionConsistency>) -> TableDescription {
        let replica = ReplicaDescription::builder().region_name("eu-west-1");
        let table = TableDescription::builder().replicas(replica.build());
        let table = table.set_multi_region_consistency(consistency);
        table.build()
    }

    #[test]
    fn replicas_that_lag_are_warned_of_and_those_that_agree_are_not() {
        let regions = vec!["eu-west-1".to_owned()];
        for lagging in [None, Some(MultiRegionConsistency::Eventual)] {
            let finding = replicas(&replicated(lagging)).unwrap();
            assert_eq!(finding.severity(), Severity::Warning);
            let regions = regions.clone();
            assert_eq!(finding, Finding::EventuallyConsistentReplicas { regions });
        }
        let strong = replicated(Some(MultiRegionConsistency::Strong));
        assert_eq!(replicas(&strong), None);
    }

    #[test]
    fn a_table_is_usable_while_it_is_being_changed_and_not_while_it_is_being_made() {
        let table = |status| TableDescription::builder().table_status(status).build();
        assert_eq!(not_usable(&table(TableStatus::Active)), None);
        assert_eq!(not_usable(&table(TableStatus::Updating)), None);
        for status in [
            TableStatus::Creating,
            TableStatus::Deleting,
            TableStatus::Archived,
        ] {
            assert!(not_usable(&table(status)).is_some());
        }
    }
}
