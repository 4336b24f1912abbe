//! Whether a file is one of the engine's databases. The file is read and not opened as a database, because opening it would make it one.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result as Done, Seek};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use super::real;

/// The first bytes of every SQLite database.
pub(super) const SQLITE: &[u8] = b"SQLite format 3\0";
/// Text that every database of the engine contains.
const OURS: &[u8] = b"CREATE TABLE _config";
/// A database that the engine or another program has just begun is at most this long, and has no tables yet.
const BEGUN: u64 = 4096;
const TABLE: &[u8] = b"CREATE ";

pub(super) enum Kind {
    NoDatabase,
    Foreign,
    Ours,
}

/// While another process has the file open, tables may be only in the log next to it. SQLite moves them from the log into the file. So the
/// log is read first: read in the other order, they could be missed in both. The engine creates its tables all at once, and may do so at
/// this very moment. So if the file has any tables, the engine's are searched for after that.
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

/// Opens the file for as long as this process lives. When a process closes any handle on a file, the process loses all locks that SQLite
/// has on that file. What it writes then may damage the file.
pub(crate) fn open_for_good(file: &Path) -> Done<ManuallyDrop<File>> {
    File::open(file).map(ManuallyDrop::new)
}

/// The name of a file that SQLite creates next to the database, after symbolic links are followed.
pub(super) fn log_of(file: &Path, end: &str) -> PathBuf {
    let mut log = real(file).into_os_string();
    log.push(end);
    log.into()
}

/// Whether the file contains the words. The loop ends at the end of the file.
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
