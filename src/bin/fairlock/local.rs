//! A file of locks, looked at before it is opened: to open it is to make it one.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Result as Done};
use std::path::{Path, PathBuf};

use aws_sdk_dynamodb::Client;
use fairlock::embedded::Engine;

use crate::failure::Failure;
use crate::place::Missing;

/// What every database of SQLite starts with.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// What stands in every one of the engine's.
const OURS: &[u8] = b"CREATE TABLE _config";
/// A database that has been begun, by the engine or another, is no longer than this and has no tables yet.
const BEGUN: u64 = 4096;
const TABLE: &[u8] = b"CREATE ";

/// Opens a file that is there and one of the engine's, or is to be made; `create` is the command that does so.
pub(crate) fn open(file: &Path, missing: Missing, create: &str) -> Result<Client, Failure> {
    let unusable =
        |why: String| Failure::unavailable(format!("cannot use {}: {why}", file.display()));
    look_at(file, missing, create).map_err(unusable)?;
    let engine = Engine::file(file).map_err(|error| {
        let cause = error.source().map(ToString::to_string);
        unusable(cause.unwrap_or_else(|| error.to_string()))
    })?;
    Ok(engine.client())
}

/// What the engine would explain badly, or make of a file that was only to be looked at.
fn look_at(file: &Path, missing: Missing, create: &str) -> Result<(), String> {
    match (std::fs::metadata(file), missing) {
        (Ok(found), _) if found.is_dir() => Err("it is a directory, and must be a file".into()),
        // Reading a pipe would wait for a writer.
        (Ok(found), _) if !found.is_file() => Err("it is no file".into()),
        (Ok(found), _) if found.len() > 0 => has_tables_of_ours(file),
        (Ok(_), Missing::Create) => Ok(()),
        (Ok(_), Missing::Refuse) => Err(format!("it is empty: `{create}` makes the table in it")),
        (Err(error), _) if error.kind() != ErrorKind::NotFound => Err(error.to_string()),
        (Err(_), Missing::Create) => has_directory(file),
        (Err(_), Missing::Refuse) => Err(format!("there is no such file: `{create}` makes it")),
    }
}

fn has_directory(file: &Path) -> Result<(), String> {
    match file.parent() {
        Some(parent) if parent != Path::new("") && !parent.is_dir() => {
            Err(format!("there is no directory {}", parent.display()))
        }
        _ => Ok(()),
    }
}

fn has_tables_of_ours(file: &Path) -> Result<(), String> {
    match judge(file) {
        Ok(Kind::Ours) => Ok(()),
        Ok(Kind::NoDatabase) => Err("it is no database: name another file".into()),
        Ok(Kind::Foreign) => Err("it is the database of another program: name another file".into()),
        Err(error) => Err(error.to_string()),
    }
}

enum Kind {
    NoDatabase,
    Foreign,
    Ours,
}

/// Tables may still be in the log beside the file only, while somebody is at it; the log is looked for last, so that
/// tables that move from it into the file are not missed.
fn judge(file: &Path) -> Done<Kind> {
    let mut start = Vec::new();
    let opened = File::open(file)?;
    let is_small = opened.metadata()?.len() <= BEGUN;
    opened.take(SQLITE.len() as u64).read_to_end(&mut start)?;
    Ok(match start == SQLITE {
        false => Kind::NoDatabase,
        true if contains(file, OURS)? || contains(&log_of(file), OURS)? => Kind::Ours,
        true if is_small && !contains(file, TABLE)? && !contains(&log_of(file), TABLE)? => {
            Kind::Ours
        }
        true => Kind::Foreign,
    })
}

fn log_of(file: &Path) -> PathBuf {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// A file that is not there contains nothing. Ends at the end of the file.
fn contains(file: &Path, words: &[u8]) -> Done<bool> {
    let mut reader = match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        opened => BufReader::new(opened?),
    };
    let mut seen = Vec::new();
    loop {
        let chunk = reader.fill_buf()?;
        let length = chunk.len();
        seen.extend_from_slice(chunk);
        if seen.windows(words.len()).any(|window| window == words) {
            return Ok(true);
        }
        if length == 0 {
            return Ok(false);
        }
        reader.consume(length);
        // The words may begin in this chunk and end in the next.
        seen.drain(..seen.len().saturating_sub(words.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_across_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        for before in [0, 8180, 8185, 8192, 20_000] {
            let text = [&vec![b'C'; before], OURS, b"tail"].concat();
            std::fs::write(&file, text).unwrap();
            assert!(contains(&file, OURS).unwrap(), "{before}");
        }
        std::fs::write(&file, vec![b'C'; 20_000]).unwrap();
        assert!(!contains(&file, OURS).unwrap());
    }
}
