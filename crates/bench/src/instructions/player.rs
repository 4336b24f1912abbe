//! A transport that records the engine's answers to the two writes of a turn, and then plays them back.

use std::sync::{Arc, Mutex, MutexGuard};

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use serde_json::Value;

/// The length of every nonce.
const NONCE: usize = 32;

#[derive(Clone, Debug)]
pub(crate) struct Player {
    engine: SharedHttpClient,
    tape: Arc<Mutex<Tape>>,
}

/// The last request and answer of an enter and of a release.
#[derive(Debug, Default)]
struct Tape {
    plays: bool,
    turn: [Option<(String, Recorded)>; 2],
}

#[derive(Clone, Debug)]
struct Recorded {
    headers: Vec<(String, String)>,
    body: String,
}

#[derive(Clone, Debug)]
struct Wire {
    player: Player,
    engine: SharedHttpConnector,
}

impl Player {
    pub(crate) fn recording(engine: SharedHttpClient) -> Player {
        Player {
            engine,
            tape: Arc::default(),
        }
    }

    pub(crate) fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(self.clone())
    }

    /// Answers from the recording from now on.
    pub(crate) fn play(&self) {
        self.tape().plays = true;
    }

    /// The enter and the release.
    pub(crate) fn requests(&self) -> [Value; 2] {
        let tape = self.tape();
        tape.turn.each_ref().map(|played| {
            let (request, _) = played.as_ref().unwrap();
            serde_json::from_str(request).unwrap()
        })
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap()
    }
}

impl HttpClient for Player {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Wire {
            player: self.clone(),
            engine: self.engine.http_connector(settings, components),
        })
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap_or_default();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let played = self.player.tape().answer(&body);
        let wire = self.clone();
        HttpConnectorFuture::new(async move {
            match played {
                Some(played) => {
                    tokio::task::yield_now().await;
                    Ok(played)
                }
                None => wire.record(request, body).await,
            }
        })
    }
}

impl Wire {
    async fn record(
        self,
        request: HttpRequest,
        body: String,
    ) -> Result<HttpResponse, ConnectorError> {
        let answer = self.engine.call(request).await?;
        if body.contains("UpdateExpression") {
            let (step, recorded) = (step(&body), Recorded::of(&answer));
            self.player.tape().turn[step] = Some((body, recorded));
        }
        Ok(answer)
    }
}

impl Tape {
    fn answer(&self, request: &str) -> Option<HttpResponse> {
        let played = self.turn[step(request)].as_ref().filter(|_| self.plays);
        played.map(|(_, answer)| answer.to(request))
    }
}

impl Recorded {
    fn of(answer: &HttpResponse) -> Recorded {
        let headers = answer.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let body = answer.body().bytes().unwrap_or_default().to_vec();
        Recorded {
            headers: headers.collect(),
            body: String::from_utf8(body).unwrap(),
        }
    }

    /// The recorded answer, with this request's nonce in place of the recorded one.
    fn to(&self, request: &str) -> HttpResponse {
        let mut body = self.body.clone();
        if let (Some(there), Some(asked)) = (nonce(&self.body), nonce(request)) {
            // The ticket is stored under the nonce, too.
            let recorded = &self.body[there..there + NONCE];
            body = body.replace(recorded, &request[asked..asked + NONCE]);
        }
        let status = 200.try_into().unwrap();
        let mut answer = HttpResponse::new(status, SdkBody::from(body));
        for (name, value) in &self.headers {
            // This is the checksum of the recorded body, which may have another nonce.
            if name != "x-amz-crc32" {
                answer.headers_mut().insert(name.clone(), value.clone());
            }
        }
        answer
    }
}

/// Which write of a turn a request is: a release removes the first slot.
fn step(request: &str) -> usize {
    usize::from(request.contains("REMOVE #slots[0]"))
}

/// The position of the first nonce.
fn nonce(json: &str) -> Option<usize> {
    const BEFORE: &str = r#""nonce":{"S":""#;
    Some(json.find(BEFORE)? + BEFORE.len())
}
