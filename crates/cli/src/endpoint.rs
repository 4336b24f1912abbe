//! Where requests go: the host that the SDK chooses, what gave it, and the proxy on the way.

use std::sync::{Arc, OnceLock};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::types::AttributeValue;
use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use crate::environment::set;

/// The variables that name a proxy, by the scheme of the endpoint, in the order in which they count.
const OF_HTTPS: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const OF_HTTP: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// The scheme and host of requests.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint(Uri);

impl Endpoint {
    /// Asks the SDK where a request of this client for this table would go. Nothing is sent.
    pub(crate) async fn of(client: &Client, table: &str) -> Option<Endpoint> {
        let seen = Seen::default();
        // Any operation on the table will do. The key is not looked at.
        let request = client.get_item().table_name(table);
        let request = request.key("any", AttributeValue::Bool(true));
        let refused = request.customize().interceptor(seen.clone()).send().await;
        drop(refused);
        seen.0.get().and_then(|uri| uri.parse().ok()).map(Endpoint)
    }

    pub(crate) fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// The scheme, the host, and the port if it is not that of the scheme.
    pub(crate) fn url(&self) -> String {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let usual = if self.is_encrypted() { 443 } else { 80 };
        let host = self.host().to_ascii_lowercase();
        match self.0.port_u16().filter(|port| *port != usual) {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }

    /// Whether it is DynamoDB's own in this region, under any of its names.
    pub(crate) fn is_of_aws(&self, region: &str) -> bool {
        let labels = || self.host().split('.');
        let is_service = |label: &str| label.starts_with("dynamodb") || label.starts_with("ddb");
        self.is_encrypted() && labels().any(is_service) && labels().any(|label| label == region)
    }

    /// The proxy that requests go through, and the variable that names it.
    pub(crate) fn proxy(&self) -> Option<(String, &'static str)> {
        let proxy = Matcher::from_env().intercept(&self.0)?;
        let variables = if self.is_encrypted() {
            OF_HTTPS
        } else {
            OF_HTTP
        };
        let variable = variables.into_iter().find(|name| set(name).is_some())?;
        // The name and password that may stand in it are nobody's business.
        let (host, port) = (proxy.uri().host()?, proxy.uri().port_u16());
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        Some((format!("{host}{port}"), variable))
    }
}

/// Notes where a request would go, and ends it before it goes.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<OnceLock<String>>);

impl Intercept for Seen {
    fn name(&self) -> &'static str {
        "fairlock_cli::Seen"
    }

    fn read_before_signing(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let _ = self.0.set(context.request().uri().to_owned());
        Err("only its address was asked for".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamodb_is_known_by_each_of_its_names() {
        for (url, is_of_aws) in [
            ("https://dynamodb.eu-west-1.amazonaws.com/", true),
            ("https://dynamodb-fips.eu-west-1.amazonaws.com/", true),
            ("https://dynamodb.eu-west-1.api.aws/", true),
            ("https://123456789012.ddb.eu-west-1.amazonaws.com/", true),
            (
                "https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com/",
                true,
            ),
            ("https://dynamodb.eu-west-2.amazonaws.com/", false),
            ("https://locks.eu-west-1.example.org/", false),
            ("http://localhost:8000/", false),
        ] {
            let endpoint = Endpoint(url.parse().unwrap());
            assert_eq!(endpoint.is_of_aws("eu-west-1"), is_of_aws, "{url}");
        }
    }
}
