//! `fairlock hold`: holds a lock for a script, without a command around what the script does.
//!
//! It is `fairlock run` with a command of this program's own. So it has a supervisor too, and all that is promised of a turn.

use std::io::Read;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread::Builder;

use serde::Serialize;
use serde_json::Value;

use crate::args::Run;
use crate::args::commands::{Hold, Holder};
use crate::failure::Failure;
use crate::output;
use crate::process_tree::THIS_PROGRAM;
use crate::run;
use crate::run::turn::{LOCK, TICKET, TICKETS};
use crate::signals;

pub(crate) fn hold(options: Hold) -> Result<ExitCode, Failure> {
    let form = options.json.then_some("--json");
    let command = [THIS_PROGRAM, "holder"].into_iter().chain(form);
    run::run(Run {
        claim: options.claim,
        kill_after: None,
        command: command.map(Into::into).collect(),
        location: options.location,
    })
}

/// The holds in JSON, by the schema in `json.md`.
#[derive(Serialize)]
struct Held {
    lock: String,
    ticket: u64,
    tickets: Value,
}

pub(crate) fn holder(options: &Holder) -> Result<ExitCode, Failure> {
    // Otherwise it would be shown as `exe`, by which this program was started.
    let _ = rustix::thread::set_name(c"fairlock");
    // Before the ticket is printed, because a script may send a signal as soon as it has read that.
    let mut signals = signals::endings()?;
    let (tell, told) = channel();
    let tell_too = tell.clone();
    let listens = move || {
        let _ = signals.blocking_recv();
        let _ = tell_too.send(());
    };
    // A reader of the ticket that has gone is no reason to release the lock.
    let _ = output::print(&text(options)?)?;
    let reads = move || {
        drain();
        let _ = tell.send(());
    };
    let unstarted = |error| Failure::internal(format!("cannot start: {error}"));
    Builder::new().spawn(listens).map_err(unstarted)?;
    Builder::new().spawn(reads).map_err(unstarted)?;
    // Fails if both threads are gone, and then nothing else could end this process.
    let _ = told.recv();
    Ok(ExitCode::SUCCESS)
}

fn text(options: &Holder) -> Result<String, Failure> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let garbled = || Failure::misuse("this command is for `fairlock hold` alone");
    let ticket: u64 = variable(TICKET).parse().map_err(|_| garbled())?;
    if !options.json {
        return Ok(format!("{ticket}\n"));
    }
    output::json_line(&Held {
        lock: variable(LOCK),
        ticket,
        tickets: serde_json::from_str(&variable(TICKETS)).map_err(|_| garbled())?,
    })
}

/// Reads standard input to its end. An input that cannot be read has ended too. The loop ends there.
fn drain() {
    let (mut input, mut unread) = (std::io::stdin().lock(), [0; 4096]);
    loop {
        match input.read(&mut unread) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return,
            Ok(_) | Err(_) => {}
        }
    }
}
