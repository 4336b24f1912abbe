//! Clients of this process that hold locks in the file, and wait for them.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::Engine;
use fairlock::{LockClient, LockClientBuilder, LockGuard, LockState, RecordWait};
use tokio::task::JoinHandle;

use crate::home::Home;

impl Home {
    pub(crate) fn engine(&self) -> Engine {
        Engine::file(self.file("locks.db")).unwrap()
    }

    pub(crate) fn builder(&self) -> LockClientBuilder {
        LockClient::builder(self.engine().client()).table("fairlock")
    }

    /// A client with one slot, so that a second waiter has none.
    pub(crate) fn host(&self, owner: &str) -> LockClient {
        let builder = self.builder().owner(owner).successor_slots(1);
        builder.build().unwrap()
    }

    /// Puts a damaged item in place of a lock's item.
    pub(crate) async fn damage(&self, lock: &str) {
        let put = self.engine().client().put_item().table_name("fairlock");
        let [(pk, lock), (sk, item)] = key(lock);
        put.item(pk, lock).item(sk, item).send().await.unwrap();
    }
}

/// The key of a lock's item.
pub(crate) fn key(lock: &str) -> [(&'static str, AttributeValue); 2] {
    let text = |text: &str| AttributeValue::S(text.into());
    [("pk", text(lock)), ("sk", text("fairlock/#lock"))]
}

pub(crate) async fn hold(locks: &LockClient, lock: &str) -> LockGuard {
    let lock = locks.fair_lock(lock).unwrap();
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

/// Takes a turn, so that the lock is known and idle.
pub(crate) async fn use_once(locks: &LockClient, lock: &str) {
    hold(locks, lock).await.release().await.unwrap();
}

/// Starts waiting. When this returns, the caller is in the queue with `before` others before it.
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
