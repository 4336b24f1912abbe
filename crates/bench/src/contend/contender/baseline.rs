//! The common parts of both baselines: a lock in a table whose keys are `pk` and `sk`, a lease, and a sleep between attempts.

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::AttributeValue;

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    /// Sends a request once: neither baseline can tell its own repeated write from another worker's.
    pub(crate) client: Client,
    pub(crate) table: String,
    pub(crate) lock: String,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
}

/// Returns what a write returned. Returns `None` if its condition did not hold.
pub(crate) fn unless_refused<T, E, R>(sent: Result<T, SdkError<E, R>>) -> Result<Option<T>, Failed>
where
    SdkError<E, R>: ProvideErrorMetadata + Into<Failed>,
{
    match sent {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
