//! Where the tables are kept: in memory, or in a file that other processes use too.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dynoxide::storage_backend::BackendError;
use dynoxide::{Database, DynoxideError};

use crate::Clock;

/// How often a request is tried on a file that other processes keep busy. Each try waits up to five seconds for the
/// file, and one that found it busy changed nothing.
const TRIES: usize = 6;

/// How long opening is tried on a file that other processes keep busy. SQLite waits as long by itself, but not where
/// two want to change the journal of a new file at once: one of them is refused on the spot.
const OPENS_WITHIN: Duration = Duration::from_secs(30);
/// A new file is brought up to date in less.
const PAUSE: Duration = Duration::from_millis(10);

type Done<T> = Result<T, DynoxideError>;

#[derive(Clone)]
pub(super) enum Store {
    Memory(Database),
    File(File),
}

#[derive(Clone)]
pub(super) struct File {
    database: Database,
    path: Arc<str>,
}

impl Store {
    pub(super) fn memory() -> Done<Store> {
        Database::memory().map(Store::Memory)
    }

    pub(super) fn file(path: &Path) -> Done<Store> {
        let path = path.to_str().ok_or_else(not_text)?;
        let database = open(path)?;
        let path = Arc::from(path);
        Ok(Store::File(File { database, path }))
    }

    /// Whether asking takes no waiting, so that no task of its own is needed for it.
    pub(super) fn is_immediate(&self) -> bool {
        matches!(self, Store::Memory(_))
    }

    /// Works on the tables as this store knows them.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        match self {
            Store::Memory(database) => work(database),
            Store::File(file) => file.ask(work).await,
        }
    }

    /// Works on the tables as the file has them now, whatever this store remembers of them.
    pub(super) async fn ask_anew<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        match self {
            Store::Memory(database) => work(database),
            Store::File(file) => {
                let path = Arc::clone(&file.path);
                let anew = move |_: &Database| work(&Database::new(&path)?);
                file.ask(anew).await
            }
        }
    }
}

/// Blocks. Tries again while the file is busy, until [`OPENS_WITHIN`] is over: a refused opening changed nothing that
/// the next one does not bring to its end.
fn open(path: &str) -> Done<Database> {
    let clock = Clock::system();
    let until = clock.now() + OPENS_WITHIN;
    loop {
        match Database::new(path) {
            Err(error) if is_busy(&error) && clock.now() < until => pause(),
            done => return done,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "opening blocks, as it says, and may be called where there is no runtime"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}

impl File {
    /// Off the runtime's threads, because SQLite blocks; again while the file is busy, at most [`TRIES`] times.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Clone + Send + 'static,
    ) -> Done<T> {
        for _ in 1..TRIES {
            match self.ask_once(work.clone()).await {
                Err(error) if is_busy(&error) => {}
                done => return done,
            }
        }
        self.ask_once(work).await
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "not work of a client: the engine answers, whoever still listens"
    )]
    async fn ask_once<T: Send + 'static>(
        &self,
        work: impl Fn(&Database) -> Done<T> + Send + 'static,
    ) -> Done<T> {
        let database = self.database.clone();
        let done = tokio::task::spawn_blocking(move || work(&database)).await;
        done.unwrap_or_else(|error| Err(DynoxideError::InternalServerError(error.to_string())))
    }
}

/// Whether another process held the file for too long. Then nothing was changed: a write begins by taking the file.
fn is_busy(error: &DynoxideError) -> bool {
    let text = error.to_string();
    text == BackendError::Locked.to_string() || text.contains("database is locked")
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
}
