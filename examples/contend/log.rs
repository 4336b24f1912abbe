//! Standard output: a line for each turn, as it ends.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::turn::Turn;

/// Prints turns and keeps them. Cheap to clone; the clones are one log.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Turn>>>);

impl Log {
    pub(crate) fn add(&self, turn: Turn) {
        say(&turn);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(turn);
    }

    pub(crate) fn take(&self) -> Vec<Turn> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One line of JSON in one write, so that lines of several threads never mix.
pub(crate) fn say(what: &impl Serialize) {
    if let Ok(mut line) = serde_json::to_string(what) {
        line.push('\n');
        // A reader that went away does not change how the run ends.
        let _ = std::io::stdout().write_all(line.as_bytes());
    }
}
