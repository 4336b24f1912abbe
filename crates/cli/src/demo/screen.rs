//! Standard output, written to by a thread of its own: a slow reader holds up nobody else.

use std::io::{self, ErrorKind, Write, stdout};
use std::sync::mpsc::{Receiver, Sender, channel};

use signal_hook::consts::SIGPIPE;
use tokio::sync::oneshot;

use super::Stop;
use crate::failure::Failure;

pub(crate) struct Screen(Sender<String>);

/// The second resolves when all is written and the screen dropped, or with what made writing impossible.
pub(crate) fn open() -> (Screen, impl Future<Output = Result<(), Stop>>) {
    let (lines, shown) = channel();
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || tell.send(write(&shown)));
    let written = async {
        match told.await {
            Ok(Err(error)) => Err(unwritten(&error)),
            // The thread sends before it ends.
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    };
    (Screen(lines), written)
}

impl Screen {
    /// Without effect once writing has failed.
    pub(crate) fn show(&self, line: String) {
        let _ = self.0.send(line);
    }
}

fn write(lines: &Receiver<String>) -> io::Result<()> {
    let mut out = stdout();
    // Ends when the screen is dropped.
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// When nobody reads any more, that is not worth a word: `fairlock demo | head -1` is a way to use it.
fn unwritten(error: &io::Error) -> Stop {
    match error.kind() {
        ErrorKind::BrokenPipe => Stop::Signal(SIGPIPE),
        _ => Stop::Failed(Failure::unwritten(error)),
    }
}
