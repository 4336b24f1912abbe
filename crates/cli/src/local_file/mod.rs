//! Opens a file of locks, after checks.

mod access;
mod file_system;
mod file_type;
mod length;

use std::error::Error;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use fairlock::embedded::{Engine, EngineError};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::failure::Failure;

pub(crate) use file_system::{FileSystems, Kind as FileSystemKind, kind_of};
pub(crate) use file_type::open_for_good;

use file_type::Kind;
use length::Length;

/// Why the place is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To create the table, and its file if needed.
    Make,
    /// To take a lock. A missing file is created, as `flock` does; a missing table in an AWS account is not.
    Turn,
    /// To look at locks, or to change what is there. A missing file is not created: it is as if it were there, without locks.
    Inspect,
}

/// How long a read-only command waits for a file that other processes keep busy.
const INSPECT_WITHIN: Duration = Duration::from_secs(5);

/// Opens a file of the engine, or creates it if `purpose` allows that. A separate thread opens the file, which takes as long as other
/// processes keep it busy. A caller that stops waiting leaves the thread behind.
pub(crate) async fn engine(
    file: &Path,
    purpose: Purpose,
    file_systems: FileSystems,
) -> Result<Engine, Failure> {
    let unusable =
        |why: String| Failure::unavailable(format!("cannot use {}: {why}", file.display()));
    check_file_system(file, file_systems).map_err(unusable)?;
    check_file(file).map_err(unusable)?;
    let obstacle = access::obstacle(file);
    let open: fn(PathBuf) -> Result<Engine, EngineError> = match (purpose, obstacle) {
        (_, None) => |file| Engine::file(file),
        // A reader needs no permission to write.
        (Purpose::Inspect, Some(_)) => |file| Engine::read_only(file),
        (Purpose::Make | Purpose::Turn, Some(obstacle)) => return Err(unusable(obstacle)),
    };
    let (tell, opened) = oneshot::channel();
    let path = file.to_owned();
    let opens = std::thread::Builder::new().spawn(move || tell.send(open(path)));
    opens.map_err(|error| Failure::internal(format!("cannot start: {error}")))?;
    let engine = tokio::select! {
        biased;
        engine = opened => engine.map_err(|_panicked| unusable("it cannot be opened".into()))?,
        () = sleep(INSPECT_WITHIN), if purpose == Purpose::Inspect => {
            return Err(unusable(BUSY.to_owned()));
        }
    };
    engine.map_err(|error| {
        let cause = error.source().map(ToString::to_string);
        let cause = cause.unwrap_or_else(|| error.to_string());
        unusable(remedy(file, &cause).unwrap_or(cause))
    })
}

/// Opens a file as [`engine`] does for processes of this machine, and returns a client of it.
pub(crate) async fn open(
    file: &Path,
    purpose: Purpose,
    file_systems: FileSystems,
) -> Result<Client, Failure> {
    let engine = engine(file, purpose, file_systems).await?;
    let engine = match file_system::is_of_one_machine(file) {
        true => engine.private_to_machine(),
        false => engine,
    };
    Ok(engine.client())
}

/// Whether the first turn makes the file, or a table in it: it is not there, or empty, and nothing else is wrong with it. Nothing is
/// changed.
pub(crate) fn is_to_come(file: &Path) -> bool {
    let is_empty = match std::fs::metadata(file) {
        Ok(found) => found.is_file() && found.len() == 0,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    is_empty && check_file(file).is_ok()
}

/// What there is in a file that is to come: a table without locks, in memory.
pub(crate) fn nothing_yet() -> Result<Client, Failure> {
    let engine = Engine::memory();
    let engine = engine.map_err(|error| Failure::internal(format!("cannot start: {error}")))?;
    Ok(engine.client())
}

/// Rejects files for which the engine would give a poor error message.
fn check_file(file: &Path) -> Result<(), String> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => Err("it is a directory, and must be a file".into()),
        // Reading a pipe would block until a writer opens it.
        Ok(found) if !found.is_file() => Err("it is no file".into()),
        Ok(found) if found.len() > 0 => has_tables_of_ours(file),
        Ok(_) => Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(access::explain(file, &error)),
        Err(_) if file.is_relative() && std::env::current_dir().is_err() => Err(
            "the working directory was deleted: go to another, or name the file from / on".into(),
        ),
        Err(_) => has_directory(file),
    }
}

