//! What a request that did not succeed means: may it have been applied, and does trying again help?

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::batch_write_item::BatchWriteItemError;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::QueryError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;

use crate::error::{Chain, Error, ItemProblem, Source};
use crate::state::OutageKind;
#[cfg(feature = "metrics")]
use crate::telemetry::RequestOutcome;

use super::codec::Item;
use super::unreachable::{Hindrance, Misconfigured, lack};

/// A request that brought no answer, or one that refuses it.
#[derive(Debug)]
pub(crate) struct Failed<E> {
    pub(crate) error: SdkError<E, HttpResponse>,
    /// The request was handed to the transport, so it may have been applied, whatever the transport says of it.
    pub(crate) has_left: bool,
}

/// A request that brought no usable answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) verb: &'static str,
    pub(crate) kind: Kind,
}

/// What a failure means.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Not applied, and may be if sent again: DynamoDB was too busy.
    Busy(Source),
    /// Not applied, and may be if sent again: at that moment another client's transaction was using the item, or another process
    /// was changing the table.
    Conflict(Source),
    /// Not applied, and may be if sent again, but not for want of time. This is a read without an answer, a request that got no
    /// connection, or a request with rejected credentials or a rejected signature.
    Unserved(Source),
    /// Not applied, and may be if sent again: the credentials that are to sign it are still being loaded.
    Unsigned(Source),
    /// No answer: it may have been applied, or may be yet.
    Ambiguous(Source),
    /// Not applied, and never will be.
    Refused(Source),
    /// Answered with an item that is not ours, or damaged.
    InvalidItem { item: String, problem: ItemProblem },
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

impl Failure {
    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            Kind::Busy(_)
                | Kind::Conflict(_)
                | Kind::Unserved(_)
                | Kind::Unsigned(_)
                | Kind::Ambiguous(_)
        )
    }

    /// Whether DynamoDB refused the request, and will until what it names is mended.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.kind, Kind::Refused(_))
    }

    /// Whether a policy denies the request to this client. A proxy in between denies without this code.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(&self.kind, Kind::Refused(source) if denies(source))
    }

    /// Whether a newer version of fairlock uses this lock.
    pub(crate) fn is_newer_format(&self) -> bool {
        matches!(
            self.kind,
            Kind::InvalidItem {
                problem: ItemProblem::NewerFormat { .. },
                ..
            }
        )
    }

    /// Whether DynamoDB answered that it was too busy.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.kind, Kind::Busy(_))
    }

    /// Whether DynamoDB answered that now is not the time, which shows that it is there.
    pub(crate) fn is_not_now(&self) -> bool {
        matches!(self.kind, Kind::Busy(_) | Kind::Conflict(_))
    }

    /// Whether the request may have been applied, or may be yet.
    pub(crate) fn is_ambiguous(&self) -> bool {
        matches!(self.kind, Kind::Ambiguous(_))
    }

    /// A read changes nothing, so nothing of it can have been applied.
    pub(crate) fn of_a_read(self) -> Self {
        let kind = match self.kind {
            Kind::Ambiguous(source) => Kind::Unserved(source),
            kind => kind,
        };
        Failure { kind, ..self }
    }

    /// A copy of the failure.
    pub(crate) fn again(&mut self) -> Failure {
        let verb = self.verb;
        let kind = Kind::Busy(Source::from(""));
        let (one, other) = std::mem::replace(self, Failure { verb, kind }).shared();
        *self = one;
        other
    }

    /// The same failure twice, for two callers.
    pub(crate) fn shared(self) -> (Self, Self) {
        let verb = self.verb;
        let (one, other) = match self.kind {
            Kind::Busy(source) => twice(source, Kind::Busy),
            Kind::Conflict(source) => twice(source, Kind::Conflict),
            Kind::Unserved(source) => twice(source, Kind::Unserved),
            Kind::Unsigned(source) => twice(source, Kind::Unsigned),
            Kind::Ambiguous(source) => twice(source, Kind::Ambiguous),
            Kind::Refused(source) => twice(source, Kind::Refused),
            Kind::InvalidItem { item, problem } => {
                let kind = |item| Kind::InvalidItem {
                    item,
                    problem: problem.clone(),
                };
                (kind(item.clone()), kind(item))
            }
        };
        (Failure { verb, kind: one }, Failure { verb, kind: other })
    }

    /// The error for a caller that has waited for `waited`.
    pub(crate) fn into_error(self, table: &str, waited: Duration) -> Error {
        let (table, verb) = (table.to_owned(), self.verb);
        match self.kind {
            Kind::Busy(source)
            | Kind::Conflict(source)
            | Kind::Unserved(source)
            | Kind::Unsigned(source)
            | Kind::Ambiguous(source) => Error::Unavailable {
                table,
                verb,
                waited,
                source,
            },
            Kind::Refused(source) => Error::Refused {
                table,
                verb,
                source,
            },
            Kind::InvalidItem { item, problem } => Error::InvalidItem {
                table,
                item,
                problem,
            },
        }
    }
}

