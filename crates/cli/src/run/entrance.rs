//! Lets commands that start at once on one file of locks start one after the other.
//!
//! Starting a command takes more processor time than anything that follows, and many starts at once take all processors. A waiter then
//! notices its turn late and starts its command late, though no other process is in its way. So each command waits here until the commands
//! before it have joined the queue. No guarantee depends on this, and a command skips it if it would take long.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Over, stop_waiting, wait_limit};
use crate::args::Run;
use crate::failure::say;
use crate::local_file;
use crate::signals::Caught;

/// A command that is held up here for longer prints a message. A hundred commands that start at once take about this long.
const LONG: Duration = Duration::from_secs(2);
/// How long a command lets others start first, at most.
const SOON: Duration = Duration::from_secs(5);

/// Lets the next command start when it is dropped. A command that finds no file there starts at once, and creates the file.
#[derive(Default)]
pub(super) struct Entrance(#[expect(dead_code, reason = "dropped in time")] Option<Passage>);

impl Entrance {
    /// Waits for the entrance. Fails if a signal ends the wait.
    pub(super) async fn of(
        options: &Run,
        signals: &mut UnboundedReceiver<Caught>,
    ) -> Result<Entrance, Over> {
        let file = options.location.local.as_deref();
        let Some(passage) = file.and_then(Passage::of) else {
            return Ok(Entrance(None));
        };
        if passage.0.try_lock().is_ok() {
            return Ok(Entrance(Some(passage)));
        }
        let (tell, mut told) = oneshot::channel();
        // A thread cannot give up waiting for a file lock. So if it takes too long, the thread is left behind.
        let waits = std::thread::Builder::new().spawn(move || {
            let _ = passage.0.lock();
            tell.send(passage)
        });
        if waits.is_err() {
            return Ok(Entrance(None));
        }
        // At most half of the wait is spent here, so that some is left for the queue.
        let bound = SOON.min(wait_limit(options.claim.wait) / 2);
        let (mut over, mut long) = (pin!(sleep(bound)), pin!(sleep(LONG)));
        let mut is_told = options.claim.quiet;
        // Each iteration but the last is a signal that changes nothing, or the message about the delay.
        loop {
            tokio::select! {
                biased;
                entered = &mut told => return Ok(Entrance(entered.ok())),
                Some(caught) = signals.recv() => stop_waiting(caught)?,
                () = &mut over => return Ok(Entrance(None)),
                () = &mut long, if !is_told => {
                    let file = options.location.engine();
                    say(&format!("lets others come in at {file} first (`lslocks` says who has it locked); goes on soon"));
                    is_told = true;
                }
            }
        }
    }
}

/// A lock on the file itself, of a kind that SQLite does not use.
struct Passage(ManuallyDrop<File>);

impl Passage {
    fn of(file: &Path) -> Option<Passage> {
        // Opening a pipe would block until a writer opens it.
        let is_file = std::fs::metadata(file).is_ok_and(|found| found.is_file());
        let opened = is_file.then(|| local_file::open_for_good(file).ok());
        opened.flatten().map(Passage)
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}