/// Rejects a file at which two processes may have one lock.
pub(crate) fn check_file_system(file: &Path, file_systems: FileSystems) -> Result<(), String> {
    let doubt = match file_systems {
        FileSystems::Safe => file_system::doubt(file),
        FileSystems::Any => None,
    };
    doubt.map_or(Ok(()), Err)
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
    match file_type::judge(file) {
        Ok(Kind::Ours) => Ok(()),
        Ok(Kind::NoDatabase) => Err("it is no database: name another file".into()),
        Ok(Kind::Foreign) => Err("it is the database of another program: name another file".into()),
        Err(error) => Err(access::explain(file, &error)),
    }
}

/// Explains why this process cannot write the file, and what to do. Returns `None` if it can.
pub(crate) fn obstacle(file: &Path) -> Option<String> {
    access::obstacle(file)
}

/// Whether the disk has no room for the files that SQLite creates beside this one.
pub(crate) fn is_disk_full(file: &Path) -> bool {
    access::is_disk_full(file)
}

/// Explains one of SQLite's error messages: what has become of the file, and what to do. Returns `None` if the message is not known here.
pub(crate) fn remedy(file: &Path, said: &str) -> Option<String> {
    let says = |words: &str| said.contains(words);
    match () {
        () if says("disk is full") || says("No space left") => {
            Some(FULL.into())
        }
        () if says("the file is gone") => {
            Some("it was deleted, and its locks with it: the next `fairlock run` makes it again".into())
        }
        () if says("database is locked") => Some(BUSY.into()),
        () if says("malformed") => {
            Some("it is damaged: when nobody uses it, delete it and those beside it whose names begin so".into())
        }
        () if says("readonly database") || says("unable to open") || says("disk I/O error") => {
            let broken = match access::is_disk_full(file) {
                true => FULL,
                false => "it cannot be read or written: see its disk, and the limits of this process (`ulimit -f`, `-n`)",
            };
            Some(access::obstacle(file).unwrap_or_else(|| broken.into()))
        }
        () => None,
    }
}

const BUSY: &str = "others keep it busy: try again, and see who has it open (`fuser` says)";
const FULL: &str = "its disk is full: make room there";

/// Follows symbolic links, if the file exists.
pub(crate) fn real(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| file.to_owned())
}

/// A file of locks that this process has open, and the log next to it. The log contains the newest writes while the file is open.
#[derive(Debug)]
pub(crate) struct Known {
    file: Named,
    log: Option<Named>,
    length: Length,
}

impl Known {
    pub(crate) fn of(file: &Path) -> Option<Known> {
        Some(Known {
            file: Named::of(file)?,
            length: Length::of(file)?,
            log: Named::of(&file_type::log_of(&real(file), "-wal")),
        })
    }

    pub(crate) fn name(&self) -> &Path {
        &self.file.name
    }

    /// Whether the file was deleted. Another file may have its name by now.
    pub(crate) fn is_gone(&self) -> bool {
        self.file.is_gone()
    }

    /// Whether the file was cut, as by `truncate` or by a shell's `>`. What a process writes into it then may damage it further, and the
    /// next process may find no locks.
    pub(crate) fn is_cut(&self) -> bool {
        self.length.is_cut()
    }

    /// Returns the log's name if the log was deleted. Nothing reads what this process writes from then on.
    pub(crate) fn lost_log(&self) -> Option<&Path> {
        let lost = self.log.as_ref().filter(|log| log.is_gone());
        lost.map(|log| log.name.as_path())
    }
}

/// The file that had this name when `of` was called.
#[derive(Debug)]
struct Named {
    name: PathBuf,
    device: u64,
    number: u64,
}

impl Named {
    fn of(name: &Path) -> Option<Named> {
        let found = std::fs::metadata(name).ok()?;
        Some(Named {
            name: name.to_owned(),
            device: found.dev(),
            number: found.ino(),
        })
    }

    /// Whether the name no longer belongs to that file. A file whose metadata cannot be read counts as the same.
    fn is_gone(&self) -> bool {
        match std::fs::metadata(&self.name) {
            Ok(found) => (found.dev(), found.ino()) != (self.device, self.number),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }
}
