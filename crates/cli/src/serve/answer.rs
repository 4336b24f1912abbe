//! The answer to one HTTP request: the engine's, or why the request did not come to the engine.

use std::io::Write;
use std::time::Duration;

use fairlock::embedded::{Engine, Reply};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::time::sleep;

use crate::stderr_thread;
use crate::text::shown;

/// DynamoDB's name for its protocol, before the operation.
const PROTOCOL: &str = "DynamoDB_20120810.";
/// The largest body that DynamoDB takes, in bytes: that of a batch.
const LARGEST: usize = 16 << 20;
/// How long a client may take to send a body.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// What DynamoDB says of its health.
const HEALTHY: &str = "healthy: fairlock serve\n";

type Answer = Response<Full<Bytes>>;

/// Answers requests.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) engine: Engine,
    /// Whether each operation is printed.
    pub(super) is_logged: bool,
}

impl Desk {
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.method() == Method::GET && request.uri().path() == "/" {
            return with_checksum(StatusCode::OK, "text/plain", HEALTHY.into());
        }
        if request.method() != Method::POST {
            let text = "requests of DynamoDB's protocol are POST requests";
            return refused(StatusCode::NOT_FOUND, "UnknownOperationException", text);
        }
        let target = request.headers().get("x-amz-target");
        let target = target.and_then(|target| target.to_str().ok());
        let operation = target.and_then(|target| target.strip_prefix(PROTOCOL));
        // The engine knows no operation without a name, and says so as DynamoDB does.
        let operation = operation.unwrap_or_default().to_owned();
        let answer = match body(request.into_body()).await {
            Ok(body) => passed_on(&self.engine.reply_to(&operation, &body).await),
            Err(refused) => refused,
        };
        if self.is_logged {
            log(&operation, answer.status());
        }
        answer
    }
}

/// Prints an operation. A reader that does not read holds no client up, and misses some.
fn log(operation: &str, status: StatusCode) {
    let line = format!("{} {}\n", shown(operation), status.as_u16());
    let _ = stderr_thread::Log.write(line.as_bytes());
}

/// Reads the body to its end. Fails with an answer.
async fn body(body: Incoming) -> Result<Bytes, Answer> {
    if body.size_hint().lower() > LARGEST as u64 {
        return Err(too_large());
    }
    let whole = Limited::new(body, LARGEST).collect();
    let read = tokio::select! {
        biased;
        read = whole => read,
        () = sleep(BODY_WITHIN) => {
            let text = format!("the body did not come within {BODY_WITHIN:?}");
            return Err(last(refused(StatusCode::REQUEST_TIMEOUT, "RequestTimeoutException", &text)));
        }
    };
    match read {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        // The client has gone, or sends what is no HTTP.
        Err(_) => {
            let text = "the body could not be read";
            Err(last(refused(
                StatusCode::BAD_REQUEST,
                "SerializationException",
                text,
            )))
        }
    }
}

fn too_large() -> Answer {
    let (status, text) = (
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("a body has at most {LARGEST} bytes"),
    );
    last(refused(status, "RequestEntityTooLargeException", &text))
}

fn passed_on(reply: &Reply) -> Answer {
    let status = StatusCode::from_u16(reply.status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = Bytes::copy_from_slice(reply.body());
    let mut answer = with_checksum(status, "application/x-amz-json-1.0", body);
    for (name, value) in reply.headers() {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

fn refused(status: StatusCode, kind: &str, message: &str) -> Answer {
    let body = json!({
        "__type": format!("com.amazon.coral.service#{kind}"),
        "message": message,
    });
    with_checksum(
        status,
        "application/x-amz-json-1.0",
        body.to_string().into(),
    )
}

/// The last answer of a connection, on which the rest of a request may still be under way.
fn last(mut answer: Answer) -> Answer {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}

/// An answer with the checksum that the SDKs compare.
fn with_checksum(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let checksum = HeaderValue::from(crc32fast::hash(&body));
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert("x-amz-crc32", checksum);
    answer
}
