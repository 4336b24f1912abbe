//! The door through which every request goes: it tells whether a request left this process, and the `Date` of its answer. It counts requests
//! for the metrics.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::result::ConnectorError;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::failure::Failed;
#[cfg(feature = "metrics")]
use super::failure::outcome;
use super::unreachable::lack_of_answer;
#[cfg(feature = "metrics")]
use crate::telemetry::{self, Capacity, RequestOutcome};

/// Called if DynamoDB does not take the identity that signed a request.
type Rejected = Box<dyn FnOnce() + Send>;

/// An answer with its `Date`, if it has one.
pub(super) type Dated<T> = (T, Option<Duration>);

/// What the hooks of one request note.
#[derive(Default)]
struct Trace {
    has_left: Cell<bool>,
    date: Cell<Option<Duration>>,
    rejected: RefCell<Option<Rejected>>,
    #[cfg(feature = "metrics")]
    took: Cell<Option<Duration>>,
    #[cfg(feature = "metrics")]
    capacity: Cell<Option<Capacity>>,
}

tokio::task_local! {
    /// The SDK runs its hooks where the request's future is polled, and the error that it returns does not say how far
    /// the request came.
    static TRACE: Trace;
}

/// Sends the request of a step. Not an `async fn`, as below.
pub(crate) fn ask<'a, T, E>(
    step: &'static str,
    request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send + 'a,
) -> impl Future<Output = Result<T, Failed<E>>> + Send + 'a
where
    T: Send + 'a,
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let asked = ask_dated(step, request);
    async move { asked.await.0 }
}

/// Sends the request of a step. Returns the `Date` of its answer too. Boxed at once: the SDK's own futures are so deep that the compiler gives up on what is built on them, and so
/// large that moving one is costly.
#[cfg_attr(
    not(feature = "metrics"),
    expect(
        unused_variables,
        reason = "without the feature nothing counts the step"
    )
)]
pub(super) fn ask_dated<'a, T, E>(
    step: &'static str,
    request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send + 'a,
) -> BoxFuture<'a, Dated<Result<T, Failed<E>>>>
where
    T: Send + 'a,
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let request = request.boxed();
    let noted = TRACE.scope(Trace::default(), async {
        #[cfg(feature = "metrics")]
        let counted = Counted(Some(step));
        // Unwind safe, because what a panic breaks belongs to the caller's transport, or to an interceptor.
        let answer = AssertUnwindSafe(request).catch_unwind().await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(panic) => Err(panicked(&*panic)),
        };
        let (has_left, date, rejected) = TRACE.with(Trace::notes);
        let code = answer.as_ref().err().and_then(ProvideErrorMetadata::code);
        if let Some(rejected) = rejected.filter(|_| code.and_then(lack_of_answer).is_some()) {
            rejected();
        }
        let answer = answer.map_err(|error| Failed { error, has_left });
        #[cfg(feature = "metrics")]
        counted.ends(answer.as_ref().map_or_else(outcome, |_| RequestOutcome::Ok));
        (answer, date)
    });
    noted.boxed()
}

/// The step of a request, until the request has been counted. A request that is dropped is counted too, if it left this process.
#[cfg(feature = "metrics")]
struct Counted(Option<&'static str>);

#[cfg(feature = "metrics")]
impl Counted {
    fn ends(mut self, outcome: RequestOutcome) {
        let (took, capacity) = TRACE.with(|trace| (trace.took.get(), trace.capacity.get()));
        if let Some(step) = self.0.take() {
            telemetry::requested(step, outcome, took, capacity);
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(step) = self.0.take()
            && TRACE.try_with(|trace| trace.has_left.get()).unwrap_or(true)
        {
            telemetry::requested(step, RequestOutcome::Dropped, None, None);
        }
    }
}

/// An answer came after this time.
#[cfg(feature = "metrics")]
pub(super) fn took(span: Duration) {
    // As in `leaves`.
    let _ = TRACE.try_with(|trace| trace.took.set(Some(span)));
}

/// An answer tells what was charged.
#[cfg(feature = "metrics")]
pub(super) fn charged(capacity: Capacity) {
    // As in `leaves`.
    let _ = TRACE.try_with(|trace| trace.capacity.set(Some(capacity)));
}

/// The request is about to be handed to the transport.
pub(super) fn leaves() {
    // Outside of the door there is nothing to note.
    let _ = TRACE.try_with(|trace| trace.has_left.set(true));
}

/// The request is signed by an identity, of which `rejected` notes that DynamoDB does not take it.
pub(super) fn signed_by(rejected: impl FnOnce() + Send + 'static) {
    // As above.
    let _ = TRACE.try_with(|trace| trace.rejected.replace(Some(Box::new(rejected))));
}

/// An answer has this `Date`.
pub(super) fn saw(date: Option<Duration>) {
    // As above.
    let _ = TRACE.try_with(|trace| trace.date.set(date));
}

/// A request whose transport panicked is one without an answer. So is any in a runtime without timers, which the SDK's own time-outs need.
fn panicked<E>(panic: &(dyn Any + Send)) -> SdkError<E, HttpResponse> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let cause = format!(
        "the transport of the DynamoDB client, or an interceptor, panicked: {}",
        text.unwrap_or_default()
    );
    SdkError::dispatch_failure(ConnectorError::other(cause.into(), None))
}

impl Trace {
    fn notes(&self) -> (bool, Option<Duration>, Option<Rejected>) {
        (self.has_left.get(), self.date.get(), self.rejected.take())
    }
}
