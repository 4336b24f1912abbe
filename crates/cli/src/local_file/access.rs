//! Explains who may use a file, and why this process may not.

use std::fs::{self, Metadata};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat, statvfs};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::file_type::log_of;
use super::real;

/// In bytes: room for an index of the log, and for some of the log.
const MIN_ROOM: u64 = 64 * 1024;

/// Explains why this process cannot write or create the file. Returns `None` if it can.
pub(super) fn obstacle(file: &Path) -> Option<String> {
    let beside = directory_of(&real(file));
    let logs = [log_of(file, "-wal"), log_of(file, "-shm")];
    let needed: Vec<_> = std::iter::once(file.to_owned())
        .chain(logs)
        .filter(|file| file.exists())
        .collect();
    // While the file is open, SQLite creates two more files in its directory, and deletes them later.
    let all = match needed.len() {
        3 => needed,
        _ => [needed, vec![beside]].concat(),
    };
    all.iter().find_map(|needed| refusal(file, needed))
}

/// Whether the disk has no room for the files that SQLite creates next to this one.
pub(super) fn is_disk_full(file: &Path) -> bool {
    let found = statvfs(directory_of(&real(file)));
    found.is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) < MIN_ROOM)
}

fn refusal(file: &Path, needed: &Path) -> Option<String> {
    let refused = accessat(CWD, needed, Access::WRITE_OK, AtFlags::EACCESS).err()?;
    // The process that had the file open last has closed it since, and SQLite has deleted the two files beside it.
    if refused == Errno::NOENT && needed != directory_of(&real(file)) {
        return None;
    }
    let error = Error::from(refused);
    let what = match needed {
        same if same == file => "it".to_owned(),
        directory if directory.is_dir() => "its directory".to_owned(),
        beside => beside.display().to_string(),
    };
    let why = match (refused, fs::metadata(needed)) {
        (Errno::ROFS, _) => format!("{what} is on a file system that can only be read"),
        (Errno::ACCESS | Errno::PERM, Ok(found)) => {
            let verb = match found.is_dir() {
                true => "make files there",
                false => "write it",
            };
            format!("{what} {}, and {} may not {verb}", whose(&found), me())
        }
        _ => format!("{what}: {error}"),
    };
    Some(format!(
        "{why}: let its owner or group run this, or name another file"
    ))
}

/// Explains an error that came from reading the file's metadata or contents.
pub(super) fn explain(file: &Path, error: &Error) -> String {
    match (error.kind(), fs::metadata(file)) {
        (ErrorKind::PermissionDenied, Ok(found)) => {
            format!("it {}, and {} may not read it", whose(&found), me())
        }
        _ => error.to_string(),
    }
}

fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn whose(found: &Metadata) -> String {
    let mode = found.mode() & 0o7777;
    format!("belongs to {} with mode {mode:o}", named(found.uid()))
}

fn me() -> String {
    named(geteuid().as_raw())
}

/// Returns the user's name from `/etc/passwd`, or else the number.
fn named(user: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == user.to_string()).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("user {user}"))
}
