//! Plays a record of a client that ran elsewhere.

use std::path::Path;
use std::process::ExitCode;

use fairlock_protocol::agent::record::play;

/// Plays the record, and prints what came of it.
pub(crate) fn replay(file: &Path) -> ExitCode {
    let record = match std::fs::read_to_string(file) {
        Ok(record) => record,
        Err(why) => return fails(&format!("{}: {why}", file.display())),
    };
    match play(record.lines()) {
        Ok(played) => {
            println!(
                "{{\"turns\":{},\"requests\":{},\"differs\":{}}}",
                played.turns,
                played.requests,
                played.difference.is_some()
            );
            match played.difference {
                Some(difference) => fails(&difference.to_string()),
                None => ExitCode::SUCCESS,
            }
        }
        Err(why) => fails(&format!("{}: {why}", file.display())),
    }
}

fn fails(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}
