//! The turns: a line for each on standard output, as it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairlock_cli::contention::json_lines::say;
use fairlock_cli::contention::turn::Turn;

/// Prints turns and keeps them. Cheap to clone; the clones are one log.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Said>>);

#[derive(Default)]
struct Said {
    turns: Vec<Turn>,
    /// Why some turns were not printed: the first error.
    trouble: Option<String>,
}

impl Log {
    pub(crate) fn add(&self, turn: Turn) {
        let printed = say(&turn);
        let mut said = self.said();
        said.turns.push(turn);
        said.trouble = said.trouble.take().or(printed.err());
    }

    /// Takes the turns, and the error that kept some from being printed.
    pub(crate) fn take(&self) -> (Vec<Turn>, Option<String>) {
        let said = std::mem::take(&mut *self.said());
        (said.turns, said.trouble)
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
