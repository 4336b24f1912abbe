//! A request on a network, and what its client got for it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_smithy_runtime_api::client::connection::CaptureSmithyConnection;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use serde_json::Value;

/// A request as it goes out: what a script decides on, and an observer records.
///
/// # Examples
///
/// A script that loses the third request that mentions one lock:
///
/// ```
/// # fn main() -> Result<(), fairlock_embedded::EngineError> {
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use fairlock_embedded::{Engine, Fault, Network, Request, When};
///
/// let seen = AtomicU32::new(0);
/// let third = move |request: &Request| {
///     let nth = request.mentions("account/42").then(|| seen.fetch_add(1, Ordering::Relaxed));
///     (nth == Some(2)).then_some(Fault::Lose(When::Before))
/// };
/// let network = Network::to(&Engine::memory()?).script(third);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Request {
    number: u64,
    operation: Arc<str>,
    bytes: Arc<[u8]>,
    body: OnceLock<Value>,
    http: HttpRequest,
}

impl Request {
    pub(crate) fn read(number: u64, http: HttpRequest) -> Request {
        let target = http.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        Request {
            number,
            operation: Arc::from(operation),
            bytes: Arc::from(http.body().bytes().unwrap_or_default()),
            body: OnceLock::new(),
            http,
        }
    }

    /// Returns the request with its body changed, if that is JSON.
    pub(crate) fn rewritten(
        number: u64,
        mut http: HttpRequest,
        rewrite: impl FnOnce(&mut Value),
    ) -> Request {
        let bytes = http.body().bytes().unwrap_or_default();
        if let Ok(mut body) = serde_json::from_slice(bytes) {
            rewrite(&mut body);
            let bytes = body.to_string();
            http.headers_mut()
                .insert("content-length", bytes.len().to_string());
            *http.body_mut() = SdkBody::from(bytes);
        }
        Request::read(number, http)
    }

    /// Returns its number among all requests of its network, counted from 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::Request;
    ///
    /// fn is_first(request: &Request) -> bool {
    ///     request.number() == 1
    /// }
    /// ```
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the operation that it asks for, such as `"UpdateItem"`.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::Request;
    ///
    /// fn is_update(request: &Request) -> bool {
    ///     request.operation() == "UpdateItem"
    /// }
    /// ```
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// Returns the table that it names, if it names a single table.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::Request;
    ///
    /// fn is_ours(request: &Request) -> bool {
    ///     request.table() == Some("locks")
    /// }
    /// ```
    pub fn table(&self) -> Option<&str> {
        self.body()["TableName"].as_str()
    }

    /// Returns the text of a key attribute, or of an attribute of an item to be put, if it is a string or a number. The names are the
    /// table's own: for a table of locks, the partition key is `pk` and the sort key `sk` unless configured otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::Request;
    ///
    /// fn is_about(request: &Request, lock: &str) -> bool {
    ///     request.key("pk") == Some(lock)
    /// }
    /// ```
    pub fn key(&self, attribute: &str) -> Option<&str> {
        let body = self.body();
        let mut values = ["Key", "Item"].iter().map(|part| &body[part][attribute]);
        values.find_map(|value| value["S"].as_str().or_else(|| value["N"].as_str()))
    }

    /// Whether this text is among the values in its body: in a key, in an item, or given to an expression.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::Request;
    ///
    /// fn is_query_of(request: &Request, lock: &str) -> bool {
    ///     request.operation() == "Query" && request.mentions(lock)
    /// }
    /// ```
    pub fn mentions(&self, text: &str) -> bool {
        contains(self.body(), text)
    }

    /// Returns its body, or null if the body is not JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::Request;
    ///
    /// fn is_conditional(request: &Request) -> bool {
    ///     request.body()["ConditionExpression"].is_string()
    /// }
    /// ```
    pub fn body(&self) -> &Value {
        self.body
            .get_or_init(|| serde_json::from_slice(&self.bytes).unwrap_or_default())
    }

    /// How many items it may write.
    pub(crate) fn writes(&self) -> u64 {
        match self.operation() {
            "PutItem" | "UpdateItem" | "DeleteItem" => 1,
            "BatchWriteItem" => self.batch(|table| table),
            "TransactWriteItems" => length(&self.body()["TransactItems"]),
            _ => 0,
        }
    }

