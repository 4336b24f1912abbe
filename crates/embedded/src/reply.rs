//! The engine's answer to a request that came by another way than the SDK.

use std::sync::Arc;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use crate::engine::Engine;

/// An answer as DynamoDB gives it over HTTP: a status, headers and a body of JSON.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock_embedded::{Engine, Reply};
///
/// let reply: Reply = Engine::memory()?.reply_to("Dance", b"{}").await;
/// assert_eq!(reply.status(), 400);
/// assert!(reply.body().starts_with(b"{"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reply(HttpResponse);

impl Engine {
    /// Answers one request of DynamoDB's protocol, for a server that received it. `operation` is the part of the header `X-Amz-Target` behind
    /// the dot, such as `"GetItem"`, and `body` is the JSON of the request. Any failure is an answer too, with DynamoDB's status and text.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a request to a file may be applied all the same. A request to an engine in memory is applied at the first
    /// poll.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = fairlock_embedded::Engine::memory()?;
    /// let reply = engine.reply_to("ListTables", b"{}").await;
    /// assert_eq!((reply.status(), reply.body()), (200, &br#"{"TableNames":[]}"#[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reply_to(&self, operation: &str, body: &[u8]) -> Reply {
        let (operation, body) = (Arc::from(operation), Arc::from(body));
        Reply(self.answer(&operation, &body).await)
    }
}

impl Reply {
    /// Returns the HTTP status.
    ///
    /// # Examples
    ///
    /// ```
    /// fn is_done(reply: &fairlock_embedded::Reply) -> bool {
    ///     reply.status() == 200
    /// }
    /// ```
    pub fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    /// Returns the names, in lower case, and the values of the headers. The length of the body is not among them.
    ///
    /// # Examples
    ///
    /// ```
    /// fn date(reply: &fairlock_embedded::Reply) -> Option<&str> {
    ///     reply.headers().find_map(|(name, value)| (name == "date").then_some(value))
    /// }
    /// ```
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.0.headers().iter();
        headers.filter(|(name, _)| *name != "content-length")
    }

    /// Returns the JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// fn text(reply: &fairlock_embedded::Reply) -> std::borrow::Cow<'_, str> {
    ///     String::from_utf8_lossy(reply.body())
    /// }
    /// ```
    pub fn body(&self) -> &[u8] {
        self.0.body().bytes().unwrap_or_default()
    }
}
