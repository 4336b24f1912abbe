//! A server that lets an engine answer, and does to its connections what it is told.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::DateTime;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::date_time::Format;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::Stream;

/// What is written of the answer before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// None of it.
    Nothing,
    /// Half of the status and the headers.
    HalfTheHead,
    /// Status and headers.
    TheHead,
    /// Status, headers and half of the body.
    HalfTheBody,
    /// Bytes that are no HTTP, in place of the answer.
    Rubbish,
    /// All of it.
    Whole,
}

/// How the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// FIN, and no farewell of TLS.
    Close,
    /// RST.
    Reset,
    /// The server says that it writes no more, and reads on.
    HalfClose,
    /// The server says nothing more, and stays.
    Stall,
}

/// What befalls a request.
#[derive(Clone, Copy, Debug)]
pub struct Blow {
    /// Whether the engine gets the request before that.
    pub is_applied: bool,
    /// What is written of the answer.
    pub part: Part,
    /// What comes after it.
    pub end: End,
}

impl Part {
    /// The parts in which an answer is not whole.
    pub const ALL: [Part; 5] = [
        Part::Nothing,
        Part::HalfTheHead,
        Part::TheHead,
        Part::HalfTheBody,
        Part::Rubbish,
    ];

    fn of(self, answer: &Answer) -> Vec<u8> {
        let Answer { head, body } = answer;
        match self {
            Part::Nothing => Vec::new(),
            Part::HalfTheHead => head[..head.len() / 2].to_vec(),
            Part::TheHead => head.clone(),
            Part::HalfTheBody => [head, &body[..body.len() / 2]].concat(),
            Part::Rubbish => b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec(),
            Part::Whole => [&head[..], body].concat(),
        }
    }
}

impl End {
    /// Every ending.
    pub const ALL: [End; 4] = [End::Close, End::Reset, End::HalfClose, End::Stall];

    async fn of(self, mut stream: impl Stream) -> io::Result<()> {
        match self {
            End::Close => Ok(()),
            End::Reset => stream.tcp().set_zero_linger(),
            End::HalfClose => {
                stream.shutdown().await?;
                stream.read_to_end(&mut Vec::new()).await.map(drop)
            }
            End::Stall => stream.read_to_end(&mut Vec::new()).await.map(drop),
        }
    }
}

/// The transport of the clients. It lets the SDK make the way to the engine too, which the server takes.
#[derive(Clone, Debug)]
pub struct Tap {
    engine: SharedHttpClient,
    real: SharedHttpClient,
    far: Far,
}

type Far = Arc<OnceLock<SharedHttpConnector>>;

impl Tap {
    /// Leads from a client's transport to the engine's.
    pub fn new(engine: SharedHttpClient, real: SharedHttpClient) -> Tap {
        Tap {
            engine,
            real,
            far: Far::default(),
        }
    }

    /// The way to the engine, which the server takes.
    pub fn far(&self) -> Far {
        Arc::clone(&self.far)
    }
}

impl HttpClient for Tap {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let far = || self.engine.http_connector(settings, components);
        self.far.get_or_init(far);
        self.real.http_connector(settings, components)
    }
}

/// Listens on a port of this machine until it is dropped.
pub struct Server {
    port: u16,
    state: Arc<Mutex<State>>,
    struck: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// Of the requests that contain this text, the first meets the blow, or all do.
    plan: Option<(&'static str, Blow)>,
    strikes_all: bool,
    is_struck: bool,
    is_shut: bool,
    requests: usize,
    /// Connections that were accepted.
    connections: usize,
    /// By how many seconds the clock behind each connection is ahead, in the order of the connections. Zero for all later connections.
    ahead: Vec<i64>,
}

#[derive(Clone)]
struct Desk {
    state: Arc<Mutex<State>>,
    struck: Arc<Notify>,
    far: Far,
}

struct Answer {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Server {
    /// Starts the server, with TLS if there is an acceptor.
    #[expect(clippy::disallowed_methods, reason = "the server's tasks")]
    pub async fn start(acceptor: Option<TlsAcceptor>, far: Far) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, struck) = (Arc::<Mutex<State>>::default(), Arc::new(Notify::new()));
        let desk = Desk {
            state: Arc::clone(&state),
            struck: Arc::clone(&struck),
            far,
        };
        tokio::spawn(async move {
            // Ends with the test's runtime.
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(desk.clone().receive(stream, acceptor.clone()));
            }
        });
        Server {
            port,
            state,
            struck,
        }
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lets the next request that contains this text meet the blow.
    pub fn strike(&self, clause: &'static str, blow: Blow) {
        self.state().plan = Some((clause, blow));
    }

    /// Lets all requests that contain this text meet the blow.
    pub fn strike_all(&self, clause: &'static str, blow: Blow) {
        self.strike(clause, blow);
        self.state().strikes_all = true;
    }

