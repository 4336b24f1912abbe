//! What is shown while `fairlock run` waits: at a terminal the place in line, for how long, and for whom; and everywhere that
//! DynamoDB does not answer.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock::{FairLock, Waiting};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::say;
use crate::output::rounded;
use crate::text::shown;

/// How often the picture changes.
pub(super) const TICK: Duration = Duration::from_millis(200);

/// A line that is drawn over and over, and gone in the end; nothing where nobody would see it.
pub(super) struct Picture {
    bar: ProgressBar,
    said: Arc<Mutex<Option<String>>>,
}

impl Picture {
    /// The same lock, which tells the picture how far the wait has come.
    pub(super) fn of(lock: FairLock) -> (Picture, FairLock) {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new_spinner().with_style(style()),
            false => ProgressBar::hidden(),
        };
        let said = Arc::new(Mutex::new(None));
        let (saying, name) = (Arc::clone(&said), shown(lock.name()));
        let (over, outage) = (bar.clone(), Mutex::new(false));
        let lock = lock.observed(move |waiting| {
            let is_out = waiting.outage.is_some();
            let was_out = std::mem::replace(&mut *locked(&outage), is_out);
            if is_out != was_out {
                over.suspend(|| say(&outage_words(waiting)));
            }
            *locked(&saying) = words(&name, waiting);
        });
        (Picture { bar, said }, lock)
    }

    /// Draws it, unless others have the terminal: it would be drawn over what they show.
    pub(super) fn tick(&self) {
        let said = locked(&self.said);
        if let Some(said) = said.as_ref().filter(|_| is_in_foreground()) {
            self.bar.set_message(said.clone());
            self.bar.tick();
        }
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    let template = ProgressStyle::with_template("{spinner} {msg}, waited {elapsed}");
    template.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn is_in_foreground() -> bool {
    rustix::termios::tcgetpgrp(std::io::stderr())
        .is_ok_and(|group| group == rustix::process::getpgrp())
}

fn outage_words(waiting: &Waiting) -> String {
    match &waiting.outage {
        Some(outage) => format!(
            "cannot reach DynamoDB, and goes on trying: {}",
            outage.cause
        ),
        None => "reached DynamoDB again".to_owned(),
    }
}

/// Nothing before there is a place in line.
fn words(lock: &str, waiting: &Waiting) -> Option<String> {
    let place = match waiting.place? {
        0 | 1 => "next".to_owned(),
        place => format!("{place} before us"),
    };
    let soon = match waiting.expected_wait {
        Some(wait) if wait > Duration::ZERO => format!(", in about {}", rounded(wait)),
        _ => String::new(),
    };
    Some(match &waiting.holder {
        Some(holder) => format!("{lock}: {place}{soon}, {} has it", shown(&holder.owner)),
        None => format!("{lock}: {place}{soon}"),
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
