//! The file that a name names, and those that SQLite puts beside it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::iter;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How often the maker of a new file is waited for, who needs no time to speak of; but another program may lock the directory.
const PATIENCE: usize = 50;

/// As many as the system follows.
const LINKS: usize = 40;

/// What tells a file from another one that has its name later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    number: u64,
}

#[cfg(unix)]
pub(crate) fn identity(path: &Path) -> Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path)?;
    Ok(Identity {
        device: found.dev(),
        number: found.ino(),
    })
}

/// Where a file that is open cannot be deleted, its name is enough.
#[cfg(not(unix))]
pub(crate) fn identity(path: &Path) -> Result<Identity> {
    fs::metadata(path)?;
    Ok(Identity {
        device: 0,
        number: 0,
    })
}

/// SQLite keeps two more files beside it, by its name: whoever has the same file by another name has other ones, and both would
/// damage it, or have the same lock.
#[cfg(unix)]
pub(crate) fn has_one_name(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let names = fs::metadata(path)?.nlink();
    if names > 1 {
        return Err(Error::other(format!(
            "it has {names} names (hard links), by each of which it would have locks of its own: make a symbolic link instead"
        )));
    }
    match is_mounted(path) {
        true => Err(Error::other(
            "it is mounted by itself, and by its other name it would have locks of its own: mount its directory",
        )),
        false => Ok(()),
    }
}

/// Where a file cannot be asked for its names.
#[cfg(not(unix))]
pub(crate) fn has_one_name(_: &Path) -> Result<()> {
    Ok(())
}

/// Whether the file itself, and not a directory above it, is a place where something is mounted.
#[cfg(target_os = "linux")]
fn is_mounted(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    // Not every kernel, or container, lets one ask.
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_mounted(_: &Path) -> bool {
    false
}

/// Makes an empty file, with the mode that the umask asks for, unless there is one. What SQLite left beside one that had the
/// name before is another file's, and would be taken for this one's.
pub(crate) fn make(path: &Path, pause: impl Fn()) -> Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let path = &real(path);
    // Whoever finds it empty waits until its maker has tidied up, and opens nothing meanwhile.
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let alone = File::open(directory).ok();
    for alone in iter::repeat_n(alone.as_ref(), PATIENCE).flatten() {
        match alone.try_lock() {
            Err(TryLockError::WouldBlock) => pause(),
            Ok(()) | Err(TryLockError::Error(_)) => break,
        }
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_made) => [log(path), beside(path, "-shm")]
            .iter()
            .try_for_each(|left| match fs::remove_file(left) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// What changes about a file when somebody opens, writes or closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Somebody has the file open, or had it open and was killed.
    pub(crate) has_log: bool,
    /// Where there is a log SQLite itself sees to it that what is read goes together.
    written: Option<(SystemTime, u64)>,
}

pub(crate) fn state(path: &Path) -> Result<State> {
    let has_log = log(path).exists();
    let found = fs::metadata(path)?;
    let written = match has_log {
        true => None,
        false => Some((found.modified()?, found.len())),
    };
    Ok(State { has_log, written })
}

/// The log beside a file: beside the one that a symbolic link leads to, as SQLite has it.
pub(crate) fn log(path: &Path) -> PathBuf {
    beside(&real(path), "-wal")
}

/// Where symbolic links lead, also to a file that is not there yet.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if let Ok(found) = fs::canonicalize(&path) {
            return found;
        }
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        // A target that is absolute takes the place of all before it.
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// A name as SQLite takes it with parameters behind it.
pub(crate) fn uri(path: &str) -> String {
    let escaped = path
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    format!("file:{escaped}")
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