    /// How many items it writes all together or not at all, or `None` if it is no such transaction.
    pub(crate) fn transaction(&self) -> Option<usize> {
        let items = &self.body()["TransactItems"];
        let items = (self.operation() == "TransactWriteItems").then_some(items);
        items.and_then(Value::as_array).map(Vec::len)
    }

    /// How many items it asks for.
    pub(crate) fn reads(&self) -> u64 {
        match self.operation() {
            "GetItem" | "Query" | "Scan" => 1,
            "BatchGetItem" => self.batch(|table| &table["Keys"]),
            "TransactGetItems" => length(&self.body()["TransactItems"]),
            _ => 0,
        }
    }

    fn batch(&self, items: impl Fn(&Value) -> &Value) -> u64 {
        let tables = self.body()["RequestItems"].as_object();
        let tables = tables.into_iter().flat_map(|tables| tables.values());
        tables.map(|table| length(items(table))).sum()
    }

    pub(crate) fn shared_operation(&self) -> &Arc<str> {
        &self.operation
    }

    pub(crate) fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// A copy of the request, whose transport tells the SDK of its connection.
    pub(crate) fn http(&self) -> Option<HttpRequest> {
        let mut copy = self.http.try_clone()?;
        if let Some(capture) = self.capture() {
            copy.add_extension(capture.clone());
        }
        Some(copy)
    }

    /// Where the SDK asks over which connection the request went.
    pub(crate) fn capture(&self) -> Option<&CaptureSmithyConnection> {
        self.http.extension()
    }
}

/// A request, and what its client got for it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock_embedded::{Engine, Network};
///
/// let network = Network::to(&Engine::memory()?).observe(|exchange| {
///     let request = exchange.request();
///     println!("{} {} {:?}", request.number(), request.operation(), exchange.outcome());
/// });
/// network.client().list_tables().send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Exchange<'a> {
    pub(crate) request: &'a Request,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
}

/// What a client got for a request.
///
/// # Examples
///
/// ```
/// use fairlock_embedded::Outcome;
///
/// fn certainly_refused(outcome: &Outcome) -> bool {
///     matches!(outcome, Outcome::Answered { status: 400..500, .. })
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// An answer, good or bad.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The body, or null if it is not JSON.
        body: Value,
    },
    /// A broken connection.
    Broken,
    /// Nothing, because the client waited no longer: a time-out, or its future was dropped.
    Abandoned,
}

impl Exchange<'_> {
    /// Returns the request.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::Exchange;
    ///
    /// fn is_update(exchange: &Exchange<'_>) -> bool {
    ///     exchange.request().operation() == "UpdateItem"
    /// }
    /// ```
    pub fn request(&self) -> &Request {
        self.request
    }

    /// Returns what the client got.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Exchange, Outcome};
    ///
    /// fn is_ambiguous(exchange: &Exchange<'_>) -> bool {
    ///     matches!(exchange.outcome(), Outcome::Broken | Outcome::Abandoned | Outcome::Answered { status: 500.., .. })
    /// }
    /// ```
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Returns how long the client waited, on tokio's clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use fairlock_embedded::Exchange;
    ///
    /// fn is_slow(exchange: &Exchange<'_>) -> bool {
    ///     exchange.took() > Duration::from_millis(100)
    /// }
    /// ```
    pub fn took(&self) -> Duration {
        self.took
    }
}

impl Outcome {
    pub(crate) fn of<E>(got: &Result<HttpResponse, E>) -> Outcome {
        match got {
            Err(_) => Outcome::Broken,
            Ok(response) => Outcome::Answered {
                status: response.status().as_u16(),
                body: parsed(response.body().bytes().unwrap_or_default()),
            },
        }
    }
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

fn length(list: &Value) -> u64 {
    list.as_array().map_or(0, |items| items.len() as u64)
}

fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found == text,
        Value::Array(values) => values.iter().any(|value| contains(value, text)),
        Value::Object(fields) => fields.values().any(|value| contains(value, text)),
        _ => false,
    }
}
