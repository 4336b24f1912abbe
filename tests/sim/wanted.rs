//! What a caller asks for: a whole lock, or some of its permits.

use fairlock::{Error, FairLock, LeaseLock, LockClient, LockGuard, RecordWait, Semaphore, Waiting};
use fastrand::Rng;

use crate::bounds::Bounds;
use crate::plan::Sharing;
use crate::world::{Host, World};

/// The permits of a fair lock.
pub(crate) const ALL: u64 = 64;

#[derive(Clone)]
enum Lock {
    Fair(FairLock),
    Permits(Semaphore),
}

#[derive(Clone)]
pub(crate) struct Wanted {
    lock: Lock,
    pub(crate) permits: u64,
    pub(crate) of: u64,
    pub(crate) bounds: Bounds,
}

impl Wanted {
    /// Picks a lock, exclusively.
    pub(crate) fn alone(world: &World, host: &Host, lock: &str) -> Wanted {
        let known = host.known.clone();
        let watched = move |waiting: &Waiting| {
            if let Some(place) = &waiting.place_id {
                known.is_at(place);
            }
        };
        let (lock, of) = match world.plan.sharing {
            Sharing::None | Sharing::Readers => {
                let lock = host.locks.fair_lock(lock).unwrap();
                (Lock::Fair(lock.observed(watched)), ALL)
            }
            Sharing::Permits(of) => {
                let lock = host.locks.semaphore(lock, of).unwrap();
                (Lock::Permits(lock.observed(watched)), of)
            }
        };
        Wanted {
            lock,
            permits: of,
            of,
            bounds: Bounds::default(),
        }
    }

    /// What one call wants of the lock.
    pub(crate) fn draw(&self, world: &World, rng: &mut Rng) -> Wanted {
        let permits = match world.plan.sharing {
            Sharing::None => self.of,
            Sharing::Readers if rng.bool() => self.of,
            Sharing::Readers => 1,
            Sharing::Permits(of) => rng.u64(1..=of),
        };
        Wanted {
            permits,
            ..self.clone()
        }
    }

    /// The same with bounds, in some plans.
    pub(crate) fn bounded(self, world: &World, host: &Host, rng: &mut Rng) -> Wanted {
        if !world.plan.bounds {
            return self;
        }
        let bounds = Bounds::draw(&host.plan, rng);
        let kept = world.bounds_of(bounds);
        let lock = match self.lock {
            Lock::Fair(lock) => Lock::Fair(kept.of(lock, FairLock::min_hold, FairLock::max_hold)),
            Lock::Permits(lock) => {
                Lock::Permits(kept.of(lock, Semaphore::min_hold, Semaphore::max_hold))
            }
        };
        Wanted {
            lock,
            bounds,
            ..self
        }
    }

    pub(crate) fn name(&self) -> &str {
        match &self.lock {
            Lock::Fair(lock) => lock.name(),
            Lock::Permits(lock) => lock.name(),
        }
    }

    /// Leases that take as much of the lock as this.
    pub(crate) fn leases(&self, locks: &LockClient) -> LeaseLock {
        match &self.lock {
            Lock::Permits(lock) => {
                let lock = locks.semaphore(lock.name(), self.of).unwrap();
                lock.lease_lock(self.permits).unwrap()
            }
            Lock::Fair(lock) => {
                let leases = locks.lease_lock(lock.name()).unwrap();
                match self.permits == self.of {
                    true => leases,
                    false => leases.shared(),
                }
            }
        }
    }

    /// The same for a call that shares its place with no other call of its host: callers behind a guard that becomes a lease lose their place.
    pub(crate) fn in_no_batch(&self) -> Wanted {
        let said = [("becomes", "a lease")];
        let lock = match self.lock.clone() {
            Lock::Fair(lock) => Lock::Fair(lock.attributes(said)),
            Lock::Permits(lock) => Lock::Permits(lock.attributes(said)),
        };
        Wanted {
            lock,
            ..self.clone()
        }
    }

    pub(crate) async fn acquire(&self, wait: RecordWait) -> Result<LockGuard, Error> {
        match &self.lock {
            Lock::Fair(lock) if self.permits == self.of => lock.acquire(wait).await,
            Lock::Fair(lock) => lock.acquire_shared(wait).await,
            Lock::Permits(lock) => lock.acquire_many(self.permits, wait).await,
        }
    }
}
