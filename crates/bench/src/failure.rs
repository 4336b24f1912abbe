//! Why there is nothing to report.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use fairlock_cli::contention::error_chain::told;

/// The command was used wrongly: EX_USAGE.
const USAGE: u8 = 64;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The request is impossible.
    Usage(String),
    /// The run could not be started or finished.
    Run(String),
}

impl Failure {
    pub(crate) fn usage(doing: &str, error: impl Error) -> Failure {
        Failure::Usage(format!("{doing}: {}", told(&error)))
    }

    pub(crate) fn run(doing: &str, error: impl Error) -> Failure {
        Failure::Run(format!("{doing}: {}", told(&error)))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(USAGE),
            Failure::Run(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) | Failure::Run(what) => f.write_str(what),
        }
    }
}
