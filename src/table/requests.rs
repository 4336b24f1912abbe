//! The requests about the table itself, each a single attempt.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{
    BillingMode, PointInTimeRecoverySpecification, PointInTimeRecoveryStatus,
    ProvisionedThroughput, SseSpecification, SseType, TableDescription, Tag,
    TimeToLiveSpecification, TimeToLiveStatus,
};

use crate::store::{Failure, Kind, Refusal, Store, answered, ask};

use super::options::{Billing, EncryptionKey, TableOptions};
use super::schema::Schema;

pub(super) type Answered<T> = Result<Result<T, Refusal>, Failure>;

pub(super) const CREATE: &str = "create the table";
pub(super) const DESCRIBE: &str = "describe the table";
pub(super) const SWITCH_ON_TTL: &str = "switch on TTL";
pub(super) const DESCRIBE_TTL: &str = "describe TTL";
pub(super) const SWITCH_ON_RECOVERY: &str = "switch on point-in-time recovery";
pub(super) const DESCRIBE_RECOVERY: &str = "describe point-in-time recovery";
pub(super) const LIST_TAGS: &str = "list the table's tags";

const NOT_DYNAMODB: &str =
    "the answer describes no table, so it is not DynamoDB's: look at the endpoint";

/// The state of the table's TTL, and the attribute that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ttl {
    Off,
    On(String),
    /// Being switched on.
    Coming(String),
    /// Being switched off.
    Going,
}

impl Refusal {
    /// Whether there is no such table. Requests about backups have a code of their own for that.
    pub(super) fn is_missing(&self) -> bool {
        let codes = ["ResourceNotFoundException", "TableNotFoundException"];
        codes.contains(&self.code.as_str())
    }

    pub(super) fn is_denied(&self) -> bool {
        self.code == "AccessDeniedException"
    }

    /// Whether the engine does not know such requests.
    pub(super) fn is_unknown(&self) -> bool {
        self.code == "UnknownOperationException"
    }
}

pub(super) async fn describe(store: &Store) -> Answered<TableDescription> {
    let request = store.client().describe_table();
    let request = request.table_name(&store.config().table);
    match answered(DESCRIBE, ask(DESCRIBE, request.send()).await)? {
        Ok(answer) => described(answer.table).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// A table of DynamoDB has a state and keys, though a table that is being deleted may no longer show its keys. Another server may
/// answer `{}` to any request.
fn described(table: Option<TableDescription>) -> Result<TableDescription, Failure> {
    let is_one =
        |table: &TableDescription| table.table_status.is_some() || table.key_schema.is_some();
    table.filter(is_one).ok_or_else(|| Failure {
        verb: DESCRIBE,
        kind: Kind::Refused(NOT_DYNAMODB.into()),
    })
}

pub(super) async fn create(store: &Store, options: &TableOptions) -> Answered<()> {
    let schema = Schema::needed(&store.config().names);
    let request = store.client().create_table();
    let request = request
        .table_name(&store.config().table)
        .set_key_schema(Some(schema.elements()))
        .set_attribute_definitions(Some(schema.definitions()))
        .set_tags(tags(options))
        .set_sse_specification(encryption(&options.key))
        // An engine that does not know it is not asked to switch it off.
        .set_deletion_protection_enabled(options.is_protected.then_some(true));
    let request = match options.billing {
        Billing::OnDemand => request.billing_mode(BillingMode::PayPerRequest),
        Billing::Provisioned { read, write } => request
            .billing_mode(BillingMode::Provisioned)
            .provisioned_throughput(throughput(read, write)),
    };
    answered(CREATE, ask(CREATE, request.send()).await).map(nothing)
}

#[expect(clippy::expect_used, reason = "both required fields are set here")]
fn throughput(read: u32, write: u32) -> ProvisionedThroughput {
    let throughput = ProvisionedThroughput::builder()
        .read_capacity_units(read.into())
        .write_capacity_units(write.into());
    throughput.build().expect("both capacities")
}

#[expect(clippy::expect_used, reason = "both required fields are set here")]
fn tags(options: &TableOptions) -> Option<Vec<Tag>> {
    let tag = |(key, value)| {
        let tag = Tag::builder().key(key).value(value);
        tag.build().expect("a key and a value")
    };
    (!options.tags.is_empty()).then(|| options.tags.iter().map(tag).collect())
}

/// Without a specification, a key that AWS owns encrypts the table.
fn encryption(key: &EncryptionKey) -> Option<SseSpecification> {
    let by_kms = SseSpecification::builder()
        .enabled(true)
        .sse_type(SseType::Kms);
    match key {
        EncryptionKey::AwsOwned => None,
        EncryptionKey::AwsManaged => Some(by_kms.build()),
        EncryptionKey::Customer(key) => Some(by_kms.kms_master_key_id(key).build()),
    }
}

/// Whether the table has point-in-time recovery.
pub(super) async fn describe_recovery(store: &Store) -> Answered<bool> {
    let request = store.client().describe_continuous_backups();
    let request = request.table_name(&store.config().table);
    let answer = ask(DESCRIBE_RECOVERY, request.send()).await;
    let answer = answered(DESCRIBE_RECOVERY, answer)?;
    Ok(answer.map(|answer| {
        let backups = answer.continuous_backups_description.as_ref();
        let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description());
        let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status());
        status == Some(&PointInTimeRecoveryStatus::Enabled)
    }))
}

