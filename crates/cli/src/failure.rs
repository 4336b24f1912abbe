//! Why the command did not do what the user asked for: an exit code, and one line that says what to do.

use std::error::Error as StdError;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use crate::stderr_thread;
use crate::text::shown;

/// Exit codes. They follow sysexits.h where it has a name for the case.
pub(crate) const UNFIT: u8 = 1;
pub(crate) const MISUSE: u8 = 64;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const INTERNAL: u8 = 70;
/// Processes of a command could not be ended, and run without its lock.
pub(crate) const UNENDED: u8 = 71;
pub(crate) const IO: u8 = 74;
pub(crate) const NOT_GRANTED: u8 = 75;
pub(crate) const LOST: u8 = 76;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    text: String,
    /// For how long it may be worth trying again.
    passes: Duration,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Failure {
            code,
            text: text.into(),
            passes: Duration::ZERO,
        }
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Failure { code, ..self }
    }

    /// The same failure, which may pass within this time.
    pub(crate) fn passing(self, passes: Duration) -> Self {
        Failure { passes, ..self }
    }

    pub(crate) fn passes(&self) -> Duration {
        self.passes
    }

    /// The same failure, with what may have caused it.
    pub(crate) fn because(mut self, cause: &str) -> Self {
        self.text = format!("{}: {cause}", self.text);
        self
    }

    /// The command line asks for something impossible.
    pub(crate) fn misuse(text: impl Into<String>) -> Self {
        Failure::new(MISUSE, text)
    }

    /// The table cannot be used.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Failure::new(UNAVAILABLE, text)
    }

    pub(crate) fn unwritten(error: &io::Error) -> Self {
        Failure::new(IO, format!("cannot write the output: {error}"))
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Failure::new(INTERNAL, text)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Prints the failure, and returns its exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        say_within(&self.text, stderr_thread::AT_LAST);
        ExitCode::from(self.code)
    }
}

/// The exit code that a shell reports for a process that this signal ended.
pub(crate) fn killed_by(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Prints one line on standard error. A missing reader is no error.
pub(crate) fn say(text: &str) {
    say_within(text, stderr_thread::SOON);
}

fn say_within(text: &str, span: Duration) {
    stderr_thread::say(format!("fairlock: {}\n", shown(text)), span);
}

/// Follows the sources to the first cause. The recursion ends because each cause is an error of its own.
pub(crate) fn deepest<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    error.source().map_or(error, deepest)
}
