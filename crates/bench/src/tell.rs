//! Standard error: messages for people.

use std::fmt::Display;
use std::io::Write;

/// `eprintln!` would panic if there is no reader. The exit code tells as well how the run ended.
pub(crate) fn tell(what: impl Display) {
    let _ = std::io::stderr().write_all(format!("{what}\n").as_bytes());
}
