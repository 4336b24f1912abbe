//! The SDK's transport: carries each request to the server and back as its fate says.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_smithy_types::retry::ErrorKind;
use tokio::time::Instant;

use crate::answer::{self, Answer};
use crate::connections::Connection;
use crate::engine::Engine;
use crate::fate::{Arrival, Ending, Fate};
use crate::network::{Far, Network};
use crate::request::{Exchange, Outcome, Request};
use crate::time::{System, WallClock};

/// A network in the form that the SDK expects.
#[derive(Debug)]
pub(crate) struct Line(pub(crate) Network);

/// A network with the settings of one client applied.
#[derive(Clone, Debug)]
struct Wire {
    network: Network,
    server: Server,
}

#[derive(Clone, Debug)]
enum Server {
    Engine(Engine),
    Http(SharedHttpConnector),
}

type Got = Result<HttpResponse, ConnectorError>;

impl HttpClient for Line {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let server = match self.0.far() {
            Far::Engine(engine) => Server::Engine(engine),
            Far::Http(http) => Server::Http(http.http_connector(settings, components)),
        };
        let network = self.0.clone();
        SharedHttpConnector::new(Wire { network, server })
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let wire = self.clone();
        HttpConnectorFuture::new(async move { wire.carry(request).await })
    }
}

impl Wire {
    async fn carry(self, http: HttpRequest) -> Got {
        let request = Arc::new(self.network.enter(taken(http).await?));
        let connection = self.connect(&request);
        let mut fate = self.network.fate(&request);
        let ahead = connection
            .as_ref()
            .map_or(0, |connection| self.network.ahead(connection));
        fate.skew = fate.skew.saturating_add(ahead);
        let stays_open = matches!(fate.ending, Ending::Answer | Ending::ServerError);
        let mut watch = Watch::begin(&self.network, &request);
        let got = match fate.is_plain() && self.server.is_immediate() {
            true => self.hand_over(&request).await,
            false => self.send(Arc::clone(&request), fate).await,
        };
        watch.end(&got);
        if let Some(connection) = connection.filter(|_| stays_open && got.is_ok()) {
            self.network.keep(connection);
        }
        got
    }

    /// The connection to an engine. Any other transport has connections of its own.
    fn connect(&self, request: &Request) -> Option<Connection> {
        let Server::Engine(_) = &self.server else {
            return None;
        };
        let connection = self.network.connect();
        if let Some(capture) = request.capture() {
            connection.shown_to(capture);
        }
        Some(connection)
    }

    /// Takes the short way, if nothing happens on it: the request is applied before its client could give up. Even so the answer does not
    /// come within the same poll. Otherwise clients that never wait for anything else would never let others run.
    async fn hand_over(&self, request: &Request) -> Got {
        let got = self.apply(request).await;
        tokio::task::yield_now().await;
        got
    }

    /// Takes the long way, as a task of its own: a sent request arrives, whether or not the client still waits.
    async fn send(&self, request: Arc<Request>, fate: Fate) -> Got {
        let wire = self.clone();
        let trip = spawn(async move { wire.round_trip(request, fate).await });
        match trip.await {
            Ok(Some(got)) => got,
            Ok(None) => pending().await,
            Err(stopped) => Err(ConnectorError::other(stopped.into(), None)),
        }
    }

    /// Goes there and back. Returns `None` if the client never hears of the request again.
    async fn round_trip(self, request: Arc<Request>, fate: Fate) -> Option<Got> {
        fate.go().await;
        let arrived = Instant::now();
        let got = self.arrive(&request, &fate).await;
        fate.come_back(arrived.elapsed()).await;
        let got = got.map(|answer| answer::skewed(answer, fate.skew));
        match fate.ending {
            Ending::Answer => Some(got),
            Ending::CutShort => Some(got.map(cut_short)),
            Ending::ServerError => Some(Ok(self.server.respond(Answer::server_error()))),
            Ending::Closed => Some(Err(closed())),
            Ending::Broken => Some(Err(broken())),
            Ending::Silence => None,
        }
    }

