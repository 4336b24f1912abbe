//! What a request that did not succeed means: may it have been applied, and does trying again help?

use std::error::Error as StdError;
#[cfg(any(test, feature = "metrics"))]
use std::fmt;
use std::sync::Arc;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ErrorMetadata, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use fairlock_protocol::failure::{By, Cause, Failure, Kind, Lack, cause};

#[cfg(feature = "metrics")]
use crate::telemetry::RequestOutcome;
use crate::vocabulary::error::Source;

use super::codec::Item;
use super::unreachable::{
    Misconfigured, chain, explained, lack_of_answer, lack_of_connecting, lack_of_preparing,
};

/// A request that brought no answer, or one that refuses it.
#[derive(Debug)]
pub(crate) struct Failed<E> {
    pub(crate) error: SdkError<E, HttpResponse>,
    /// The request was handed to the transport, so it may have been applied, whatever the transport says of it.
    pub(crate) has_left: bool,
}

/// Codes of DynamoDB and its front end for "not now": all that the SDK takes for throttling, and one that it misses. The SDK's
/// own retries are off.
const BUSY: [&str; 15] = [
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "ThrottlingException",
    "Throttling",
    "ThrottledException",
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "TransactionInProgressException",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "SlowDown",
    "PriorRequestNotComplete",
];

/// Codes by which a server says that it waited too long for the request, or for an answer to it. A proxy says so too of a request
/// that it has passed on.
const LATE: [&str; 2] = ["RequestTimeout", "RequestTimeoutException"];

/// Codes for an item that others write at the same moment.
const CONFLICT: [&str; 2] = [
    "TransactionConflictException",
    "ReplicatedWriteConflictException",
];

/// The failure of a request that will not succeed until what `why` names is mended.
pub(crate) fn refused(verb: &'static str, why: impl Into<Source>) -> Failure {
    Failure {
        verb,
        kind: Kind::Refused(By::Table, cause(why)),
    }
}

/// DynamoDB's code for what a policy denies.
pub(crate) const DENIED: &str = "AccessDeniedException";

/// Whether a refusal is a policy's.
pub(crate) fn denies(refusal: &(dyn StdError + 'static)) -> bool {
    let mut causes = chain(refusal).filter_map(|cause| cause.downcast_ref::<ErrorMetadata>());
    causes.any(|said| said.code() == Some(DENIED))
}

/// Takes a failed condition, which is an answer, out of an error: the item that stood in the way, if it was sent along.
pub(crate) fn refusal<E>(verb: &'static str, failed: Failed<E>) -> Result<Option<Item>, Failure>
where
    E: Conditional + ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let Failed { error, has_left } = failed;
    match error {
        SdkError::ServiceError(answer) if answer.err().is_refusal() => {
            Ok(answer.into_err().into_old_item())
        }
        error => Err(sort(verb, Failed { error, has_left })),
    }
}

/// What DynamoDB says when it refuses a request for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn into_failure(self, verb: &'static str) -> Failure {
        refused(verb, self)
    }
}

/// Takes refusals, which are answers, out of the result of a request. Refusals that are not DynamoDB's own stay failures.
pub(crate) fn answered<T, E>(
    verb: &'static str,
    answer: Result<T, Failed<E>>,
) -> Result<Result<T, Refusal>, Failure>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let failed = match answer {
        Ok(answer) => return Ok(Ok(answer)),
        Err(failed) => failed,
    };
    let code = failed.error.code().map(str::to_owned);
    let message = failed.error.message().unwrap_or("no reason given");
    let message = message.to_owned();
    let failure = sort(verb, failed);
    match (&failure.kind, code) {
        (Kind::Refused(..), Some(code)) => Ok(Err(Refusal { code, message })),
        _ => Err(failure),
    }
}

/// The error of an operation that may carry a condition.
pub(crate) trait Conditional {
    fn is_refusal(&self) -> bool;
    fn into_old_item(self) -> Option<Item>;
}

