//! Faults planted in the soak itself, to check that it notices.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use fairlock::{Error, HeldLocks, LockClient, LockGuard, RecordWait};

use crate::soak::host::LEASES;
use crate::soak::names::HOT;
use crate::soak::options::Plant;
use crate::soak::stage::{Soak, spawn};

const BETWEEN_LEAKS: Duration = Duration::from_millis(200);
const BETWEEN_SHUTDOWNS: Duration = Duration::from_millis(500);
const TO_FINISH: Duration = Duration::from_secs(30);
/// A lock that no caller asks for.
const KEPT: &str = "kept";
/// A name that has an item and is no lock.
const PLANTED: &str = "planted";
const ROW: &str = "fairlock/row";
const LEAKED: usize = 1 << 18;

/// Does harm until the soak ends, if a fault is planted.
pub(crate) async fn work(soak: &Soak) {
    match soak.ground.options.plant {
        Some(Plant::Leak) => leak(soak).await,
        Some(Plant::Stall) => stall(soak).await,
        Some(Plant::Panic) => spawn(panics()),
        Some(Plant::Surprise) => shut_down(soak).await,
        Some(Plant::Stuck) => std::future::pending().await,
        Some(Plant::Unfinished) => cut_off(soak).await,
        Some(Plant::Left) => leave(soak).await,
        Some(Plant::Overlap | Plant::Order | Plant::Stale | Plant::Refuse) | None => {}
    }
}

#[expect(clippy::panic, reason = "planted")]
async fn panics() {
    panic!("planted");
}

async fn leak(soak: &Soak) {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|here| Ok((here.local_addr()?, here)));
    let Ok((address, listener)) = listener else {
        return;
    };
    while soak.goes_on(BETWEEN_LEAKS).await {
        let connection = TcpStream::connect(address);
        let accepted = listener.accept();
        let memory = vec![1_u8; LEAKED];
        spawn(async move {
            let _kept = (connection, accepted, memory);
            std::future::pending::<()>().await;
        });
    }
}

async fn stall(soak: &Soak) {
    let Ok(locks) = soak.steady() else { return };
    let Ok(lock) = locks.fair_lock(HOT) else {
        return;
    };
    tokio::select! {
        biased;
        () = soak.stop.cancelled() => {}
        _held = async {
            let guard = lock.acquire(RecordWait::Infinite).await;
            std::future::pending::<()>().await;
            guard
        } => {}
    }
    locks.shutdown(HeldLocks::Release, TO_FINISH).await;
}

/// Repeated, because another client may have taken its place.
async fn shut_down(soak: &Soak) {
    while soak.goes_on(BETWEEN_SHUTDOWNS).await {
        let host = soak.host(0);
        host.locks.shutdown(HeldLocks::Release, TO_FINISH).await;
    }
}

async fn cut_off(soak: &Soak) {
    soak.stop.cancelled().await;
    // The client with the longest lease, because the release is given up when the lease ends.
    let host = soak.host(LEASES.len() - 1);
    let _kept = hold(&host.locks).await;
    host.strand();
}

async fn leave(soak: &Soak) {
    let Ok(locks) = soak.steady() else { return };
    let guard = hold(&locks).await;
    spawn(async move {
        let _kept = (locks, guard);
        std::future::pending::<()>().await;
    });
    if let Err(trouble) = soak.table().put(PLANTED, ROW).await {
        soak.findings.add(format!("surprise: the table: {trouble}"));
    }
}

async fn hold(locks: &LockClient) -> Result<LockGuard, Error> {
    let lock = locks.fair_lock(KEPT)?;
    lock.acquire(RecordWait::Infinite).await
}
