//! Faults planted in the soak itself, to see that it notices.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use clap::ValueEnum;
use fairlock::RecordWait;

use crate::names::HOT;
use crate::soak::{Soak, spawn};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plant {
    /// Callers of the hot lock believe on for a while after they gave it back.
    Overlap,
    /// What the locks protect takes older tokens, and is told some.
    Stale,
    /// Memory, tasks and connections that nobody ends.
    Leak,
    /// Somebody has the hot lock and never gives it back.
    Stall,
}

const BETWEEN_LEAKS: Duration = Duration::from_millis(200);
const LEAKED: usize = 1 << 18;

/// Does harm until the soak ends, if that is what is planted.
pub(crate) async fn work(soak: &Soak) {
    match soak.options.plant {
        Some(Plant::Leak) => leak(soak).await,
        Some(Plant::Stall) => stall(soak).await,
        Some(Plant::Overlap | Plant::Stale) | None => {}
    }
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
    let held = soak.host(0).locks.fair_lock(HOT);
    let Ok(lock) = held else { return };
    tokio::select! {
        biased;
        () = soak.stop.cancelled() => {}
        _held = async {
            let guard = lock.acquire(RecordWait::Infinite).await;
            std::future::pending::<()>().await;
            guard
        } => {}
    }
}
