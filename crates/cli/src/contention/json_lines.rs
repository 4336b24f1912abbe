//! Standard output: lines of JSON.

use std::io::{ErrorKind, Write};

use serde::Serialize;

/// Writes one line in one write, so that lines of several threads never mix.
pub fn say(what: &impl Serialize) -> Result<(), String> {
    let mut line = serde_json::to_string(what).map_err(|error| error.to_string())?;
    line.push('\n');
    match std::io::stdout().write_all(line.as_bytes()) {
        // A reader that has gone away does not change how the run ends.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(|error| format!("standard output: {error}")),
    }
}
