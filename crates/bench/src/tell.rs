//! Standard error: what is for people.

use std::fmt::Display;
use std::io::Write;

/// Not `eprintln!`, which panics where nobody can be told: how the run ends, its exit code says too.
pub(crate) fn tell(what: impl Display) {
    let _ = std::io::stderr().write_all(format!("{what}\n").as_bytes());
}
