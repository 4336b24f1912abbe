//! A transport that says of a connection that was closed without an answer that the request was refused: the mistake of a
//! client that takes what may have been applied for what was not.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use fairlock::embedded::Network;

/// A client on this network that makes the mistake.
pub(crate) fn taken_for_refused(network: &Network) -> Client {
    let config = network.client().config().to_builder();
    let careless = Careless(network.http_client());
    Client::from_conf(config.http_client(careless).build())
}

#[derive(Clone, Debug)]
struct Careless<T>(T);

impl HttpClient for Careless<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Careless(self.0.http_connector(settings, components)))
    }
}

impl HttpConnector for Careless<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let going = self.0.call(request);
        HttpConnectorFuture::new(async move {
            match going.await {
                Err(closed) if closed.as_other().is_some() => Ok(refusal()),
                got => got,
            }
        })
    }
}

fn refusal() -> HttpResponse {
    let said = r#"{"__type":"ValidationException","message":"the connection was closed"}"#;
    HttpResponse::new(400.try_into().unwrap(), SdkBody::from(said))
}