impl OutageKind {
    /// What a failure keeps a call by. Returns `None` for an item that is not ours, or damaged.
    pub(super) fn of(failure: &Failure) -> Option<Self> {
        match &failure.kind {
            Kind::Busy(_) => Some(OutageKind::Throttled),
            Kind::Conflict(_) => Some(OutageKind::Conflict),
            Kind::Unserved(source) | Kind::Ambiguous(source) => Some(lack(source.as_ref())),
            Kind::Unsigned(_) => Some(OutageKind::LoadingCredentials),
            Kind::Refused(_) => Some(OutageKind::Refused),
            Kind::InvalidItem { .. } => None,
        }
    }
}

/// Whether a refusal is a policy's.
pub(crate) fn denies(source: &Source) -> bool {
    let code = code::<BatchWriteItemError>(source)
        .or(code::<DeleteItemError>(source))
        .or(code::<GetItemError>(source))
        .or(code::<PutItemError>(source))
        .or(code::<QueryError>(source))
        .or(code::<UpdateItemError>(source));
    code == Some("AccessDeniedException")
}

/// DynamoDB's code, if it refused a request of this kind.
fn code<E: ProvideErrorMetadata + std::error::Error + 'static>(source: &Source) -> Option<&str> {
    let shared = source.downcast_ref::<Shared>();
    let source = shared.map_or(source.as_ref(), |it| it.0.as_ref());
    source
        .downcast_ref::<SdkError<E, HttpResponse>>()
        .and_then(ProvideErrorMetadata::code)
}

fn twice(source: Source, kind: impl Fn(Source) -> Kind) -> (Kind, Kind) {
    let shared = match source.downcast::<Shared>() {
        Ok(shared) => *shared,
        Err(source) => Shared(Arc::from(source)),
    };
    (kind(Box::new(shared.clone())), kind(Box::new(shared)))
}

/// An error that several callers share.
#[derive(Clone)]
struct Shared(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// For logs, in one line: the words of errors, and nothing else of requests and answers.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.verb, self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Busy(source)
            | Kind::Conflict(source)
            | Kind::Unserved(source)
            | Kind::Unsigned(source) => {
                write!(f, "came to nothing: {}", Chain(source.as_ref()))
            }
            Kind::Ambiguous(source) => {
                write!(f, "may have been applied: {}", Chain(source.as_ref()))
            }
            Kind::Refused(source) => write!(f, "was refused: {}", Chain(source.as_ref())),
            Kind::InvalidItem { item, problem } => write!(f, "met item `{item}`: {problem}"),
        }
    }
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
        Failure {
            verb,
            kind: Kind::Refused(Box::new(self)),
        }
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
        (Kind::Refused(_), Some(code)) => Ok(Err(Refusal { code, message })),
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
        SdkError::TimeoutError(_) if !has_left => Err(Hindrance::Credentials),
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
        Ok(wrap) if is_too_large => wrap(Box::new(TooLarge(source))),
        Ok(wrap) => wrap(source),
        Err(Hindrance::Loading) => Kind::Unsigned(Hindrance::Loading.explained(source)),
        Err(hindrance) => Kind::Unserved(hindrance.explained(source)),
    };
    Failure { verb, kind }
}

/// The failure for an answer that says that all is well, and has not what DynamoDB's answer to this request has even if it finds nothing.
pub(super) fn not_dynamodbs(verb: &'static str) -> Failure {
    let source = Box::new(NotDynamoDb { status: 200 });
    Failure {
        verb,
        kind: Kind::Refused(source),
    }
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
    match sorted.map(|wrap| wrap(Source::from(""))) {
        Ok(Kind::Busy(_)) => RequestOutcome::Throttled,
        Ok(Kind::Conflict(_)) => RequestOutcome::Conflict,
        Ok(Kind::Refused(_) | Kind::InvalidItem { .. }) => RequestOutcome::Refused,
        Ok(Kind::Unserved(_) | Kind::Unsigned(_) | Kind::Ambiguous(_)) | Err(_) => {
            RequestOutcome::Unanswered
        }
    }
}

