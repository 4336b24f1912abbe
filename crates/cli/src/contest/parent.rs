//! The parent, as a worker's process knows it: by the pipe that it keeps open.

use std::io::{BufRead, stdin};

use tokio::sync::oneshot;

/// Resolves with the parent's word to start. When the parent closes the pipe, by dying too, this process ends.
pub fn word() -> oneshot::Receiver<()> {
    let (start, word) = oneshot::channel();
    // A thread, for reading from a pipe blocks; it ends with the process.
    std::thread::spawn(move || {
        let mut lines = stdin().lock().lines();
        if let Some(Ok(_)) = lines.next() {
            let _ = start.send(());
        }
        lines.for_each(drop);
        std::process::exit(1);
    });
    word
}
