//! Transports that mislead their client. These planted mistakes are made in the transport, because no change to a request could make them.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use fairlock::embedded::Network;

/// Returns a client whose transport reports a connection that was closed without an answer as a refused request. The mistake: it takes a
/// request that may have been applied for one that was not.
pub(crate) fn takes_closed_for_refused(network: &Network) -> Client {
    client(network, Mistake::ClosedIsRefused)
}

/// Returns a client whose transport does not report which connection an answer came by, and keeps every connection. The mistake: it takes
/// two answers of one front end for two witnesses.
pub(crate) fn knows_no_connections(network: &Network) -> Client {
    client(network, Mistake::ConnectionsUnknown)
}

fn client(network: &Network, mistake: Mistake) -> Client {
    let config = network.client().config().to_builder();
    let careless = Careless(mistake, network.http_client());
    Client::from_conf(config.http_client(careless).build())
}

#[derive(Clone, Copy, Debug)]
enum Mistake {
    ClosedIsRefused,
    ConnectionsUnknown,
}

#[derive(Clone, Debug)]
struct Careless<T>(Mistake, T);

impl HttpClient for Careless<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let Careless(mistake, to) = self;
        SharedHttpConnector::new(Careless(*mistake, to.http_connector(settings, components)))
    }
}

impl HttpConnector for Careless<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Careless(mistake, to) = self;
        match mistake {
            Mistake::ClosedIsRefused => {
                let going = to.call(request);
                HttpConnectorFuture::new(async move {
                    match going.await {
                        Err(closed) if closed.as_other().is_some() => Ok(refusal()),
                        got => got,
                    }
                })
            }
            // A copy of the request lacks the extension through which the client learns the connection.
            Mistake::ConnectionsUnknown => to.call(request.try_clone().unwrap()),
        }
    }
}

fn refusal() -> HttpResponse {
    let said = r#"{"__type":"ValidationException","message":"the connection was closed"}"#;
    HttpResponse::new(400.try_into().unwrap(), SdkBody::from(said))
}
