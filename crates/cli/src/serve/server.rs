//! Accepts connections and serves each until it ends. None of them waits for another one.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use super::answer::Desk;

/// How long a client may take to send the head of a request. It counts from the end of the request before, too.
const HEAD_WITHIN: Duration = Duration::from_secs(60);
/// How long the answers under way may take when a signal has come.
const PARTING: Duration = Duration::from_secs(2);
/// How long the server accepts no connection when it could not, because the process may open no more files, for example.
const PAUSE: Duration = Duration::from_millis(100);

type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves until a signal comes. Then the server closes idle connections, and the others when their answers are sent.
pub(super) async fn serve(listener: TcpListener, desk: Desk, mut signals: UnboundedReceiver<i32>) {
    let ending = GracefulShutdown::new();
    let mut connections: FuturesUnordered<Connection> = FuturesUnordered::new();
    // The loop ends with a signal.
    loop {
        tokio::select! {
            biased;
            Some(_) = signals.recv() => break,
            Some(()) = connections.next() => {}
            accepted = accept(&listener) => connections.push(connection(accepted, &desk, &ending)),
        }
    }
    drop(listener);
    let mut ended = pin!(ending.shutdown());
    let mut late = pin!(sleep(PARTING));
    // The loop ends with the last connection, with the time, or with a second signal.
    loop {
        tokio::select! {
            biased;
            Some(_) = signals.recv() => return,
            () = &mut late => return,
            Some(()) = connections.next() => {}
            () = &mut ended => return,
        }
    }
}

/// Accepts the next connection. The loop ends when there is one.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Serves one connection to its end. How it ends is its client's matter.
fn connection(stream: TcpStream, desk: &Desk, ending: &GracefulShutdown) -> Connection {
    // Answers are small, and each is waited for.
    let _ = stream.set_nodelay(true);
    let desk = desk.clone();
    let service = service_fn(move |request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    let connection = ending.watch(connection);
    Box::pin(async move {
        let _ended = connection.await;
    })
}
