//! Where the tables are kept: in memory, or in a file that other processes use too.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dynoxide::storage_backend::BackendError;
use dynoxide::{Database, DynoxideError};

use crate::date::{Begin, FileDate};
use crate::file::{self, Identity};
use crate::time::{SetOnce, System, WallClock, now};
use crate::turnstile::Turnstile;
use crate::unmade;

/// How often a request is tried on a file that other processes keep busy. Each try waits up to five seconds for the file. A try that found
/// the file busy changed nothing.
const TRIES: usize = 6;

/// How long opening is tried on a file that other processes keep busy. SQLite waits as long by itself, but not where two processes want to
/// change the journal of a new file at once: it refuses one of them on the spot.
const OPENS_WITHIN: Duration = Duration::from_secs(30);
/// Bringing a new file up to date takes less than this.
const PAUSE: Duration = Duration::from_millis(10);

type Done<T> = Result<T, DynoxideError>;

#[derive(Clone)]
pub(crate) enum Store {
    Memory(Database, Arc<dyn WallClock>),
    File(File),
}

/// A file by its name. The file of that name may be deleted and made again while it is open. Then all that was in it is gone, and no other
/// process has the file that this process has open.
#[derive(Clone)]
pub(crate) struct File {
    path: Arc<str>,
    opened: Arc<Mutex<Opened>>,
    access: Access,
    turnstile: Turnstile,
    date: FileDate,
}

struct Opened {
    database: Database,
    identity: Identity,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    /// Each read takes a copy into memory: SQLite would write beside the file, even where it only reads.
    Look,
}

impl Store {
    pub(crate) fn memory() -> Done<Store> {
        let clock = Arc::new(SetOnce::now());
        Ok(Store::Memory(Database::memory()?, clock))
    }

    pub(crate) fn file(path: &Path, access: Access) -> Done<Store> {
        let path = path.to_str().ok_or_else(not_text)?;
        // To SQLite, `:memory:` and anything that begins with `file:` are no names of files.
        let path = &match Path::new(path).is_relative() {
            true => format!("./{path}"),
            false => path.to_owned(),
        };
        let turnstile = Turnstile::default();
        let opened = access.open(path, &turnstile)?;
        Ok(Store::File(File {
            path: Arc::from(path.as_str()),
            opened: Arc::new(Mutex::new(opened)),
            access,
            turnstile,
            date: FileDate::of(Arc::new(System)),
        }))
    }

    pub(crate) fn set_clock(&mut self, clock: Arc<dyn WallClock>) {
        match self {
            Store::Memory(_, set) => *set = clock,
            Store::File(file) => file.date.set_clock(clock),
        }
    }

    pub(crate) fn set_private(&mut self) {
        if let Store::File(file) = self {
            file.date.set_private();
        }
    }

    /// The time since 1970 by this store. A file does not tell it before the first request.
    pub(crate) fn date(&self) -> Option<Duration> {
        match self {
            Store::Memory(_, clock) => Some(clock.unix()),
            Store::File(file) => file.date.now(),
        }
    }

    /// No process is alive that wrote the store before this time.
    pub(crate) fn boot_began(&self) -> Option<Duration> {
        match self {
            Store::Memory(..) => None,
            Store::File(file) => file.date.boot_began(),
        }
    }

    pub(crate) fn may_write(&self) -> bool {
        match self {
            Store::Memory(..) => true,
            Store::File(file) => file.access == Access::Write,
        }
    }

    /// Whether requests are answered without waiting, so that they need no task of their own.
    pub(crate) fn is_immediate(&self) -> bool {
        matches!(self, Store::Memory(..))
    }

    /// Reads the tables as this store knows them. A reader of a file does not wait for writers.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        match self {
            Store::Memory(database, _) => work(database),
            Store::File(file) => file.read(work).await,
        }
    }

    /// Writes the tables as this store knows them. Writers of a file take turns.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        match self {
            Store::Memory(database, _) => work(database),
            Store::File(file) => file.write(work).await,
        }
    }

    /// Notes in a file that something was stored now. What was stored stays so, whatever becomes of this: the next write notes it then.
    pub(crate) fn note(&self, db: &Database) {
        if let Store::File(file) = self {
            let _ = file.date.note(db);
        }
    }

    /// Works on the tables as the file has them now, whatever this store remembers of them.
    pub(crate) async fn ask_anew<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        match self {
            Store::Memory(database, _) => work(database),
            Store::File(file) => file.ask_anew(work).await,
        }
    }
}

impl Access {
    fn open(self, path: &str, turnstile: &Turnstile) -> Done<Opened> {
        if self == Access::Write {
            file::make(Path::new(path), pause).map_err(failed)?;
        }
        file::has_one_name(Path::new(path)).map_err(failed)?;
        // Before the file is opened: if it is replaced in between, the next request opens it again.
        let identity = file::identity(Path::new(path)).map_err(failed)?;
        let database = match self {
            Access::Write => open(path, turnstile)?,
            Access::Look => copy(path)?,
        };
        Ok(Opened { database, identity })
    }
}

