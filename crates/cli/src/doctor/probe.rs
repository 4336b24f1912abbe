//! Requests of the doctor's own, which change nothing: how long they take, what time their answers tell, and whether they are permitted.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use tokio::time::sleep;

use crate::failure::deepest;
use crate::ipc;
use crate::location::Location;
use crate::output;

/// How many requests are timed.
pub(super) const TIMES: usize = 9;
/// The operation that is timed.
pub(super) const READ: &str = "GetItem";
/// How long all of the requests may take together.
const WITHIN: Duration = Duration::from_secs(20);
/// The key that the library's check of a table tries too, so that policies need no other.
const PARTITION: &str = "#fairlock-check";
/// A date has whole seconds, so that it is half a second early on average.
const GRAIN: Duration = Duration::from_millis(500);

/// How this host's clock differs from the clock of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skew {
    Ahead(Duration),
    Behind(Duration),
}

impl Skew {
    fn of(here: SystemTime, there: SystemTime) -> Skew {
        match here.duration_since(there) {
            Ok(by) => Skew::Ahead(by),
            Err(early) => Skew::Behind(early.duration()),
        }
    }

    fn size(self) -> Duration {
        match self {
            Skew::Ahead(by) | Skew::Behind(by) => by,
        }
    }
}

/// What the timed requests showed.
#[derive(Debug)]
pub(super) struct Measured {
    /// The median.
    pub(super) round_trip: Duration,
    /// The smallest difference that an answer showed, because a slow answer tells an old date. `None` if no answer had a date.
    pub(super) skew: Option<Skew>,
}

/// Reads nothing, several times. Fails with what became of the first request that had no answer.
pub(super) async fn times(dynamodb: &Client, location: &Location) -> Result<Measured, String> {
    let (mut trips, mut skews) = (Vec::new(), Vec::new());
    let mut over = pin!(sleep(WITHIN));
    for _ in 0..TIMES {
        let dates = Dates::default();
        let (began, sent) = (ipc::now(), output::now());
        let read = read(dynamodb, location, dates.clone());
        tokio::select! {
            biased;
            answer = read => answer?,
            () = &mut over => return Err(format!("{TIMES} requests take more than {WITHIN:?}")),
        }
        let trip = ipc::now().saturating_sub(began);
        trips.push(trip);
        if let Some(date) = dates.newest() {
            skews.push(Skew::of(sent + trip / 2, date + GRAIN));
        }
    }
    trips.sort();
    Ok(Measured {
        round_trip: trips[TIMES / 2],
        skew: skews.into_iter().min_by_key(|skew| skew.size()),
    })
}

async fn read(dynamodb: &Client, location: &Location, dates: Dates) -> Result<(), String> {
    let request = dynamodb
        .get_item()
        .table_name(&location.table)
        .key(
            &location.partition_key,
            AttributeValue::S(PARTITION.to_owned()),
        )
        .key(&location.sort_key, AttributeValue::S(PARTITION.to_owned()))
        .consistent_read(true);
    match request.customize().interceptor(dates).send().await {
        // A refusal is an answer too, and told elsewhere.
        Err(error) if error.as_service_error().is_none() => Err(said(&error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether transactions with a check are permitted. The one that is tried is cancelled, because its condition cannot hold.
pub(super) async fn condition_check(dynamodb: &Client, location: &Location) -> Result<(), String> {
    let check = ConditionCheck::builder()
        .table_name(&location.table)
        .key(
            &location.partition_key,
            AttributeValue::S(PARTITION.to_owned()),
        )
        .key(&location.sort_key, AttributeValue::S(PARTITION.to_owned()))
        .condition_expression("attribute_exists(#pk)")
        .expression_attribute_names("#pk", &location.partition_key)
        .build();
    let check = check.map_err(|error| error.to_string())?;
    let item = TransactWriteItem::builder().condition_check(check).build();
    let answer = dynamodb.transact_write_items().transact_items(item).send();
    match answer.await {
        Err(error) if error.code() != Some("TransactionCanceledException") => Err(said(&error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// DynamoDB's own words, or what became of the request.
fn said<E>(error: &SdkError<E>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    SdkError<E>: ProvideErrorMetadata,
{
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => deepest(error).to_string(),
    }
}

/// The dates of the answers to one request.
#[derive(Clone, Debug, Default)]
struct Dates(Arc<Mutex<Option<SystemTime>>>);

impl Dates {
    fn newest(&self) -> Option<SystemTime> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intercept for Dates {
    fn name(&self) -> &'static str {
        "fairlock doctor"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        let date = date.and_then(|text| DateTime::from_str(text, Format::HttpDate).ok());
        let date = date.and_then(|date| SystemTime::try_from(date).ok());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = date;
        Ok(())
    }
}
