//! Philosophers that each want some of the forks at once, name them in any order, and dine over a bad network. Some of them die.

use std::time::Duration;

use fairlock::embedded::{Faults, Latency};
use fairlock::{Error, LockClient, LockGuard, LossReason, MultiLockGuard, RecordWait};
use fastrand::Rng;
use futures::future::{join, join_all};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::history::History;
use fairlock_testkit::lab::{Host, Lab, SECOND, away, cut_off};

const FORKS: [&str; 5] = ["a", "b", "c", "d", "e"];
const PHILOSOPHERS: usize = 5;
const MEALS: usize = 3;
/// All have finished long before, if they ever do.
const BOUND: Duration = Duration::from_secs(900);

/// How the forks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    /// As the library takes several locks.
    Several,
    /// In turn, in the order in which they were named.
    AsNamed,
    /// As the library takes them. But after the release, a philosopher goes on believing for a moment.
    Greedy,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) manners: Manners,
    pub(crate) weather: Faults,
    /// How many die at some moment.
    pub(crate) deaths: usize,
    /// How many others are cut off for a while, for longer than a lease or not.
    pub(crate) absences: usize,
}

/// Delays, and everything that a client may have to retry.
pub(crate) fn bad_weather() -> Faults {
    Faults {
        round_trip: Latency::HeavyTailed {
            median: Duration::from_millis(20),
            p99: Duration::from_millis(400),
        },
        lost_requests: 0.02,
        lost_answers: 0.02,
        errors_before: 0.01,
        errors_after: 0.01,
        hangs_before: 0.005,
        hangs_after: 0.005,
        throttles: 0.02,
        duplicates: 0.02,
        duplicate_within: 10 * SECOND,
        ..Faults::default()
    }
}

pub(crate) fn fair_weather() -> Faults {
    away(Duration::from_millis(20))
}

/// Each living philosopher dines as often as it wants, and never with a fork that another holds. Returns how many forks were granted.
pub(crate) async fn dine(plan: Plan) -> Result<usize, String> {
    let (lab, history) = (Lab::new().await, History::default());
    let mut rng = Rng::with_seed(plan.seed);
    let hosts: Vec<_> = (0..PHILOSOPHERS).map(|_| lab.host()).collect();
    let (mut table, mut fates) = (JoinSet::new(), Vec::new());
    for (number, host) in hosts.iter().enumerate() {
        host.network.set_faults(plan.weather);
        let philosopher = Philosopher {
            locks: host.locks.clone(),
            rng: rng.fork(),
            manners: plan.manners,
            history: history.clone(),
        };
        let life = table.spawn(philosopher.dines());
        let fate = plan.fate(number, &mut rng);
        fates.push(async move { fate.befalls(host, &life, plan.weather).await });
    }
    let all_done = async {
        while let Some(done) = table.join_next().await {
            assert!(done.is_ok() || done.unwrap_err().is_cancelled(), "a panic");
        }
    };
    tokio::select! {
        biased;
        _ = join(join_all(fates), all_done) => {}
        () = sleep(BOUND) => return Err(format!("not done after {BOUND:?}")),
    }
    history.check()?;
    all_are_free(&lab.host()).await?;
    Ok(history.grants())
}

/// What happens to one philosopher, at some moment.
enum Fate {
    Lives,
    Dies { at: Duration },
    IsCutOff { at: Duration, span: Duration },
}

impl Plan {
    fn fate(&self, number: usize, rng: &mut Rng) -> Fate {
        let (at, span) = (
            Duration::from_millis(rng.u64(0..8_000)),
            Duration::from_millis(rng.u64(10_000..90_000)),
        );
        if number < self.deaths {
            Fate::Dies { at }
        } else if number < self.deaths + self.absences {
            Fate::IsCutOff { at, span }
        } else {
            Fate::Lives
        }
    }
}

impl Fate {
    async fn befalls(self, host: &Host, life: &AbortHandle, weather: Faults) {
        match self {
            Fate::Lives => {}
            Fate::Dies { at } => {
                sleep(at).await;
                host.network.set_faults(cut_off());
                life.abort();
            }
            Fate::IsCutOff { at, span } => {
                sleep(at).await;
                host.network.set_faults(cut_off());
                sleep(span).await;
                host.network.set_faults(weather);
            }
        }
    }
}

/// Whether all forks are free, also the forks of the dead after their leases have ended.
async fn all_are_free(host: &Host) -> Result<(), String> {
    let forks = host.locks.multi_lock(FORKS).unwrap();
    let free = forks.acquire(RecordWait::Timeout(120 * SECOND)).await;
    free.map(drop)
        .map_err(|error| format!("afterwards: {error}"))
}

struct Philosopher {
    locks: LockClient,
    rng: Rng,
    manners: Manners,
    history: History,
}

impl Philosopher {
    async fn dines(mut self) {
        for _ in 0..MEALS {
            let forks = self.wishes();
            self.pause(1_000).await;
            // The loop ends when a meal was finished. Each other iteration needs a fault.
            while !self.tries(&forks).await {}
        }
    }

    /// Two or three forks, in any order.
    fn wishes(&mut self) -> Vec<&'static str> {
        let mut forks = FORKS;
        self.rng.shuffle(&mut forks);
        forks[..self.rng.usize(2..=3)].to_vec()
    }

    /// Returns whether it could finish a meal.
    async fn tries(&mut self, forks: &[&str]) -> bool {
        match self.takes(forks).await {
            Ok(held) => self.eats(held).await,
            Err(Error::Unavailable { .. }) => {
                self.pause(1_000).await;
                false
            }
            Err(other) => panic!("{other}"),
        }
    }

    async fn takes(&mut self, forks: &[&str]) -> Result<Held, Error> {
        if self.manners != Manners::AsNamed {
            let forks = self.locks.multi_lock(forks)?;
            return Ok(Held::Multi(forks.acquire(RecordWait::Infinite).await?));
        }
        let mut held = Vec::new();
        for fork in forks {
            let fork = self.locks.fair_lock(fork)?;
            held.push(fork.acquire(RecordWait::Infinite).await?);
        }
        Ok(Held::Each(held))
    }

    async fn eats(&mut self, held: Held) -> bool {
        let belief = self.history.believe(held.guards());
        let full = tokio::select! {
            biased;
            () = held.lost() => false,
            () = self.pause(3_000) => true,
        };
        if self.manners == Manners::Greedy {
            self.gives_back(held).await;
            self.pause(200).await;
        } else {
            drop(belief);
            self.gives_back(held).await;
        }
        full
    }

    async fn gives_back(&mut self, held: Held) {
        if self.rng.bool() {
            return drop(held);
        }
        if let Err(Error::Lost { reason, .. }) = held.release().await {
            let is_known = matches!(reason, LossReason::Unreachable { .. } | LossReason::Expired);
            assert!(is_known, "believed for too long: {reason}");
        }
    }

    async fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.rng.u64(1..=most))).await;
    }
}

enum Held {
    Multi(MultiLockGuard),
    Each(Vec<LockGuard>),
}

impl Held {
    fn guards(&self) -> &[LockGuard] {
        match self {
            Held::Multi(guard) => guard.guards(),
            Held::Each(guards) => guards,
        }
    }

    async fn lost(&self) {
        match self {
            Held::Multi(guard) => drop(guard.lost().await),
            Held::Each(_) => std::future::pending().await,
        }
    }

    async fn release(self) -> Result<(), Error> {
        match self {
            Held::Multi(guard) => guard.release().await,
            Held::Each(guards) => {
                for guard in guards {
                    guard.release().await?;
                }
                Ok(())
            }
        }
    }
}