    /// Answers every request again.
    pub fn strike_no_more(&self) {
        self.state().plan = None;
    }

    /// Waits until a request has met the blow.
    pub async fn was_struck(&self) {
        self.struck.notified().await;
    }

    /// Whether a request has met the blow.
    pub fn is_struck(&self) -> bool {
        self.state().is_struck
    }

    /// How many requests were read in whole.
    pub fn requests(&self) -> usize {
        self.state().requests
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// Sets by how many seconds the clocks of the front ends behind the next connections are ahead.
    pub fn next_are_ahead(&self, ahead: &[i64]) {
        let mut state = self.state();
        let accepted = state.connections;
        state.ahead.resize(accepted, 0);
        state.ahead.extend(ahead);
    }

    /// Ends every connection as soon as it is there, before any handshake, from now on.
    pub fn shuts(&self) {
        self.state().is_shut = true;
    }

    /// Answers again.
    pub fn opens(&self) {
        self.state().is_shut = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Desk {
    /// Serves a connection, however it ends: the client's part of it is what counts.
    async fn receive(self, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        if self.state.lock().unwrap().is_shut {
            return;
        }
        let ahead = self.accepted();
        let _ended = match acceptor {
            None => self.serve(stream, ahead).await,
            Some(acceptor) => match acceptor.accept(stream).await {
                Ok(stream) => self.serve(stream, ahead).await,
                Err(failed) => Err(failed),
            },
        };
    }

    /// By how many seconds the clock behind the connection is ahead.
    fn accepted(&self) -> i64 {
        let mut state = self.state.lock().unwrap();
        state.connections += 1;
        let ahead = state.ahead.get(state.connections - 1);
        ahead.copied().unwrap_or_default()
    }

    /// Answers one request after the other on a connection, until one meets a blow or the client closes it.
    async fn serve(self, mut stream: impl Stream, ahead: i64) -> io::Result<()> {
        while let Some((head, body)) = request(&mut stream).await? {
            let blow = self.blow(&body);
            let is_applied = blow.is_none_or(|blow| blow.is_applied);
            let answer = match is_applied {
                true => self.apply(&head, &body, ahead).await,
                false => Answer::to_nothing(),
            };
            let part = blow.map_or(Part::Whole, |blow| blow.part);
            stream.write_all(&part.of(&answer)).await?;
            stream.flush().await?;
            if let Some(blow) = blow {
                self.struck.notify_one();
                return blow.end.of(stream).await;
            }
        }
        Ok(())
    }

    fn blow(&self, body: &[u8]) -> Option<Blow> {
        let mut state = self.state.lock().unwrap();
        state.requests += 1;
        let text = String::from_utf8_lossy(body);
        let (_, blow) = state.plan.filter(|(clause, _)| text.contains(clause))?;
        state.is_struck = true;
        if !state.strikes_all {
            state.plan = None;
        }
        Some(blow)
    }

    async fn apply(&self, head: &str, body: &[u8], ahead: i64) -> Answer {
        let mut request = HttpRequest::new(SdkBody::from(body.to_vec()));
        request.set_method("POST").unwrap();
        request.set_uri("http://localhost/").unwrap();
        for line in head.lines().skip(1) {
            if let Some((name, value)) = line.split_once(": ") {
                let headers = request.headers_mut();
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
        }
        let engine = self.far.get().unwrap();
        Answer::of(&engine.call(request).await.unwrap(), ahead)
    }
}

impl Answer {
    fn of(response: &HttpResponse, ahead: i64) -> Answer {
        let body = response.body().bytes().unwrap().to_vec();
        let mut head = format!("HTTP/1.1 {} Said\r\n", response.status().as_u16());
        let headers = response.headers().iter();
        for (name, value) in headers.filter(|(name, _)| *name != "content-length") {
            match name {
                "date" => head.push_str(&format!("date: {}\r\n", later(value, ahead))),
                _ => head.push_str(&format!("{name}: {value}\r\n")),
            }
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        Answer {
            head: head.into_bytes(),
            body,
        }
    }

    /// An answer that looks like that to an applied request, and of which no part tells anything.
    fn to_nothing() -> Answer {
        let body = br#"{"Attributes": {}}"#.to_vec();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            2 * body.len()
        );
        Answer {
            head: head.into_bytes(),
            body,
        }
    }
}

fn later(date: &str, seconds: i64) -> String {
    let date = DateTime::from_str(date, Format::HttpDate).unwrap();
    let later = DateTime::from_secs(date.secs() + seconds);
    later.fmt(Format::HttpDate).unwrap()
}

/// Returns the head and the body of the next request, or `None` if the client closed the connection before it.
async fn request(stream: &mut impl Stream) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    };
    let mut body = read.split_off(end + 4);
    let head = String::from_utf8_lossy(&read).into_owned();
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
    // Ends with the body, or with the connection.
    while body.len() < length.unwrap_or(0) {
        if stream.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some((head, body)))
}
