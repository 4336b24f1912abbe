//! The requests about the table itself, each a single attempt.

pub(crate) use aws_sdk_dynamodb::operation::create_table::builders::CreateTableFluentBuilder;
use aws_sdk_dynamodb::types::{
    BillingMode, TableDescription, TimeToLiveSpecification, TimeToLiveStatus,
};

use crate::store::{DENIED, Refusal, Store, answered, ask, refused};
use fairlock_protocol::failure::Failure;

use super::schema::Schema;

pub(super) type Answered<T> = Result<Result<T, Refusal>, Failure>;

pub(super) const CREATE: &str = "create the table";
pub(super) const DESCRIBE: &str = "describe the table";
pub(super) const SWITCH_ON_TTL: &str = "switch on TTL";
pub(super) const DESCRIBE_TTL: &str = "describe TTL";

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
    /// Whether there is no such table.
    pub(super) fn is_missing(&self) -> bool {
        self.code == "ResourceNotFoundException"
    }

    pub(super) fn is_denied(&self) -> bool {
        self.code == DENIED
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
    table
        .filter(is_one)
        .ok_or_else(|| refused(DESCRIBE, NOT_DYNAMODB))
}

/// What the caller adds to the request that makes the table.
pub(crate) type Extend<'a> =
    dyn Fn(CreateTableFluentBuilder) -> CreateTableFluentBuilder + Send + Sync + 'a;

/// The name and the keys are the client's, whatever the caller adds.
pub(super) async fn create(store: &Store, extend: &Extend<'_>) -> Answered<()> {
    let schema = Schema::needed(&store.config().names);
    let request = store.client().create_table();
    let request = request
        .set_attribute_definitions(Some(schema.definitions()))
        .billing_mode(BillingMode::PayPerRequest);
    let request = extend(request)
        .table_name(&store.config().table)
        .set_key_schema(Some(schema.elements()));
    answered(CREATE, ask(CREATE, request.send()).await).map(nothing)
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