#[expect(clippy::expect_used, reason = "the one required field is set here")]
pub(super) async fn switch_on_recovery(store: &Store) -> Answered<()> {
    let recovery = PointInTimeRecoverySpecification::builder()
        .point_in_time_recovery_enabled(true)
        .build();
    let request = store.client().update_continuous_backups();
    let request = request
        .table_name(&store.config().table)
        .point_in_time_recovery_specification(recovery.expect("whether it is on"));
    let answer = ask(SWITCH_ON_RECOVERY, request.send()).await;
    answered(SWITCH_ON_RECOVERY, answer).map(nothing)
}

/// Lists a page of the tags of the table with this ARN, and tells where the next page begins if there is one.
pub(super) async fn list_tags(
    store: &Store,
    arn: &str,
    from: Option<String>,
) -> Answered<(BTreeMap<String, String>, Option<String>)> {
    let request = store.client().list_tags_of_resource().resource_arn(arn);
    let request = request.set_next_token(from);
    let answer = answered(LIST_TAGS, ask(LIST_TAGS, request.send()).await)?;
    Ok(answer.map(|answer| {
        let tags = answer.tags.unwrap_or_default().into_iter();
        (
            tags.map(|tag| (tag.key, tag.value)).collect(),
            answer.next_token,
        )
    }))
}

pub(super) async fn describe_ttl(store: &Store) -> Answered<Ttl> {
    let request = store.client().describe_time_to_live();
    let request = request.table_name(&store.config().table);
    let answer = answered(DESCRIBE_TTL, ask(DESCRIBE_TTL, request.send()).await)?;
    Ok(answer.map(|answer| {
        let ttl = answer.time_to_live_description;
        let attribute = || {
            let ttl = ttl.as_ref();
            ttl.and_then(|ttl| ttl.attribute_name())
                .unwrap_or_default()
                .to_owned()
        };
        match ttl.as_ref().and_then(|ttl| ttl.time_to_live_status()) {
            Some(TimeToLiveStatus::Enabled) => Ttl::On(attribute()),
            Some(TimeToLiveStatus::Enabling) => Ttl::Coming(attribute()),
            Some(TimeToLiveStatus::Disabling) => Ttl::Going,
            _ => Ttl::Off,
        }
    }))
}

#[expect(
    clippy::expect_used,
    reason = "every required field of the request is set here"
)]
pub(super) async fn switch_on_ttl(store: &Store) -> Answered<()> {
    let ttl = TimeToLiveSpecification::builder()
        .enabled(true)
        .attribute_name(&store.config().names.ttl)
        .build();
    let request = store.client().update_time_to_live();
    let request = request
        .table_name(&store.config().table)
        .time_to_live_specification(ttl.expect("an attribute and whether it is on"));
    answered(SWITCH_ON_TTL, ask(SWITCH_ON_TTL, request.send()).await).map(nothing)
}

fn nothing<T>(answer: Result<T, Refusal>) -> Result<(), Refusal> {
    answer.map(|_| ())
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::TableStatus;

    use super::*;

    #[test]
    fn a_table_without_keys_is_one_while_it_is_being_deleted_and_one_without_anything_is_not() {
        let table = TableDescription::builder();
        let deleting = table.clone().table_status(TableStatus::Deleting).build();
        assert!(described(Some(deleting)).is_ok());
        for nothing in [None, Some(table.build())] {
            let failure = described(nothing).unwrap_err();
            assert!(failure.is_refused(), "{failure}");
        }
    }
}
