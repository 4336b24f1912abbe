//! Whether a file is one of the engine's, found out without opening it as a database: to open it is to make it one.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result as Done, Seek};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use super::real;

/// What every database of SQLite starts with.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// What stands in every one of the engine's.
const OURS: &[u8] = b"CREATE TABLE _config";
/// A database that has been begun, by the engine or another, is no longer than this and has no tables yet.
const BEGUN: u64 = 4096;
const TABLE: &[u8] = b"CREATE ";

pub(super) enum Kind {
    NoDatabase,
    Foreign,
    Ours,
}

/// Tables may still be in the log beside the file only, while somebody is at it. They move from it into the file: so the log is
/// looked at first, or they could be missed in both. Ours come all at once, and may do so just now: so where there are tables, ours are
/// looked for after those of anybody.
pub(super) fn judge(file: &Path) -> Done<Kind> {
    let opened = open_for_good(file)?;
    let is_small = opened.metadata()?.len() <= BEGUN;
    let mut start = Vec::new();
    (&*opened)
        .take(SQLITE.len() as u64)
        .read_to_end(&mut start)?;
    if start != SQLITE {
        return Ok(Kind::NoDatabase);
    }
    let log = log_of(file, "-wal");
    let has = |words| {
        let log = match File::open(&log) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            log => Some(log?),
        };
        let is_in_log = log.map_or(Ok(false), |log| contains(&log, words));
        Ok::<_, Error>(is_in_log? || contains(&opened, words)?)
    };
    Ok(match has(TABLE)? {
        false if is_small => Kind::Ours,
        _ if has(OURS)? => Kind::Ours,
        _ => Kind::Foreign,
    })
}

/// As soon as a process closes a file once, SQLite has lost all its locks of that file in the process, and what it writes then may damage
/// the file. So this one stays open for as long as the process lives.
pub(crate) fn open_for_good(file: &Path) -> Done<ManuallyDrop<File>> {
    File::open(file).map(ManuallyDrop::new)
}

/// One of those that SQLite puts beside a file: where symbolic links lead to.
pub(super) fn log_of(file: &Path, end: &str) -> PathBuf {
    let mut log = real(file).into_os_string();
    log.push(end);
    log.into()
}

/// Ends at the end of the file.
fn contains(mut file: &File, words: &[u8]) -> Done<bool> {
    file.rewind()?;
    let mut reader = BufReader::new(file);
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
            let file = File::open(&file).unwrap();
            assert!(contains(&file, OURS).unwrap(), "{before}");
        }
        std::fs::write(&file, vec![b'C'; 20_000]).unwrap();
        assert!(!contains(&File::open(&file).unwrap(), OURS).unwrap());
    }
}
