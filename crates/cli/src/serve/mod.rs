//! `fairlock serve`: the embedded engine behind HTTP, for tests of programs in any language and of several processes.

mod answer;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use fairlock::embedded::Engine;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::serve::Serve;
use crate::failure::{Failure, killed_by, say};
use crate::local_file::{self, FileSystems, Purpose};
use crate::output;
use crate::signals;
use answer::Desk;

/// A server in JSON, by the schema in `json.md`.
#[derive(Serialize)]
struct Serving<'a> {
    url: &'a str,
    file: Option<PathBuf>,
}

pub(crate) fn serve(options: Serve) -> Result<ExitCode, Failure> {
    let signals = signals::endings()?;
    crate::on_runtime(until_the_end(options, signals))
}

async fn until_the_end(
    options: Serve,
    mut signals: UnboundedReceiver<i32>,
) -> Result<ExitCode, Failure> {
    let engine = tokio::select! {
        biased;
        Some(number) = signals.recv() => return Ok(ExitCode::from(killed_by(number))),
        engine = engine(&options) => engine?,
    };
    let listener = listen(&options).await?;
    tell(&options, &listener)?;
    let desk = Desk {
        engine,
        is_logged: options.log,
    };
    server::serve(listener, desk, signals).await;
    Ok(ExitCode::SUCCESS)
}

async fn engine(options: &Serve) -> Result<Engine, Failure> {
    match &options.local {
        Some(file) => {
            let file_systems = FileSystems::insisted(options.any_filesystem);
            local_file::engine(file, Purpose::Make, file_systems).await
        }
        None => {
            Engine::memory().map_err(|error| Failure::internal(format!("cannot start: {error}")))
        }
    }
}

async fn listen(options: &Serve) -> Result<TcpListener, Failure> {
    let at = options.listen;
    let listener = TcpListener::bind(at).await;
    listener.map_err(|error| {
        Failure::unavailable(format!(
            "cannot listen at {at}: {error}: name another address by --listen, such as 127.0.0.1:0 for any free port"
        ))
    })
}

/// Prints the address, which a script waits for, and then what people should know of such a server.
fn tell(options: &Serve, listener: &TcpListener) -> Result<(), Failure> {
    let at = listener.local_addr();
    let at = at.map_err(|error| Failure::internal(format!("cannot listen: {error}")))?;
    let url = format!("http://{at}");
    let line = match options.json {
        true => output::json_line(&Serving {
            url: &url,
            file: options.local.clone(),
        })?,
        false => format!("{url}\n"),
    };
    // A reader that has gone is no reason to end: the address may be known.
    let _ = output::print(&line)?;
    let tables = match &options.local {
        Some(file) => format!("its tables are in {}", file.display()),
        None => "its tables are in memory, and end with it".into(),
    };
    say(&format!(
        "for tests only: nothing authenticates a client, and {tables}"
    ));
    if !at.ip().is_loopback() {
        say(&format!(
            "every host that reaches {at} may read and write the tables"
        ));
    }
    Ok(())
}
