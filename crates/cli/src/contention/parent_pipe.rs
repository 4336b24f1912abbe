//! The parent as a worker's process sees it, through the pipe that the parent keeps open.

use std::io::{BufRead, stdin};

use tokio::sync::oneshot;

/// Resolves with the parent's word to start. If the parent closes the pipe, also by dying, this process ends.
pub fn word() -> oneshot::Receiver<()> {
    let (start, word) = oneshot::channel();
    // Uses a thread, because reading from a pipe blocks. The thread ends with the process.
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