/// Opens the file, and blocks. Tries again while the file is busy, until [`OPENS_WITHIN`] has passed. A refused opening changed nothing
/// that the next one does not bring to its end.
fn open(path: &str, turnstile: &Turnstile) -> Done<Database> {
    let until = now() + OPENS_WITHIN;
    loop {
        match open_in_turn(path, turnstile) {
            Err(error) if is_busy(&error) && now() < until => pause(),
            done => return done,
        }
    }
}

/// Opening brings the file up to date, which is a write even where there is nothing to do.
fn open_in_turn(path: &str, turnstile: &Turnstile) -> Done<Database> {
    let file = path.to_owned();
    turnstile.write(Path::new(path), move || {
        let database = Database::new(&file)?;
        unmade::remove(&database)?;
        Ok(database)
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "opening blocks, as it says, and may be called where there is no runtime"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Copies the tables, as they are now, into memory. A file that no process has open has no log beside it, and is read as it stands. It is
/// read again if a process has opened, closed or written it meanwhile.
fn copy(path: &str) -> Done<Database> {
    let uri = file::uri(path);
    let state = || file::state(Path::new(path)).map_err(gone);
    let take = |is_open: bool| {
        let database = Database::memory()?;
        let how = if is_open { "" } else { "&immutable=1" };
        database.restore_from(&format!("{uri}?mode=ro{how}"))?;
        Ok(database)
    };
    for _ in 1..TRIES {
        let before = state()?;
        let copy = take(before.has_log);
        if state()? == before {
            return copy;
        }
    }
    take(state()?.has_log)
}

impl File {
    async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        let file = self.clone();
        let read = move || work(&file.current()?);
        self.ask_often(read).await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        let file = self.clone();
        let in_turn = move || {
            let (database, work) = (file.current()?, work.clone());
            file.turnstile
                .write(Path::new(&*file.path), move || work(&database))
        };
        self.ask_often(in_turn).await
    }

    async fn ask_anew<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        let file = self.clone();
        let again = move || match (file.current()?, file.access) {
            (copy, Access::Look) => work(&copy),
            (_opened, Access::Write) => work(&open_in_turn(&file.path, &file.turnstile)?),
        };
        self.ask_often(again).await
    }

    /// Returns the file that has the name now, opened.
    fn current(&self) -> Done<Database> {
        let path = Path::new(&*self.path);
        let identity = file::identity(path).map_err(gone)?;
        if self.access == Access::Look {
            let copy = copy(&self.path)?;
            self.date.suppose(&copy)?;
            return Ok(copy);
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.identity != identity {
            *opened = self.access.open(&self.path, &self.turnstile)?;
            self.date.forget();
        }
        let database = opened.database.clone();
        drop(opened);
        let in_turn = |begin: Begin| self.turnstile.write(path, move || begin.run());
        self.date.learn(&database, in_turn)?;
        Ok(database)
    }

    /// Runs the work off the runtime's threads, because SQLite blocks. Tries again while the file is busy, [`TRIES`] times in all at most.
    async fn ask_often<T: Send + 'static>(
        &self,
        work: impl Fn() -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        for _ in 1..TRIES {
            match ask_once(work.clone()).await {
                Err(error) if is_busy(&error) => {}
                done => return done,
            }
        }
        ask_once(work).await
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "not work of a client: the engine answers, whoever still listens"
)]
async fn ask_once<T: Send + 'static>(work: impl Fn() -> Done<T> + Send + 'static) -> Done<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(DynoxideError::InternalServerError(error.to_string())))
}

/// Whether another process held the file for too long. Then nothing was changed, because a write begins by taking the file.
fn is_busy(error: &DynoxideError) -> bool {
    let text = error.to_string();
    text == BackendError::Locked.to_string() || text.contains("database is locked")
}

fn failed(error: std::io::Error) -> DynoxideError {
    DynoxideError::InternalServerError(error.to_string())
}

/// A file that is gone has no tables.
fn gone(error: std::io::Error) -> DynoxideError {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            DynoxideError::ResourceNotFoundException("the file is gone".to_owned())
        }
        _ => failed(error),
    }
}

fn not_text() -> DynoxideError {
    DynoxideError::ValidationException("the path is not valid Unicode".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_hold_is_busy_and_nothing_else_is() {
        assert!(is_busy(&DynoxideError::from(BackendError::Locked)));
        let broken = BackendError::Io("disk full".to_owned());
        assert!(!is_busy(&DynoxideError::from(broken)));
        assert!(!is_busy(&not_text()));
    }

    /// Clients slow down when they are throttled, but a file is busy only for an instant.
    #[test]
    fn a_busy_file_is_no_throttling() {
        let busy = DynoxideError::from(BackendError::Locked);
        assert_eq!(busy.status_code(), 500);
        assert!(
            busy.to_json().contains("#InternalServerError"),
            "{}",
            busy.to_json()
        );
    }
}
