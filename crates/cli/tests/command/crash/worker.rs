//! The contending processes: one with a client of its own, and the command of a `fairlock run`.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a process of a test that cannot go on has failed; it holds for real time"
)]

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use fairlock::{FairLock, LockClient, LockClientBuilder, LockGuard, RecordWait, UdpNotifier};
use fairlock_cli::contention::monotonic::now_ns;

use super::ledger::Pen;
use super::location::Location;

pub(crate) const LOCK: &str = "crashed";
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// Where the ledger listens.
pub(crate) const LEDGER: &str = "FAIRLOCK_CRASH_LEDGER";
/// If it is set, the worker ignores that it lost the lock.
pub(crate) const IGNORES_LOSS: &str = "FAIRLOCK_CRASH_IGNORES_LOSS";
/// The port at which the worker is notified, if it is.
pub(crate) const NOTIFY: &str = "FAIRLOCK_CRASH_NOTIFY";

const BETWEEN_WRITES: Duration = Duration::from_millis(10);
/// Of one hold. Fewer writes are as likely.
const MAX_WRITES: u64 = 40;

fn pen() -> Pen {
    Pen::to(&PathBuf::from(std::env::var_os(LEDGER).unwrap()))
}

/// Takes turns until it is killed, or until the test ends, which keeps its input open.
pub(crate) fn contend() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let locks = Location::of_environment().locks().lease_duration(LEASE);
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let locks = notified(locks).build().unwrap();
        let lock = locks.fair_lock(LOCK).unwrap();
        let mut pen = pen();
        loop {
            turn(&lock, &mut pen).await;
            says_what_it_heard(&locks, &mut pen);
        }
    });
}

/// At its port, or at any port if another process was faster.
fn notified(locks: LockClientBuilder) -> LockClientBuilder {
    let Ok(port) = std::env::var(NOTIFY) else {
        return locks;
    };
    let listens = |port| UdpNotifier::bind((Ipv4Addr::LOCALHOST, port));
    let notifier = listens(port.parse().unwrap()).or_else(|_| listens(0));
    locks.notifier(notifier.unwrap())
}

fn says_what_it_heard(locks: &LockClient, pen: &mut Pen) {
    if let Some([_, received, dropped]) = locks.notification_counts() {
        pen.says("heard", received - dropped, 0, 0);
    }
}

async fn turn(lock: &FairLock, pen: &mut Pen) {
    // If the machine is too busy to answer in time, that is no fault of the lock: try again.
    let Ok(guard) = lock.acquire(RecordWait::Infinite).await else {
        return tokio::time::sleep(BETWEEN_WRITES).await;
    };
    let ticket = guard.ticket().get();
    let (from, until) = believes(&guard);
    if !pen.says("granted", ticket, from, until) {
        return;
    }
    if hold(&guard, pen, from).await {
        let now = now_ns();
        pen.says("done", ticket, from, now);
        // If the release fails, the lease ends the hold.
        let _ = guard.release().await;
    }
}

/// Now, and until when the hold may be believed in. The instant is taken first, so the hold was still believed in at that instant if the
/// second value is later.
fn believes(guard: &LockGuard) -> (u64, u64) {
    let now = now_ns();
    (now, now + guard.remaining().as_nanos() as u64)
}

/// Writes for some time. Returns whether it held the lock for all of it.
async fn hold(guard: &LockGuard, pen: &mut Pen, from: u64) -> bool {
    let ignores = std::env::var_os(IGNORES_LOSS).is_some();
    for _ in 0..now_ns() % MAX_WRITES {
        tokio::time::sleep(BETWEEN_WRITES).await;
        let (now, until) = believes(guard);
        let until = if ignores { until.max(now) } else { until };
        if until == now && !ignores {
            return false;
        }
        if !pen.says("writes", guard.ticket().get(), from, until) && !ignores {
            return false;
        }
    }
    guard.is_held() || ignores
}

/// The command of a `fairlock run`: writes, and knows of no lease. It believes from its start to its newest write.
pub(crate) fn write() {
    let ticket = std::env::var("FAIRLOCK_TICKET").unwrap().parse().unwrap();
    let (mut pen, from) = (pen(), now_ns());
    for _ in 0..5 + now_ns() % MAX_WRITES {
        pen.says("writes", ticket, from, now_ns());
        std::thread::sleep(BETWEEN_WRITES);
    }
    pen.says("done", ticket, from, now_ns());
}
