//! Writes standard output in a thread of its own, so that a slow reader holds up nothing else.

use std::io::{self, ErrorKind, Write, stdout};
use std::sync::mpsc::{Receiver, Sender, channel};

use signal_hook::consts::SIGPIPE;
use tokio::sync::oneshot;

use super::Stop;
use crate::failure::Failure;

pub(crate) struct Screen(Sender<String>);

/// Opens the screen. The future resolves when the screen is dropped and all is written, or with the reason why writing failed.
pub(crate) fn open() -> (Screen, impl Future<Output = Result<(), Stop>>) {
    let (lines, shown) = channel();
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || tell.send(write(&shown)));
    let written = async {
        match told.await {
            Ok(Err(error)) => Err(unwritten(&error)),
            // The channel cannot be closed without a result, because the thread sends one before it ends.
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    };
    (Screen(lines), written)
}

impl Screen {
    /// Shows a line. Has no effect once writing has failed.
    pub(crate) fn show(&self, line: String) {
        let _ = self.0.send(line);
    }
}

fn write(lines: &Receiver<String>) -> io::Result<()> {
    let mut out = stdout();
    // The loop ends when the screen is dropped.
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// A closed pipe stops the demo without a message: `fairlock demo | head -1` is a valid use.
fn unwritten(error: &io::Error) -> Stop {
    match error.kind() {
        ErrorKind::BrokenPipe => Stop::Signal(SIGPIPE),
        _ => Stop::Failed(Failure::unwritten(error)),
    }
}
