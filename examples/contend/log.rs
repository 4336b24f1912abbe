//! What is said: a line for each turn on standard output, as it ends; everything else on standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::turn::Turn;

/// Prints turns and keeps them. Cheap to clone; the clones are one log.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Said>>);

#[derive(Default)]
struct Said {
    turns: Vec<Turn>,
    /// Why some were not printed: what was first in the way.
    trouble: Option<String>,
}

impl Log {
    pub(crate) fn add(&self, turn: Turn) {
        let printed = say(&turn);
        let mut said = self.said();
        said.turns.push(turn);
        said.trouble = said.trouble.take().or(printed.err());
    }

    /// The turns, and what kept them from being printed.
    pub(crate) fn take(&self) -> (Vec<Turn>, Option<String>) {
        let said = std::mem::take(&mut *self.said());
        (said.turns, said.trouble)
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line of JSON in one write, so that lines of several threads never mix.
pub(crate) fn say(what: &impl Serialize) -> Result<(), String> {
    let line = serde_json::to_string(what).map_err(|error| error.to_string())?;
    match write(io::stdout(), line) {
        // A reader that went away does not change how the run ends.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(|error| format!("standard output: {error}")),
    }
}

/// Not `eprintln!`, which panics where nobody can be told: how the run ends, its exit code says too.
pub(crate) fn tell(what: impl Display) {
    let _ = write(io::stderr(), what.to_string());
}

fn write(mut to: impl Write, mut line: String) -> io::Result<()> {
    line.push('\n');
    to.write_all(line.as_bytes())
}
