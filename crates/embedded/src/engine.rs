//! Answers DynamoDB's requests from tables in this process or in a file.

use std::path::Path;
use std::sync::Arc;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use dynoxide::DynoxideError;

use crate::answer::Answer;
use crate::store::{Access, Store};
use crate::time::WallClock;
use crate::{operations, ttl};

const UNWRITTEN: &str = "this engine only reads its file";

/// A private DynamoDB: its tables live as long as the engine and its clones, or in a file.
///
/// Cheap to clone; the clones share the tables.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock_embedded::Engine;
///
/// let engine = Engine::memory()?;
/// let client: aws_sdk_dynamodb::Client = engine.client();
/// assert!(client.describe_table().table_name("none").send().await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    store: Store,
    dated: bool,
    shows_old_values: bool,
}

/// The engine could not be opened. Check the path, its permissions, and that the file is a database of this engine.
///
/// # Examples
///
/// ```
/// use fairlock_embedded::{Engine, EngineError};
///
/// let refused: Result<Engine, EngineError> = Engine::file("/no/such/directory/locks.db");
/// assert!(refused.is_err());
/// ```
#[derive(Debug, thiserror::Error)]
#[error("cannot open the engine's tables in {place}")]
pub struct EngineError {
    place: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Engine {
    /// Opens an engine whose tables are in memory and end with it.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if SQLite cannot make a database in memory.
    ///
    /// # Examples
    ///
    /// ```
    /// let engine = fairlock_embedded::Engine::memory()?;
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    pub fn memory() -> Result<Engine, EngineError> {
        Store::memory()
            .map(Engine::on)
            .map_err(EngineError::at("memory"))
    }

    /// Opens an engine whose tables are in the file at `path`. A missing file is made, with the mode that the umask asks for. Several
    /// engines, also in several processes on one machine, may use the file at the same time.
    ///
    /// Each request uses the file that has this name at that time. After the file was deleted there are no tables, until another file is
    /// made, which has tables of its own.
    ///
    /// While the file is open, SQLite keeps two more files beside it, by its name. So a file must have one name. A file with hard links is
    /// refused. On Linux, so is a file that is mounted by itself into a container; mount its directory instead.
    ///
    /// Blocks until the file is open. The engine tries for 30 s while other processes keep the file busy, for example to bring a new file
    /// up to date. A try that is under way by then may take as long again.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if the file cannot be opened or made, has several names, or is no database of this engine.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock_embedded::Engine;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let one = Engine::file(directory.path().join("locks.db"))?;
    /// let other = Engine::file(directory.path().join("locks.db"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn file(path: impl AsRef<Path>) -> Result<Engine, EngineError> {
        Engine::at(path.as_ref(), Access::Write)
    }