macro_rules! conditional {
    ($($error:ident),*) => {$(
        impl Conditional for $error {
            fn is_refusal(&self) -> bool {
                self.is_conditional_check_failed_exception()
            }

            fn into_old_item(self) -> Option<Item> {
                match self {
                    $error::ConditionalCheckFailedException(refused) => refused.item.filter(|item| !item.is_empty()),
                    _ => None,
                }
            }
        }
    )*};
}

conditional!(DeleteItemError, PutItemError, UpdateItemError);

/// Sorts a failed request.
pub(crate) fn sort<E>(verb: &'static str, failed: Failed<E>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let Failed { error, has_left } = failed;
    let sorted = match &error {
        SdkError::ServiceError(answer) => {
            sort_answer(answer.err().code(), answer.raw().status().as_u16())
        }
        // Before a request is handed over, only loading credentials can take long.
        SdkError::TimeoutError(_) if !has_left => Err(Lack::Credentials),
        unanswered => sort_unanswered(unanswered, has_left),
    };
    let is_too_large = error.code() == Some("ValidationException")
        && error.message().is_some_and(|it| it.contains(TOO_LARGE));
    let misconfigured = match has_left {
        true => None,
        false => Misconfigured::of(&error),
    };
    let source: Source = match (misconfigured, status_of_another(&error)) {
        (Some(misconfigured), _) => Box::new(misconfigured),
        (None, Some(status)) => Box::new(NotDynamoDb { status }),
        (None, None) => Box::new(error),
    };
    let kind = match sorted {
        Ok(wrap) if is_too_large => wrap(Arc::new(TooLarge(source))),
        Ok(wrap) => wrap(cause(source)),
        Err(lack) => Kind::Unserved(lack, cause(explained(lack, source))),
    };
    Failure { verb, kind }
}

/// The failure for an answer that says that all is well, and has not what DynamoDB's answer to this request has even if it finds nothing.
pub(super) fn not_dynamodbs(verb: &'static str) -> Failure {
    refused(verb, NotDynamoDb { status: 200 })
}

/// An answer of a proxy or gateway in between: DynamoDB names each of its errors, and this one has no name.
#[derive(Debug, thiserror::Error)]
#[error("HTTP status {status}, in an answer that is not DynamoDB's")]
struct NotDynamoDb {
    status: u16,
}

fn status_of_another<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    match error {
        SdkError::ServiceError(answer) if answer.err().code().is_none() => {
            Some(answer.raw().status().as_u16())
        }
        _ => None,
    }
}

/// DynamoDB's words for an item that is larger than it stores, in puts and in updates.
const TOO_LARGE: &str = "Item size";

/// A refusal that does not say by itself what to do.
#[derive(Debug, thiserror::Error)]
#[error(
    "the item would be larger than 400 KB: shorten what stands on it, the data of a lock, and the owners and attributes of those who have \
     the lock or wait for it"
)]
struct TooLarge(#[source] Source);

/// How the metrics name what a failed request came to.
#[cfg(feature = "metrics")]
pub(super) fn outcome<E>(failed: &Failed<E>) -> RequestOutcome
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let sorted = match &failed.error {
        SdkError::ServiceError(answer) => {
            if answer.err().code() == Some("ConditionalCheckFailedException") {
                return RequestOutcome::ConditionFailed;
            }
            sort_answer(answer.err().code(), answer.raw().status().as_u16())
        }
        SdkError::TimeoutError(_) => return RequestOutcome::Unanswered,
        unanswered => sort_unanswered(unanswered, failed.has_left),
    };
    match sorted.map(|wrap| wrap(Arc::new(fmt::Error))) {
        Ok(Kind::Busy(_)) => RequestOutcome::Throttled,
        Ok(Kind::Conflict(_)) => RequestOutcome::Conflict,
        Ok(Kind::Refused(..) | Kind::Invalid { .. }) => RequestOutcome::Refused,
        Ok(Kind::Unserved(..) | Kind::Unknown(_)) | Err(_) => RequestOutcome::Unanswered,
    }
}

/// What an error means, or what kept DynamoDB from looking at the request.
type Sorted = Result<fn(Cause) -> Kind, Lack>;

