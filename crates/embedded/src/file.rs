//! The file that a name refers to, and the files that SQLite puts beside it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::iter;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many pauses to wait for the process that makes a new file. It needs hardly any time, but another program may lock the directory.
const PATIENCE: usize = 50;

/// How many symbolic links to follow: as many as the system does.
const LINKS: usize = 40;

/// Distinguishes a file from another file that gets its name later.
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

/// Refuses a file with several names. SQLite keeps two more files beside it, by its name, so a process that opens it by another name has
/// other ones. Both processes would damage the file, or hold the same lock.
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

/// Does nothing where the system cannot tell how many names a file has.
#[cfg(not(unix))]
pub(crate) fn has_one_name(_: &Path) -> Result<()> {
    Ok(())
}

/// Whether the file itself, and not a directory above it, is a place where something is mounted.
#[cfg(target_os = "linux")]
fn is_mounted(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    // Not every kernel, or container, permits the question.
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_mounted(_: &Path) -> bool {
    false
}

/// Makes an empty file, with the mode that the umask asks for, unless there is one. Then removes what SQLite left beside an earlier file of
/// this name, which SQLite would take for this file's.
pub(crate) fn make(path: &Path, pause: impl Fn()) -> Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let path = &real(path);
    // A process that finds the file empty waits until its maker has tidied up, and opens nothing meanwhile.
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

/// What changes about a file when a process opens, writes or closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Whether a process has the file open, or had it open and was killed.
    pub(crate) has_log: bool,
    /// `None` where there is a log: then SQLite itself keeps what is read consistent.
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

/// The log beside a file. If the name is a symbolic link, it is beside the file to which the link leads, as SQLite has it.
pub(crate) fn log(path: &Path) -> PathBuf {
    beside(&real(path), "-wal")
}

/// Where symbolic links lead, even to a file that is not there yet.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if let Ok(found) = fs::canonicalize(&path) {
            return found;
        }
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        // An absolute target takes the place of everything before it.
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// A file's name in the form in which SQLite takes parameters behind it.
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