/// What an error means, or what kept DynamoDB from looking at the request.
type Sorted = Result<fn(Source) -> Kind, Hindrance>;

fn sort_answer(code: Option<&str>, status: u16) -> Sorted {
    Ok(match (code, status) {
        (Some(code), _) if BUSY.contains(&code) => Kind::Busy,
        (Some(code), _) if CONFLICT.contains(&code) => Kind::Conflict,
        (Some(code), _) if LATE.contains(&code) => Kind::Ambiguous,
        (_, 429) => Kind::Busy,
        (_, 500..) => Kind::Ambiguous,
        // The answer was cut short, or is not DynamoDB's. The request may have reached DynamoDB all the same.
        (None, ..=400 | 408) => Kind::Ambiguous,
        (code, _) => match code.and_then(Hindrance::of_answer) {
            Some(hindrance) => return Err(hindrance),
            None => Kind::Refused,
        },
    })
}

/// Once the request was handed to the transport, the transport's name for the error does not matter, unless there was no
/// connection. For a closed connection that name says neither that the request failed nor that no answer came.
fn sort_unanswered(error: &(dyn std::error::Error + 'static), has_left: bool) -> Sorted {
    if has_left {
        return Hindrance::of_connecting(error).map_or(Ok(Kind::Ambiguous), Err);
    }
    Hindrance::of_preparing(error).map_or(Ok(Kind::Refused), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: Option<&str>, status: u16) -> Kind {
        match sort_answer(code, status) {
            Ok(wrap) => wrap("cause".into()),
            Err(hindrance) => Kind::Unserved(hindrance.explained("cause".into())),
        }
    }

    #[test]
    fn what_was_handed_to_the_transport_may_have_been_applied_whatever_the_transport_says() {
        let closed = std::io::Error::other("connection closed before message completed");
        assert!(matches!(
            sort_unanswered(&closed, true).map(|wrap| wrap("cause".into())),
            Ok(Kind::Ambiguous(_))
        ));
        assert!(matches!(
            sort_unanswered(&closed, false).map(|wrap| wrap("cause".into())),
            Ok(Kind::Refused(_))
        ));
    }

    #[test]
    fn credentials_and_signatures_that_are_not_taken_may_be_another_time() {
        for code in ["UnrecognizedClientException", "InvalidSignatureException"] {
            for status in [400, 403] {
                assert!(
                    matches!(kind(Some(code), status), Kind::Unserved(_)),
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
                    matches!(kind(Some(code), status), Kind::Ambiguous(_)),
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
    fn a_failure_says_what_was_sent_what_became_of_it_and_why() {
        let problem = ItemProblem::Missing { attribute: "last" };
        let item = "pk = a".to_owned();
        for (kind, told) in [
            (Kind::Busy("slow".into()), "`enter` came to nothing: slow"),
            (
                Kind::Ambiguous("slow".into()),
                "`enter` may have been applied: slow",
            ),
            (Kind::Refused("no".into()), "`enter` was refused: no"),
            (
                Kind::InvalidItem { item, problem },
                "`enter` met item `pk = a`: has no `last`: not written by fairlock, or damaged",
            ),
        ] {
            let verb = "enter";
            assert_eq!(Failure { verb, kind }.to_string(), told);
        }
    }

    #[test]
    fn every_server_error_may_have_been_applied() {
        assert!(matches!(
            kind(Some("InternalServerError"), 500),
            Kind::Ambiguous(_)
        ));
        assert!(matches!(kind(None, 503), Kind::Ambiguous(_)));
    }

    #[test]
    fn an_answer_without_a_code_that_is_no_refusal_may_have_been_applied() {
        for status in [200, 204, 302, 400, 408] {
            assert!(matches!(kind(None, status), Kind::Ambiguous(_)), "{status}");
        }
        assert!(matches!(kind(None, 404), Kind::Refused(_)));
    }

    #[test]
    fn what_the_caller_must_mend_is_not_tried_again() {
        for code in [
            "AccessDeniedException",
            "ResourceNotFoundException",
            "ValidationException",
        ] {
            assert!(matches!(kind(Some(code), 400), Kind::Refused(_)), "{code}");
        }
    }
}