    /// Opens an engine that reads the tables in the file at `path`, and refuses to write. It needs no permission to write the file or its
    /// directory. Each request copies the file into memory, so that it sees what the file has then.
    ///
    /// The engine leaves no other file beside a file that no process has open. While a process has it open, the engine reads as SQLite
    /// does. The engine may copy at the very moment at which the last writer closes the file. Then SQLite leaves its log there, with what
    /// is in it, until a process writes again. So where such engines read a file, do not copy the file alone, without its log.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if the file is not there, cannot be read, or is no database of this engine.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock_embedded::Engine;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let file = directory.path().join("locks.db");
    /// drop(Engine::file(&file)?);
    /// let client = Engine::read_only(&file)?.client();
    /// assert!(client.list_tables().send().await.is_ok());
    /// assert!(client.delete_table().table_name("locks").send().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_only(path: impl AsRef<Path>) -> Result<Engine, EngineError> {
        Engine::at(path.as_ref(), Access::Look)
    }

    fn at(path: &Path, access: Access) -> Result<Engine, EngineError> {
        Store::file(path, access)
            .map(Engine::on)
            .map_err(EngineError::at(&path.to_string_lossy()))
    }

    fn on(store: Store) -> Engine {
        Engine {
            store,
            dated: true,
            shows_old_values: true,
        }
    }

    /// Sets the clock that the `Date` of answers and [`expire`](Engine::expire) follow. The default is the system's clock. That clock is
    /// read when an engine in memory begins, and when a file is used for the first time after a boot. From then on the time since boot
    /// counts, so that a step of the clock changes nothing. A `Date` in a file never goes back.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), fairlock_embedded::EngineError> {
    /// use std::time::Duration;
    /// use fairlock_embedded::{Engine, WallClock};
    ///
    /// #[derive(Debug)]
    /// struct TestClock(tokio::time::Instant);
    ///
    /// impl WallClock for TestClock {
    ///     fn unix(&self) -> Duration {
    ///         Duration::from_secs(1_700_000_000) + self.0.elapsed()
    ///     }
    /// }
    ///
    /// let clock = TestClock(tokio::time::Instant::now());
    /// let engine = Engine::memory()?.with_clock(clock);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the clock is the returned engine's"]
    pub fn with_clock(mut self, clock: impl WallClock + 'static) -> Engine {
        self.store.set_clock(Arc::new(clock));
        self
    }

    /// Says that nobody but processes of this machine uses the tables of this engine. If all engines on a file say so, its answers after a
    /// reboot have a header `x-fairlock-boot-began`, in seconds since 1970. No process that wrote before that time is alive. A boot counts as
    /// another one if its id differs and less time has passed since it began. If one engine on the file does not say so, later reboots have
    /// no such effect, for good.
    ///
    /// Do not say so of a file that other machines can see, or of an engine behind a server.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::Engine;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let engine = Engine::file(directory.path().join("locks.db"))?.private_to_machine();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "the returned engine is private"]
    pub fn private_to_machine(mut self) -> Engine {
        self.store.set_private();
        self
    }

    /// Makes the engine act like one that does not know `ReturnValuesOnConditionCheckFailure`: a failed condition shows no item.
    ///
    /// # Examples
    ///
    /// ```
    /// let old = fairlock_embedded::Engine::memory()?.without_old_values();
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the silence is the returned engine's"]
    pub fn without_old_values(mut self) -> Engine {
        self.shows_old_values = false;
        self
    }

    /// Makes the engine act as if a proxy removed `Date` from its answers.
    ///
    /// # Examples
    ///
    /// ```
    /// let dateless = fairlock_embedded::Engine::memory()?.without_date();
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the silence is the returned engine's"]
    pub fn without_date(mut self) -> Engine {
        self.dated = false;
        self
    }

    /// Deletes the items whose TTL attribute is past by the engine's clock, though not by more than five years. DynamoDB's TTL does this in
    /// its own time. Returns how many items there were.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if the file could not be read or written.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = fairlock_embedded::Engine::memory()?;
    /// assert_eq!(engine.expire().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn expire(&self) -> Result<usize, EngineError> {
        let store = self.store.clone();
        let expire = move |db: &_| ttl::expire(db, store.date().unwrap_or_default());
        let swept = self.store.ask_anew(expire).await;
        swept.map_err(EngineError::at("a sweep"))
    }

    /// Whether the engine answers without waiting.
    pub(crate) fn is_immediate(&self) -> bool {
        self.store.is_immediate()
    }

    pub(crate) async fn answer(&self, operation: &Arc<str>, body: &Arc<[u8]>) -> HttpResponse {
        let (name, body) = (Arc::clone(operation), Arc::clone(body));
        let work = move |db: &_| operations::run(db, &name, &body);
        let said = match () {
            () if !self.store.may_write() && !operations::only_reads(operation) => {
                Err(DynoxideError::AccessDeniedException(UNWRITTEN.to_owned()))
            }
            () if operations::describes_a_table(operation) => self.store.ask_anew(work).await,
            () if operations::only_reads(operation) => self.store.read(work).await,
            () if !operations::stores(operation) => self.store.write(work).await,
            () => {
                let store = self.store.clone();
                let stores = move |db: &_| {
                    let done = work(db)?;
                    store.note(db);
                    Ok(done)
                };
                self.store.write(stores).await
            }
        };
        self.respond(self.word(said))
    }

    /// Renders an answer as it leaves this engine, whether or not the engine wrote it.
    pub(crate) fn respond(&self, answer: Answer) -> HttpResponse {
        let boot_began = self.store.boot_began();
        answer.into_http(self.store.date().filter(|_| self.dated), boot_began)
    }

    fn word(&self, said: Result<Option<String>, DynoxideError>) -> Answer {
        match said {
            Ok(Some(body)) => Answer::new(200, body),
            Ok(None) => Answer::unknown_operation(),
            Err(error) => self.refusal(error),
        }
    }

    fn refusal(&self, error: DynoxideError) -> Answer {
        match self.shows_old_values {
            true => refused(&error),
            false => refused(&without_items(error)),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl EngineError {
    fn at(place: &str) -> impl FnOnce(DynoxideError) -> EngineError {
        move |error| EngineError {
            place: place.to_owned(),
            source: Box::new(error),
        }
    }
}

fn refused(error: &DynoxideError) -> Answer {
    Answer::new(error.status_code(), error.to_json())
}

fn without_items(error: DynoxideError) -> DynoxideError {
    use DynoxideError::{ConditionalCheckFailedException, TransactionCanceledException};
    match error {
        ConditionalCheckFailedException(message, _) => {
            ConditionalCheckFailedException(message, None)
        }
        TransactionCanceledException(message, mut reasons) => {
            reasons.iter_mut().for_each(|reason| reason.item = None);
            TransactionCanceledException(message, reasons)
        }
        other => other,
    }
}
