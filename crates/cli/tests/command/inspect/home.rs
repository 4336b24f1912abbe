//! A directory with a file of locks, the command in it, and clients that hold its locks and wait for them.

use std::path::PathBuf;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::Engine;
use fairlock::{LockClient, LockClientBuilder, LockGuard, LockState, RecordWait};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::command::{Said, fairlock, said};

pub(crate) const UNAVAILABLE: i32 = 69;

/// The commands for a table.
pub(crate) const ALL: [&str; 5] = ["table create", "table check", "show a", "ls", "ls --json"];

/// An empty directory, and the command in it.
pub(crate) struct Home(pub(crate) TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Home(TempDir::new().unwrap())
    }

    /// Also has a table, in `locks.db`.
    pub(crate) fn with_table() -> Self {
        let home = Home::new();
        home.run("table create --local locks.db").assert_done();
        home
    }

    pub(crate) fn run(&self, line: &str) -> Said {
        self.run_words(&line.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn run_words(&self, line: &[&str]) -> Said {
        said(&mut fairlock(self.0.path(), line))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    pub(crate) fn builder(&self) -> LockClientBuilder {
        let engine = Engine::file(self.file("locks.db")).unwrap();
        LockClient::builder(engine.client()).table("fairlock")
    }

    /// A client with one slot, so that a second waiter has none.
    pub(crate) fn host(&self, owner: &str) -> LockClient {
        self.builder()
            .owner(owner)
            .successor_slots(1)
            .build()
            .unwrap()
    }

    /// Puts a damaged item in place of a lock's item.
    pub(crate) async fn damage(&self, lock: &str) {
        let engine = Engine::file(self.file("locks.db")).unwrap();
        let put = engine.client().put_item().table_name("fairlock");
        let put = put.item("pk", AttributeValue::S(lock.into()));
        let put = put.item("sk", AttributeValue::S("fairlock/#lock".into()));
        put.send().await.unwrap();
    }
}

/// Runs the command while the locks of this test are renewed.
pub(crate) async fn run(home: &Home, line: &[&str]) -> Said {
    let mut command = fairlock(home.0.path(), line);
    let run = tokio::task::spawn_blocking(move || said(&mut command));
    run.await.unwrap()
}

pub(crate) async fn hold(locks: &LockClient, lock: &str) -> LockGuard {
    let lock = locks.fair_lock(lock).unwrap();
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

/// Starts waiting. When this returns, the caller is in the queue with `before` others before it.
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, and polls of what it does"
)]
pub(crate) async fn wait_behind(
    before: usize,
    locks: &LockClient,
    lock: &str,
) -> JoinHandle<LockGuard> {
    let lock = locks.fair_lock(lock).unwrap();
    let onlooker = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.unwrap() });
    for _ in 0..3000 {
        if onlooker.inspect().await.unwrap().queue.len() > before {
            return waiting;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came into the queue");
}

/// Lock `deploy/prod` is held by alice, with bob and carol in the queue. `check` gets the library's own view of it.
pub(crate) async fn with_a_queue(home: &Home, check: impl AsyncFnOnce(LockState)) {
    let hosts @ [alice, bob, carol] = &["alice", "bob", "carol"].map(|owner| home.host(owner));
    for host in hosts {
        // The first answer tells DynamoDB's time, which later entries need.
        let lock = host.fair_lock("deploy/prod").unwrap();
        lock.inspect().await.unwrap();
    }
    let _guard = hold(alice, "deploy/prod").await;
    let waiting = [
        wait_behind(0, bob, "deploy/prod").await,
        wait_behind(1, carol, "deploy/prod").await,
    ];
    let lock = alice.fair_lock("deploy/prod").unwrap();
    check(lock.inspect().await.unwrap()).await;
    waiting.iter().for_each(JoinHandle::abort);
}
