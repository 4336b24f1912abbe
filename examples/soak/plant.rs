//! Faults planted in the soak itself, to see that it notices.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use clap::ValueEnum;
use fairlock::{HeldLocks, RecordWait};

use crate::names::HOT;
use crate::soak::{Soak, spawn};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plant {
    /// Callers of the hot lock believe on for a while after they gave it back.
    Overlap,
    /// Grants are noted twice, the second time with a ticket that is not larger.
    Order,
    /// What the locks protect takes older tokens, and is told some.
    Stale,
    /// Holders write with a token that is older than their own, which is refused.
    Refuse,
    /// Memory, tasks and connections that nobody ends.
    Leak,
    /// Somebody has the hot lock and never gives it back.
    Stall,
    /// A task of nobody's panics.
    Panic,
}

const BETWEEN_LEAKS: Duration = Duration::from_millis(200);
const TO_FINISH: Duration = Duration::from_secs(30);
const LEAKED: usize = 1 << 18;

/// Does harm until the soak ends, if that is what is planted.
pub(crate) async fn work(soak: &Soak) {
    match soak.options.plant {
        Some(Plant::Leak) => leak(soak).await,
        Some(Plant::Stall) => stall(soak).await,
        Some(Plant::Panic) => spawn(panics()),
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
