//! A caller: asks for a lock, waits as long as it likes, takes its turn, and asks again.

use std::sync::Arc;
use std::time::Duration;

use fairlock::{Error, LockGuard, RecordWait};
use fairlock_cli::contention::error_chain::told;
use fairlock_cli::contention::monotonic::now_ns;
use fastrand::Rng;

use crate::soak::host::Host;
use crate::soak::names::Heat;
use crate::soak::options::Plant;
use crate::soak::stage::Soak;

pub(crate) struct Caller {
    pub(crate) soak: Arc<Soak>,
    pub(crate) heat: Heat,
    /// Which of the clients it asks.
    pub(crate) place: usize,
    pub(crate) rng: Rng,
}

impl Caller {
    pub(crate) async fn work(mut self) {
        loop {
            let pause = self.pause();
            if !self.soak.goes_on(pause).await {
                return;
            }
            let host = self.soak.host(self.place);
            self.call(&host).await;
        }
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(match self.heat {
            Heat::Hot => self.rng.u64(0..100),
            Heat::Warm => self.rng.u64(0..500),
            Heat::Cold => self.rng.u64(200..600),
        })
    }

    async fn call(&mut self, host: &Host) {
        let name = self.soak.names.next(self.heat, &mut self.rng);
        let wait = self.wait();
        let asked = now_ns();
        match self.acquire(host, &name, wait).await {
            Some(Ok(guard)) => self.turn(host, guard, asked).await,
            Some(Err(error)) => self.told(host, wait, &error),
            None => self.soak.tally.outcome("abandoned"),
        }
    }

    fn wait(&mut self) -> RecordWait {
        let timeout = |millis| RecordWait::Timeout(Duration::from_millis(millis));
        match self.rng.u8(0..20) {
            0..3 => RecordWait::NoWait,
            3..6 => timeout(self.rng.u64(1..200)),
            6..10 => timeout(self.rng.u64(1_000..20_000)),
            _ => RecordWait::Infinite,
        }
    }

    /// Returns `None` if the future was dropped, at a random moment or at the end.
    async fn acquire(
        &mut self,
        host: &Host,
        name: &str,
        wait: RecordWait,
    ) -> Option<Result<LockGuard, Error>> {
        let is_patient = self.rng.u8(0..6) > 0;
        let span = Duration::from_millis(self.rng.u64(0..2_000)).mul_f64(self.rng.f64());
        let soak = &self.soak;
        let lock = match host.locks.fair_lock(name) {
            Ok(lock) => lock.observed({
                let soak = Arc::downgrade(soak);
                move |_waiting| {
                    soak.upgrade()
                        .into_iter()
                        .for_each(|soak| soak.tally.outcome("place in the queue observed"));
                }
            }),
            Err(error) => return Some(Err(error)),
        };
        let _waits = (wait == RecordWait::Infinite).then(|| soak.oracle.waits(name));
        tokio::select! {
            biased;
            answer = lock.acquire(wait) => Some(answer),
            () = soak.stop.cancelled() => None,
            () = tokio::time::sleep(span), if !is_patient => None,
        }
    }

    fn told(&self, host: &Host, wait: RecordWait, error: &Error) {
        let word = match error {
            Error::NotGranted { .. } if wait != RecordWait::Infinite => "not granted",
            Error::Unavailable { .. } => "not answered",
            Error::ShutDown(_) if host.is_leaving() => "told of the shutdown",
            _ => return self.surprise(error),
        };
        self.soak.tally.outcome(word);
    }

    fn surprise(&self, error: &Error) {
        let words = format!("surprise: a caller was told: {}", told(error));
        self.soak.findings.add(words);
    }

    async fn turn(&mut self, host: &Host, guard: LockGuard, asked: u64) {
        let guard = Arc::new(guard);
        let soak = Arc::clone(&self.soak);
        soak.tally.turn(asked, soak.oracle.granted(&guard, asked));
        if soak.ground.options.plant == Some(Plant::Order) {
            soak.oracle.granted(&guard, asked);
        }
        self.writes(&guard);
        tokio::select! {
            biased;
            _loss = guard.lost() => soak.tally.outcome("lost while held"),
            () = soak.stop.cancelled() => {}
            () = tokio::time::sleep(self.hold(host)) => {}
        }
        // Writes even if the lock is lost: the tokens exist for that.
        self.writes(&guard);
        let ticket = guard.ticket().get();
        soak.oracle.ended(&guard);
        if soak.ground.options.plant == Some(Plant::Overlap) && self.heat == Heat::Hot {
            soak.oracle.persists(guard.name(), ticket);
        }
        if let Some(guard) = Arc::into_inner(guard) {
            self.give_back(host, guard).await;
        }
    }

    fn writes(&self, guard: &LockGuard) {
        let ticket = guard.ticket().get();
        self.soak.oracle.writes(guard, ticket);
        if let Some(Plant::Stale | Plant::Refuse) = self.soak.ground.options.plant {
            self.soak.oracle.writes(guard, ticket - 1);
        }
    }

    /// Mostly short. Some holds are longer than the lease.
    fn hold(&mut self, host: &Host) -> Duration {
        let long_ones = if self.heat == Heat::Hot { 100 } else { 20 };
        match self.rng.u8(0..long_ones) {
            0 => host.lease.mul_f64(1.5 * self.rng.f64()),
            1..10 => Duration::ZERO,
            _ => Duration::from_millis(self.rng.u64(0..30)),
        }
    }

    async fn give_back(&mut self, host: &Host, guard: LockGuard) {
        if self.rng.u8(0..5) == 0 {
            drop(guard);
            return self.soak.tally.outcome("dropped");
        }
        let word = match guard.release().await {
            Ok(()) => "released",
            Err(Error::Lost { .. }) => "lost",
            Err(Error::Unavailable { .. }) => "release not answered",
            Err(Error::ShutDown(_)) if host.is_leaving() => "told of the shutdown",
            Err(error) => return self.surprise(&error),
        };
        self.soak.tally.outcome(word);
    }
}
