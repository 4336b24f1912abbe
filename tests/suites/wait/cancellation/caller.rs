//! What the client's caller does, and where it is dropped.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use fairlock::{Error, FairLock, Lease, LockClient, LockGuard, RecordWait};
use tokio::time::sleep;

use super::scene::{ALL, Act, Bounds, LONG, Scene, Step};
use fairlock_testkit::lab::SECOND;

/// The lease of a lock that a name holds.
pub(crate) const LEASED: Duration = Duration::from_secs(20);

pub(crate) type Caller = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) fn caller(locks: LockClient, scene: Scene, wait: RecordWait) -> Caller {
    Box::pin(async move {
        sleep(SECOND * scene.comes).await;
        if scene.knows_the_time {
            let other = locks.fair_lock("what time is it?").unwrap();
            other.sweep().await.unwrap();
        }
        match scene.act {
            Act::Lease(step) => has_leased(&locks, step, SECOND * scene.holds).await,
            _ => has_lock(&locks, scene, wait).await,
        }
    })
}

async fn has_lock(locks: &LockClient, scene: Scene, wait: RecordWait) {
    if scene.act == Act::AcquireTogether {
        // The caller before the batch, which is in the doorway, and the other caller of the batch.
        let takes_turn = || tokio::spawn(takes_turn(locks.fair_lock("a").unwrap()));
        drop((takes_turn(), takes_turn()));
        tokio::task::yield_now().await;
    }
    let asked = asks_within(locks, (scene.asks, scene.bounds), wait);
    let guard = match scene.act {
        Act::PassOn => before_another(locks, asked).await,
        _ => asked.await,
    };
    if !scene.act.has_lock() {
        return drop(guard);
    }
    let mut guard = guard.unwrap();
    sleep(SECOND * scene.holds).await;
    match scene.act {
        Act::Release => return guard.release().await.unwrap(),
        Act::PassOn => {
            drop(guard.check_item().unwrap());
            return guard.release().await.unwrap();
        }
        Act::Hold => pending().await,
        Act::Downgrade => guard.downgrade().await.unwrap(),
        Act::ReleaseSome => guard.release_some(10).await.unwrap(),
        Act::SetData => guard.set_data("mine").await.unwrap(),
        Act::ClearData => guard.clear_data().await.unwrap(),
        _ => {}
    }
    drop(guard);
    pending().await
}

/// Asks with another call behind it, which shares its place. The call before both is in the doorway.
async fn before_another(
    locks: &LockClient,
    asked: impl Future<Output = Result<LockGuard, Error>>,
) -> Result<LockGuard, Error> {
    let takes_turn = || drop(tokio::spawn(takes_turn(locks.fair_lock("a").unwrap())));
    takes_turn();
    tokio::task::yield_now().await;
    let another = async { takes_turn() };
    tokio::join!(asked, another).0
}

/// Asks for `permits` permits of lock `a`, or for all of them.
pub(crate) async fn asks(
    locks: &LockClient,
    permits: u64,
    wait: RecordWait,
) -> Result<LockGuard, Error> {
    asks_within(locks, (permits, Bounds::default()), wait).await
}

/// The same with bounds of the hold.
async fn asks_within(
    locks: &LockClient,
    (permits, bounds): (u64, Bounds),
    wait: RecordWait,
) -> Result<LockGuard, Error> {
    let mut lock = locks.fair_lock("a").unwrap();
    if bounds.min > 0 {
        lock = lock.min_hold(SECOND * bounds.min);
    }
    if bounds.max > 0 {
        lock = lock.max_hold(SECOND * bounds.max);
    }
    match permits {
        ALL => lock.acquire(wait).await,
        1 => lock.acquire_shared(wait).await,
        _ => {
            let lock = locks.semaphore("a", ALL).unwrap();
            lock.acquire_many(permits, wait).await
        }
    }
}

/// Takes a turn. If the client dies, there is no turn.
async fn takes_turn(lock: FairLock) {
    if let Ok(guard) = lock.acquire(RecordWait::Infinite).await {
        let _ = guard.release().await;
    }
}

pub(crate) async fn leases(locks: &LockClient) -> Result<Lease, Error> {
    let lock = locks.lease_lock("a").unwrap();
    lock.acquire("one", LEASED).await
}

async fn has_leased(locks: &LockClient, step: Step, holds: Duration) {
    let lock = locks.lease_lock("a").unwrap();
    let lease = match step {
        Step::InTurn => lock.acquire_in_turn("one", LEASED, LONG).await,
        Step::FromGuard => {
            let guard = asks(locks, ALL, LONG).await.unwrap();
            guard.into_lease("one", LEASED).await
        }
        Step::Acquire | Step::Extend | Step::Release => leases(locks).await,
    };
    let lease = lease.unwrap();
    sleep(holds).await;
    match step {
        Step::Acquire | Step::InTurn | Step::FromGuard => {}
        Step::Extend => drop(lock.extend(&lease, LEASED).await.unwrap()),
        Step::Release => lock.release(&lease).await.unwrap(),
    }
}
