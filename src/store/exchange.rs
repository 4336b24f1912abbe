//! The door through which every request goes: it tells whether a request left this process, and the `Date` of its answer.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use futures::FutureExt;
use futures::future::BoxFuture;

/// A request that brought no answer, or one that refuses it.
#[derive(Debug)]
pub(crate) struct Failed<E> {
    pub(crate) error: SdkError<E, HttpResponse>,
    /// The request was handed to the transport, so it may have been applied, whatever the transport says of it.
    pub(crate) has_left: bool,
}

/// What the hooks of one request note.
#[derive(Debug, Default)]
struct Trace {
    has_left: Cell<bool>,
    date: Cell<Option<Duration>>,
}

tokio::task_local! {
    /// The SDK runs its hooks where the request's future is polled, and the error that it returns does not say how far
    /// the request came.
    static TRACE: Trace;
}

/// Sends a request. Boxed at once: the SDK's own futures are so deep that the compiler gives up on what is built on them, and so
/// large that moving one is costly.
pub(crate) fn ask<'a, T: Send + 'a, E: Send + 'a>(
    request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send + 'a,
) -> BoxFuture<'a, Result<T, Failed<E>>> {
    let request = request.boxed();
    let noted = TRACE.scope(Trace::default(), async {
        let answer = request.await;
        (answer, TRACE.with(Trace::notes))
    });
    let asked = async {
        let (answer, (has_left, date)) = noted.await;
        if date.is_some() {
            saw(date);
        }
        answer.map_err(|error| Failed { error, has_left })
    };
    asked.boxed()
}

/// Runs `asks`. Returns its result, and the `Date` of the last answer that it brought.
pub(super) async fn dated<T>(asks: impl Future<Output = T>) -> (T, Option<Duration>) {
    let noted = TRACE.scope(Trace::default(), async {
        let answer = asks.await;
        (answer, TRACE.with(|trace| trace.date.get()))
    });
    noted.await
}

/// The request is about to be handed to the transport.
pub(super) fn leaves() {
    // Outside of the door there is nothing to note.
    let _ = TRACE.try_with(|trace| trace.has_left.set(true));
}

/// An answer has this `Date`.
pub(super) fn saw(date: Option<Duration>) {
    // As above.
    let _ = TRACE.try_with(|trace| trace.date.set(date));
}

impl Trace {
    fn notes(&self) -> (bool, Option<Duration>) {
        (self.has_left.get(), self.date.get())
    }
}
