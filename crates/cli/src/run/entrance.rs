//! Many commands that start at once on one file of locks come in one after the other.
//!
//! A start takes more of a processor than anything that follows, and all the starts of a moment take all there are. Then a turn that
//! has come is noticed late and its command begins late, though nobody is in its way. So whoever comes waits here until those before
//! have their places in the queue. It keeps nothing right, and is passed where it would take long.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Over, patience, stop_waiting};
use crate::args::Run;
use crate::failure::say;
use crate::local;
use crate::signals::Caught;

/// A command that is held up for longer than this says so. A hundred commands that start at once take as long.
const LONG: Duration = Duration::from_secs(2);
/// For how long others are let in first, at most.
const SOON: Duration = Duration::from_secs(5);

/// The next one comes in when this is dropped. Whoever finds no file there makes it, and comes in at once.
#[derive(Default)]
pub(super) struct Entrance(#[expect(dead_code, reason = "dropped in time")] Option<Passage>);

impl Entrance {
    /// Ends the wait if somebody has had enough.
    pub(super) async fn of(
        options: &Run,
        signals: &mut UnboundedReceiver<Caught>,
    ) -> Result<Entrance, Over> {
        let file = options.place.local.as_deref();
        let Some(passage) = file.and_then(Passage::of) else {
            return Ok(Entrance(None));
        };
        if passage.0.try_lock().is_ok() {
            return Ok(Entrance(Some(passage)));
        }
        let (tell, mut told) = oneshot::channel();
        // Nothing ends a wait for a lock, so one that lasts too long is left behind.
        let waits = std::thread::Builder::new().spawn(move || {
            let _ = passage.0.lock();
            tell.send(passage)
        });
        if waits.is_err() {
            return Ok(Entrance(None));
        }
        // What follows is to have some of the wait.
        let bound = SOON.min(patience(options.wait) / 2);
        let (mut over, mut long) = (pin!(sleep(bound)), pin!(sleep(LONG)));
        let mut is_told = options.quiet;
        // Each turn of the loop but the last is one signal that changes nothing, or tells that it takes long.
        loop {
            tokio::select! {
                biased;
                entered = &mut told => return Ok(Entrance(entered.ok())),
                Some(caught) = signals.recv() => stop_waiting(caught)?,
                () = &mut over => return Ok(Entrance(None)),
                () = &mut long, if !is_told => {
                    let file = options.place.engine();
                    say(&format!("lets others come in at {file} first (`lslocks` says who has it locked); goes on soon"));
                    is_told = true;
                }
            }
        }
    }
}

/// A lock of the file itself, of a kind that SQLite does not use.
struct Passage(ManuallyDrop<File>);

impl Passage {
    fn of(file: &Path) -> Option<Passage> {
        // To open a pipe would wait for a writer.
        let is_file = std::fs::metadata(file).is_ok_and(|found| found.is_file());
        let opened = is_file.then(|| local::open_for_good(file).ok());
        opened.flatten().map(Passage)
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}
