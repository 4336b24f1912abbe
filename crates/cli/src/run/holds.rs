//! What a command asks for, and what it holds then: one lock, a share of one, or several.

use std::future::{Future, pending};
use std::time::Duration;

use fairlock::{
    Error, FairLock, LockClient, LockGuard, LockLost, MultiLock, MultiLockGuard, PlaceId,
    RecordWait, Semaphore, Ticket, Waiting,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::args::claim::Share;
use crate::args::commands::Claim;
use crate::text::shown;

/// What is asked for.
pub(super) enum Asks {
    Exclusive(FairLock),
    Reader(FairLock),
    Permits(Semaphore, u64),
    Several(MultiLock),
}

impl Asks {
    pub(super) fn of(claim: &Claim, locks: &LockClient) -> Result<Asks, Error> {
        let lock = || locks.fair_lock(&claim.lock);
        let asks = match claim.share() {
            Share::Exclusive => Asks::Exclusive(lock()?),
            Share::Reader => Asks::Reader(lock()?),
            Share::Permits { total, take } => {
                Asks::Permits(locks.semaphore(&claim.lock, total)?, take)
            }
            Share::Several => Asks::Several(locks.multi_lock(claim.locks())?),
        };
        let asks = match claim.max_hold {
            Some(most) => asks.max_hold(most),
            None => asks,
        };
        Ok(match claim.min_hold {
            Some(least) => asks.min_hold(least),
            None => asks,
        })
    }

    fn max_hold(self, most: Duration) -> Asks {
        match self {
            Asks::Exclusive(lock) => Asks::Exclusive(lock.max_hold(most)),
            Asks::Reader(lock) => Asks::Reader(lock.max_hold(most)),
            Asks::Permits(semaphore, take) => Asks::Permits(semaphore.max_hold(most), take),
            Asks::Several(locks) => Asks::Several(locks.max_hold(most)),
        }
    }

    fn min_hold(self, least: Duration) -> Asks {
        match self {
            Asks::Exclusive(lock) => Asks::Exclusive(lock.min_hold(least)),
            Asks::Reader(lock) => Asks::Reader(lock.min_hold(least)),
            Asks::Permits(semaphore, take) => Asks::Permits(semaphore.min_hold(least), take),
            Asks::Several(locks) => Asks::Several(locks.min_hold(least)),
        }
    }

    /// Sets an observer of the wait, which gets the name of the lock that is waited for.
    pub(super) fn observed(
        self,
        observer: impl Fn(&str, &Waiting) + Send + Sync + 'static,
    ) -> Asks {
        match self {
            Asks::Exclusive(lock) => Asks::Exclusive(observed(lock, observer)),
            Asks::Reader(lock) => Asks::Reader(observed(lock, observer)),
            Asks::Permits(semaphore, take) => {
                let name = semaphore.name().to_owned();
                Asks::Permits(
                    semaphore.observed(move |waiting| observer(&name, waiting)),
                    take,
                )
            }
            Asks::Several(locks) => Asks::Several(locks.observed(observer)),
        }
    }

    pub(super) async fn acquire(&self, wait: RecordWait) -> Result<Holds, Error> {
        match self {
            Asks::Exclusive(lock) => lock.acquire(wait).await.map(Holds::One),
            Asks::Reader(lock) => lock.acquire_shared(wait).await.map(Holds::One),
            Asks::Permits(semaphore, take) => {
                semaphore.acquire_many(*take, wait).await.map(Holds::One)
            }
            Asks::Several(locks) => locks.acquire(wait).await.map(Holds::Several),
        }
    }
}

fn observed(lock: FairLock, observer: impl Fn(&str, &Waiting) + Send + Sync + 'static) -> FairLock {
    let name = lock.name().to_owned();
    lock.observed(move |waiting| observer(&name, waiting))
}

/// What a command holds.
pub(super) enum Holds {
    One(LockGuard),
    Several(MultiLockGuard),
}

impl Holds {
    /// The hold of each lock, in the order in which they were taken.
    pub(super) fn guards(&self) -> &[LockGuard] {
        match self {
            Holds::One(guard) => std::slice::from_ref(guard),
            Holds::Several(guard) => guard.guards(),
        }
    }

    /// The ticket of the hold of this lock.
    pub(super) fn ticket(&self, lock: &str) -> Option<Ticket> {
        let guard = self.guards().iter().find(|guard| guard.name() == lock);
        guard.map(LockGuard::ticket)
    }

    pub(super) fn places(&self) -> Vec<PlaceId> {
        self.guards().iter().map(LockGuard::place_id).collect()
    }

    /// How long all of the holds last if no renewal succeeds from now on.
    pub(super) fn remaining(&self) -> Duration {
        let remaining = self.guards().iter().map(LockGuard::remaining);
        remaining.min().unwrap_or_default()
    }

    /// The first hold whose lease is ending.
    pub(super) fn in_danger(&self) -> Option<&LockGuard> {
        self.guards().iter().find(|guard| guard.in_danger())
    }

    /// Why the newest renewal of one of them did not succeed.
    pub(super) fn trouble(&self) -> Option<String> {
        self.guards().iter().find_map(LockGuard::trouble)
    }

    /// Resolves when the first of them is lost.
    pub(super) fn lost(&self) -> impl Future<Output = LockLost> + use<> {
        let mut losses: FuturesUnordered<_> = self.guards().iter().map(LockGuard::lost).collect();
        async move {
            match losses.next().await {
                Some(lost) => lost,
                None => pending().await,
            }
        }
    }

    pub(super) async fn release(self) -> Result<(), Error> {
        match self {
            Holds::One(guard) => guard.release().await,
            Holds::Several(guard) => guard.release().await,
        }
    }
}

/// The names of locks, as a message has them.
pub(super) fn quoted<'a>(locks: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = locks.map(|lock| format!("`{}`", shown(lock))).collect();
    names.join(", ")
}