    async fn arrive(&self, request: &Arc<Request>, fate: &Fate) -> Got {
        match fate.arrival {
            Arrival::Refused(refusal) => return Ok(self.server.respond(refusal.answer(request))),
            Arrival::Applied | Arrival::Lost => self.repeat(request, fate.again),
        }
        match fate.arrival {
            Arrival::Lost => Err(broken()),
            _ => self.apply(request).await,
        }
    }

    /// Applies the request again, later; no client gets that answer.
    fn repeat(&self, request: &Arc<Request>, after: Option<Duration>) {
        let Some(after) = after else { return };
        let (wire, request) = (self.clone(), Arc::clone(request));
        spawn(async move {
            tokio::time::sleep(after).await;
            let _unheard = wire.apply(&request).await;
        });
    }

    async fn apply(&self, request: &Request) -> Got {
        let arrived = Instant::now();
        let got = self.server.apply(request).await;
        if let Some(observer) = self.network.server_observer() {
            observer(&Exchange {
                request,
                outcome: Outcome::of(&got),
                took: arrived.elapsed(),
            });
        }
        got
    }
}

impl Server {
    fn is_immediate(&self) -> bool {
        matches!(self, Server::Engine(engine) if engine.is_immediate())
    }

    async fn apply(&self, request: &Request) -> Got {
        match self {
            Server::Engine(engine) => {
                let operation = request.shared_operation();
                Ok(engine.answer(operation, request.bytes()).await)
            }
            Server::Http(http) => match request.http() {
                Some(copy) => whole(http.call(copy).await?).await,
                None => Err(ConnectorError::user("a body that streams".into())),
            },
        }
    }

    /// An answer that the server did not write itself.
    fn respond(&self, answer: Answer) -> HttpResponse {
        match self {
            Server::Engine(engine) => engine.respond(answer),
            Server::Http(_) => answer.into_http(Some(System.unix()), None),
        }
    }
}

/// The request with its body read to the end. Otherwise the SDK takes a silent server for a slow upload, and gives up.
async fn taken(mut request: HttpRequest) -> Result<HttpRequest, ConnectorError> {
    *request.body_mut() = read(request.take_body()).await?;
    Ok(request)
}

/// The answer with all of its body, so that its arrival is one moment.
async fn whole(mut response: HttpResponse) -> Got {
    *response.body_mut() = read(response.take_body()).await?;
    Ok(response)
}

async fn read(body: SdkBody) -> Result<SdkBody, ConnectorError> {
    let read = ByteStream::new(body).collect().await;
    let bytes = read.map_err(|error| ConnectorError::io(error.into()))?;
    Ok(SdkBody::from(bytes.into_bytes()))
}

/// Cuts an answer in half. A body that streams does not tell where it ends, and is gone altogether.
fn cut_short(mut response: HttpResponse) -> HttpResponse {
    let whole = response.body().bytes().unwrap_or_default();
    *response.body_mut() = SdkBody::from(whole[..whole.len() / 2].to_vec());
    response.headers_mut().remove("content-length");
    response
}

fn broken() -> ConnectorError {
    ConnectorError::io("connection reset by the network's faults".into())
}

/// The error that the SDK's transport makes of hyper's `IncompleteMessage`.
fn closed() -> ConnectorError {
    let closed = "connection closed before message completed";
    ConnectorError::other(closed.into(), Some(ErrorKind::TransientError))
}

#[expect(
    clippy::disallowed_methods,
    reason = "not work of a client: what is under way on a network goes on without its sender"
)]
fn spawn<T: Send + 'static>(
    trip: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(trip)
}

/// Tells the observer once how a request ended. If it is dropped before that, it reports that the client gave up.
struct Watch {
    network: Network,
    request: Arc<Request>,
    sent: Instant,
    ended: bool,
}

impl Watch {
    fn begin(network: &Network, request: &Arc<Request>) -> Watch {
        Watch {
            network: network.clone(),
            request: Arc::clone(request),
            sent: Instant::now(),
            ended: false,
        }
    }

    fn end(&mut self, got: &Got) {
        self.ended = true;
        self.tell(|| Outcome::of(got));
    }

    fn tell(&self, outcome: impl FnOnce() -> Outcome) {
        if let Some(observer) = self.network.observer() {
            observer(&Exchange {
                request: &self.request,
                outcome: outcome(),
                took: self.sent.elapsed(),
            });
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(|| Outcome::Abandoned);
        }
    }
}
