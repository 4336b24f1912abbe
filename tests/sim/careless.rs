//! Transports that mislead their client. These planted mistakes are made in the transport, because no change to a request could make them.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use fairlock::embedded::Network;
use serde_json::Value;

use crate::gossip::{Believes, Heard};

/// What a client's transport does wrong.
#[derive(Clone, Debug)]
pub(crate) enum Mistake {
    /// It reports a connection that was closed without an answer as a refused request. The client takes a request that may have been applied
    /// for one that was not.
    ClosedIsRefused,
    /// It shows this stamp of all entries as if it were of long ago, except for those of its client, by their owner. The client judges by
    /// the other clock alone.
    Overlooks(&'static str, String),
    /// It shows what the host at this address heard by notifications as if the table showed it.
    Believes(Believes, String, Arc<Mutex<Heard>>),
}

pub(crate) fn client(network: &Network, mistake: Mistake) -> Client {
    let config = network.client().config().to_builder();
    let careless = Careless(mistake, network.http_client());
    Client::from_conf(config.http_client(careless).build())
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
        let connector = to.http_connector(settings, components);
        SharedHttpConnector::new(Careless(mistake.clone(), connector))
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
            Mistake::Overlooks(stamp, own) => {
                let (stamp, own) = (*stamp, own.clone());
                shows(to.call(request), move |shown| {
                    overlook(shown, stamp, &own);
                })
            }
            Mistake::Believes(what, own, heard) => {
                let (what, own, heard) = (*what, own.clone(), heard.clone());
                shows(to.call(request), move |shown| {
                    what.show(shown, &own, &mut heard.lock().unwrap());
                })
            }
        }
    }
}

/// Changes what the answer shows.
fn shows(
    going: HttpConnectorFuture,
    change: impl FnOnce(&mut Value) + Send + 'static,
) -> HttpConnectorFuture {
    HttpConnectorFuture::new(async move {
        let mut answer = going.await?;
        let body = answer.body().bytes();
        let shown = body.and_then(|body| serde_json::from_slice(body).ok());
        if let Some(mut shown) = shown {
            change(&mut shown);
            answer.headers_mut().remove("content-length");
            *answer.body_mut() = SdkBody::from(shown.to_string());
        }
        Ok(answer)
    })
}

fn overlook(shown: &mut Value, stamp: &str, own: &str) {
    match shown {
        Value::Object(map) => {
            let is_anothers = map.get("owner").is_some_and(|owner| owner["S"] != own);
            if let Some(at) = map.get_mut(stamp).filter(|_| is_anothers) {
                at["N"] = "1".into();
            }
            map.values_mut().for_each(|it| overlook(it, stamp, own));
        }
        Value::Array(all) => all.iter_mut().for_each(|it| overlook(it, stamp, own)),
        _ => {}
    }
}

fn refusal() -> HttpResponse {
    let said = r#"{"__type":"ValidationException","message":"the connection was closed"}"#;
    HttpResponse::new(400.try_into().unwrap(), SdkBody::from(said))
}