fn sort_answer(code: Option<&str>, status: u16) -> Sorted {
    Ok(match (code, status) {
        (Some(code), _) if BUSY.contains(&code) => Kind::Busy,
        (Some(code), _) if CONFLICT.contains(&code) => Kind::Conflict,
        (Some(code), _) if LATE.contains(&code) => Kind::Unknown,
        (_, 429) => Kind::Busy,
        (_, 500..) => Kind::Unknown,
        // The answer was cut short, or is not DynamoDB's. The request may have reached DynamoDB all the same.
        (None, ..=400 | 408) => Kind::Unknown,
        (Some(DENIED), _) => |cause| Kind::Refused(By::Policy, cause),
        (code, _) => match code.and_then(lack_of_answer) {
            Some(lack) => return Err(lack),
            None => by_table,
        },
    })
}

/// Once the request was handed to the transport, the transport's name for the error does not matter, unless there was no
/// connection. For a closed connection that name says neither that the request failed nor that no answer came.
fn sort_unanswered(error: &(dyn std::error::Error + 'static), has_left: bool) -> Sorted {
    if has_left {
        return lack_of_connecting(error).map_or(Ok(Kind::Unknown), Err);
    }
    lack_of_preparing(error).map_or(Ok(by_table), Err)
}

fn by_table(cause: Cause) -> Kind {
    Kind::Refused(By::Table, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: Option<&str>, status: u16) -> Kind {
        match sort_answer(code, status) {
            Ok(wrap) => wrap(Arc::new(fmt::Error)),
            Err(lack) => Kind::Unserved(lack, Arc::new(fmt::Error)),
        }
    }

    #[test]
    fn what_was_handed_to_the_transport_may_have_been_applied_whatever_the_transport_says() {
        let closed = std::io::Error::other("connection closed before message completed");
        assert!(matches!(
            sort_unanswered(&closed, true).map(|wrap| wrap(Arc::new(fmt::Error))),
            Ok(Kind::Unknown(_))
        ));
        assert!(matches!(
            sort_unanswered(&closed, false).map(|wrap| wrap(Arc::new(fmt::Error))),
            Ok(Kind::Refused(..))
        ));
    }

    #[test]
    fn credentials_and_signatures_that_are_not_taken_may_be_another_time() {
        for code in ["UnrecognizedClientException", "InvalidSignatureException"] {
            for status in [400, 403] {
                assert!(
                    matches!(kind(Some(code), status), Kind::Unserved(..)),
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn being_busy_is_not_ambiguous_whatever_the_status() {
        for code in BUSY {
            assert!(matches!(kind(Some(code), 400), Kind::Busy(_)), "{code}");
        }
        assert!(matches!(kind(None, 429), Kind::Busy(_)));
    }

    #[test]
    fn a_server_that_waited_too_long_may_have_applied_the_request() {
        for code in LATE {
            for status in [400, 408] {
                assert!(
                    matches!(kind(Some(code), status), Kind::Unknown(_)),
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn a_conflict_is_neither_ambiguous_nor_a_sign_of_being_busy() {
        for code in CONFLICT {
            let verb = "renew";
            let kind = kind(Some(code), 400);
            let failure = Failure { verb, kind };
            assert!(failure.is_transient() && failure.is_not_now(), "{code}");
            assert!(!failure.is_ambiguous() && !failure.is_busy(), "{code}");
        }
    }

    #[test]
    fn every_server_error_may_have_been_applied() {
        assert!(matches!(
            kind(Some("InternalServerError"), 500),
            Kind::Unknown(_)
        ));
        assert!(matches!(kind(None, 503), Kind::Unknown(_)));
    }

    #[test]
    fn an_answer_without_a_code_that_is_no_refusal_may_have_been_applied() {
        for status in [200, 204, 302, 400, 408] {
            assert!(matches!(kind(None, status), Kind::Unknown(_)), "{status}");
        }
        assert!(matches!(kind(None, 404), Kind::Refused(..)));
    }

    #[test]
    fn what_the_caller_must_mend_is_not_tried_again() {
        for code in [
            "AccessDeniedException",
            "ResourceNotFoundException",
            "ValidationException",
        ] {
            assert!(matches!(kind(Some(code), 400), Kind::Refused(..)), "{code}");
        }
    }
}
