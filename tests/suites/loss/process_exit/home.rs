//! A file that processes share, the test's own client of it, and the processes that end.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::Engine;
use fairlock::{FairLock, LockClient, LockGuard, RecordWait};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tracing::Level;

use fairlock_testkit::log_lines::Lines;

/// As short as a busy machine can still renew in time.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

const FILE: &str = "FAIRLOCK_ENDINGS_FILE";
/// The owner name of the test itself.
const TEST: &str = "the test";
const LOCK: &str = "FAIRLOCK_ENDINGS_LOCK";
const ROLE: &str = "FAIRLOCK_ENDINGS_ROLE";
const WARNED: &str = "was dropped without `shutdown`";

pub(crate) struct Home {
    directory: TempDir,
    engine: Engine,
    locks: LockClient,
}

/// What a process printed until it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    said: String,
}

fn client(engine: &Engine, owner: &str, lease: Duration) -> LockClient {
    let builder = LockClient::builder(engine.client())
        .table("locks")
        .successor_slots(1);
    builder.owner(owner).lease_duration(lease).build().unwrap()
}

fn of_test(engine: &Engine) -> LockClient {
    client(engine, TEST, Duration::from_secs(30))
}

impl Home {
    pub(crate) async fn new() -> Home {
        let directory = TempDir::new().unwrap();
        let engine = Engine::file(directory.path().join("locks.db")).unwrap();
        let locks = of_test(&engine);
        locks.create_table().await.unwrap();
        Home {
            directory,
            engine,
            locks,
        }
    }

    pub(crate) fn lock(&self, name: &str) -> FairLock {
        self.locks.fair_lock(name).unwrap()
    }

    pub(crate) async fn acquire(&self, name: &str) -> LockGuard {
        self.lock(name).acquire(RecordWait::Infinite).await.unwrap()
    }

    /// Another client of the test waits in the queue, and has settled there.
    pub(crate) async fn waits(&self, name: &str) -> JoinHandle<LockGuard> {
        let lock = of_test(&self.engine).fair_lock(name).unwrap();
        let waiting =
            tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.unwrap() });
        while self.lock(name).inspect().await.unwrap().queue.is_empty() {
            tokio::task::yield_now().await;
        }
        waiting
    }

    /// This program as one of the tests of this suite that are processes, in a role.
    pub(crate) fn process(&self, test: &str, role: &str, lock: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = format!("loss::process_exit::{test}");
        command.args(["--exact", &test, "--ignored", "--nocapture"]);
        command.env(ROLE, role);
        command.env(FILE, self.directory.path().join("locks.db"));
        command.env(LOCK, lock).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Runs a process to its end.
    pub(crate) async fn ends(&self, role: &str, lock: &str) -> Ended {
        let process = self.process("ending::plays", role, lock).output();
        let output = process.await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("running 1 test"), "{role}: {said}");
        Ended { said }
    }

    pub(crate) async fn assert_waits_for_nobody_but(&self, lock: &str, others: usize) {
        let state = self.lock(lock).inspect().await.unwrap();
        assert_eq!(state.queue.len(), others, "{state:?}");
        let holder = state.holder.unwrap();
        assert_eq!(holder.owner, TEST, "{lock}");
    }

    /// Whether another process holds the lock, or any waiter is left.
    pub(crate) async fn is_left_by_others(&self, lock: &str) -> bool {
        let state = self.lock(lock).inspect().await.unwrap();
        let holder = state.holder.as_ref();
        holder.is_some_and(|holder| holder.owner != TEST) || !state.queue.is_empty()
    }

    /// The lock has no holder and no waiter, and one item of it is left.
    pub(crate) async fn assert_is_free(&self, lock: &str) {
        let guard = self.lock(lock).try_acquire().await.unwrap();
        assert!(guard.is_some(), "{lock} is taken");
        guard.unwrap().release().await.unwrap();
        self.lock(lock).sweep().await.unwrap();
        let rows = self.engine.client().query().table_name("locks");
        let rows = rows.key_condition_expression("pk = :pk");
        let rows = rows.expression_attribute_values(":pk", AttributeValue::S(lock.into()));
        assert_eq!(rows.send().await.unwrap().count, 1, "{lock}");
    }
}

impl Ended {
    /// The process printed no warning.
    pub(crate) fn is_silent(&self) -> bool {
        !self.said.contains("WARN")
    }

    pub(crate) fn warns_of(&self, lock: &str) -> bool {
        let mut warnings = self.said.lines().filter(|line| line.contains(WARNED));
        warnings.any(|line| line.contains(&format!("{lock:?}")))
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.said.contains("panicked at")
    }
}

/// In a process of the test: the lock that it is about, by a client of its own whose warnings are printed.
pub(crate) fn of_this_process() -> (LockClient, FairLock) {
    let warnings = Lines {
        upto: Level::WARN,
        to: |line| eprintln!("{line}"),
    };
    tracing::subscriber::set_global_default(warnings).unwrap();
    let engine = Engine::file(PathBuf::from(std::env::var_os(FILE).unwrap())).unwrap();
    let locks = client(&engine, "a process", LEASE);
    let lock = locks.fair_lock(lock_name()).unwrap();
    (locks, lock)
}

pub(crate) fn lock_name() -> String {
    std::env::var(LOCK).unwrap()
}

pub(crate) fn role() -> String {
    std::env::var(ROLE).unwrap()
}
