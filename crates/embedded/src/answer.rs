//! A server's answer to one request: a status and a JSON body.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::DateTime;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::date_time::Format;

const DYNAMODB: &str = "com.amazonaws.dynamodb.v20120810";
const CORAL: &str = "com.amazon.coral.service";

/// The lock client reads it.
const BOOT_BEGAN: &str = "x-fairlock-boot-began";

const IN_CONFLICT: &str = "Transaction is ongoing for the item";

pub(crate) struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    pub(crate) fn new(status: u16, body: String) -> Self {
        Answer { status, body }
    }

    pub(crate) fn throttled() -> Self {
        let message = "The level of configured provisioned throughput for the table was exceeded. \
                       Consider increasing your provisioning level with the UpdateTable API.";
        Answer::error(
            400,
            DYNAMODB,
            "ProvisionedThroughputExceededException",
            message,
        )
    }

    pub(crate) fn conflict() -> Self {
        Answer::error(400, DYNAMODB, "TransactionConflictException", IN_CONFLICT)
    }

    /// The answer to a transaction in conflict: the reasons of its items in their order. Its last item is the one in conflict.
    pub(crate) fn cancelled_by_conflict(items: usize) -> Self {
        let others = items.saturating_sub(1);
        let codes = [vec!["None"; others], vec!["TransactionConflict"]].concat();
        let reasons: Vec<_> = codes.iter().map(|code| reason(code)).collect();
        let message = format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            codes.join(", ")
        );
        let body = serde_json::json!({
            "__type": format!("{DYNAMODB}#TransactionCanceledException"),
            "Message": message,
            "CancellationReasons": reasons,
        });
        Answer::new(400, body.to_string())
    }

    pub(crate) fn refused(code: &str) -> Self {
        Answer::error(400, DYNAMODB, code, "Refused by the network's faults")
    }

    pub(crate) fn server_error() -> Self {
        let message = "Internal server error";
        Answer::error(500, DYNAMODB, "InternalServerError", message)
    }

    pub(crate) fn unknown_operation() -> Self {
        Answer::error(400, CORAL, "UnknownOperationException", "")
    }

    fn error(status: u16, namespace: &str, kind: &str, message: &str) -> Self {
        let kind = format!("{namespace}#{kind}");
        let body = serde_json::json!({ "__type": kind, "message": message });
        Answer::new(status, body.to_string())
    }

    /// Renders the answer as HTTP, with the headers that DynamoDB sends. `now` is the time since 1970, without which there is no `Date`. No
    /// process is alive that wrote before `boot_began`.
    #[expect(clippy::expect_used, reason = "every status here is a constant")]
    pub(crate) fn into_http(
        self,
        now: Option<Duration>,
        boot_began: Option<Duration>,
    ) -> HttpResponse {
        let status = StatusCode::try_from(self.status).expect("an HTTP status");
        let mut response = HttpResponse::new(status, SdkBody::from(self.body));
        let headers = response.headers_mut();
        headers.insert("content-type", "application/x-amz-json-1.0");
        headers.insert("x-amzn-requestid", request_id());
        if let Some(date) = now.and_then(date) {
            headers.insert("date", date);
        }
        if let Some(began) = boot_began {
            headers.insert(BOOT_BEGAN, began.as_secs().to_string());
        }
        response
    }
}

/// Why an item of a transaction was not written. An item with which nothing is wrong has a code and no message.
fn reason(code: &str) -> serde_json::Value {
    match code {
        "None" => serde_json::json!({ "Code": code }),
        _ => serde_json::json!({ "Code": code, "Message": IN_CONFLICT }),
    }
}

/// The answer of a front end whose clock is `seconds` seconds ahead.
pub(crate) fn skewed(mut answer: HttpResponse, seconds: i64) -> HttpResponse {
    let date = answer.headers().get("date");
    let date = date.and_then(|date| DateTime::from_str(date, Format::HttpDate).ok());
    let date = date.filter(|_| seconds != 0);
    if let Some(date) = date.and_then(|date| text(date.secs().saturating_add(seconds))) {
        answer.headers_mut().insert("date", date);
    }
    answer
}

/// A time since 1970 in whole seconds, as HTTP writes it.
fn date(now: Duration) -> Option<String> {
    text(i64::try_from(now.as_secs()).ok()?)
}

fn text(seconds: i64) -> Option<String> {
    DateTime::from_secs(seconds).fmt(Format::HttpDate).ok()
}

fn request_id() -> String {
    static ANSWERED: AtomicU64 = AtomicU64::new(1);
    format!("{:052X}", ANSWERED.fetch_add(1, Ordering::Relaxed))
}
