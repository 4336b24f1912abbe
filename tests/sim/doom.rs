//! All holders and waiters die at one moment. Later callers never wait. Each of them is a process of its own that makes one call, and its
//! clock may show any time. The lock must be granted to one of them before long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Error, RecordWait};
use fairlock_protocol::stamps::ALLOWANCE;
use fastrand::Rng;
use futures::future::join_all;
use tokio::time::Instant;

use crate::bounds::Bounds;
use crate::call::Call;
use crate::faults::LATEST;
use crate::history::Event;
use crate::link::Weather;
use crate::mischief::Kind;
use crate::mutation::Mutation;
use crate::plan::{HostPlan, Plan, hours_and_days};
use crate::run::{Run, ended, trouble};
use crate::wanted::Wanted;
use crate::worker::turn;
use crate::world::{World, wait};

/// How many requests are sent before all hosts die.
const REQUESTS: u64 = 150;
/// The longest pause between two callers.
const EVERY: Duration = Duration::from_secs(4);
/// An allowance for dates in whole seconds, and for clocks that run at other rates.
const GRAIN: Duration = Duration::from_secs(3);

/// What the dead hosts left in the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remains {
    holders: usize,
    /// Holders that entered with their process's first request, and died before they added a date.
    undated: usize,
    successors: usize,
    rows: usize,
    /// Locks without a holder, but with open tickets.
    gaps: usize,
    longest: Duration,
}

type Item = HashMap<String, AttributeValue>;

/// In one of four seeds joins are late at a lock with one slot. So its hosts die with open tickets while nobody holds it. In another, hosts
/// crash all the time at many locks, so some enter with their first request just before all die.
pub(crate) fn bend(plan: &mut Plan) {
    if plan.seed % 4 == 1 {
        plan.locks = (0..6).map(|lock| format!("lock-{lock}")).collect();
        (plan.mischief, plan.long_turns) = (vec![Kind::Crash], 1);
        for host in &mut plan.hosts {
            (host.workers, host.crowd) = (1, 1);
        }
    }
    if plan.seed % 4 == 3 {
        plan.locks.truncate(1);
        plan.has_several = false;
        plan.weather.slow = vec!["join"];
        plan.weather.slow_writes = 0.97;
        for host in &mut plan.hosts {
            (host.slots, host.crowd) = (1, 1);
        }
    }
}

pub(crate) async fn run(plan: Plan, mutation: Option<Mutation>) -> Run {
    let world = World::new(plan, mutation).await;
    world.start();
    let troubled = trouble(&world, REQUESTS, false).await;
    let counts = world.tally.counts();
    for host in world.hosts() {
        world.crash(host.id);
    }
    world.history.note(Event::Mischief("all die".into()));
    let locks = (0..).zip(&world.plan.locks);
    join_all(locks.map(|(salt, lock)| outlive(&world, lock, world.plan.rng(salt << 40)))).await;
    ended(&world, counts, troubled)
}

/// Makes calls until one is granted, or the bound has passed.
async fn outlive(world: &Arc<World>, lock: &str, mut rng: Rng) {
    let died = Instant::now();
    let mut remains = Remains::of(&world.raw(lock).await);
    world.history.note(Event::Remains(remains));
    while !is_granted(world, lock, &mut rng).await {
        if died.elapsed() > bound(&world.plan, remains) {
            let told = format!("{lock} after {:?}: {remains:?}", died.elapsed());
            return world.history.note(Event::Barred(told));
        }
        wait(EVERY.mul_f64(rng.f64())).await;
        // Requests that were under way may have arrived.
        let now = Remains::of(&world.raw(lock).await);
        remains.longest = remains.longest.max(now.longest);
    }
}

/// A caller is granted the lock within this time after all hosts died. First the requests under way arrive, and the next caller adds
/// missing dates. Then the longest lease, or the join timeout of a gap, ends by the server clock. The next caller finds that. If it only
/// clears the way for others, the caller after it is granted the lock.
fn bound(plan: &Plan, remains: Remains) -> Duration {
    let longest = remains.longest.max(plan.longest_grace());
    LATEST + EVERY + longest + ALLOWANCE + GRAIN + 2 * EVERY
}

/// Makes one call from a new process.
async fn is_granted(world: &Arc<World>, lock: &str, rng: &mut Rng) -> bool {
    let plan = HostPlan {
        off: hours_and_days(rng),
        rate: 0.991 + rng.f64() * 0.018,
        ..world.steady()
    };
    let host = world.host(usize::MAX, plan, Weather::default());
    let free = Wanted::alone(world, &host, lock);
    let mut call = Call::begin(world, &host, &free, RecordWait::NoWait);
    match free.acquire(RecordWait::NoWait).await {
        Ok(guard) => {
            turn(world, &host, (&mut call, Bounds::default()), guard, rng).await;
            true
        }
        Err(Error::NotGranted { .. }) => false,
        Err(error) => {
            world.history.note(Event::Surprise(error.to_string()));
            true
        }
    }
}

impl Remains {
    fn of(items: &[Item]) -> Remains {
        let mut remains = Remains::default();
        for item in items {
            match item.get("entry").and_then(map) {
                Some(waiting) => remains.rows += remains.lives(waiting),
                None => remains.add_lock(item),
            }
        }
        remains
    }

    fn add_lock(&mut self, item: &Item) {
        let slots = item.get("slots").and_then(|slots| slots.as_l().ok());
        let slots: Vec<_> = slots.into_iter().flatten().filter_map(map).collect();
        let sharers = item.get("sharers").and_then(map).into_iter();
        let sharers: Vec<_> = sharers.flat_map(|it| it.values().filter_map(map)).collect();
        // If there are sharers, the first slot belongs to a waiter that needs more permits than the sharers leave.
        let (holder, successors) = slots.split_at(usize::from(sharers.is_empty()).min(slots.len()));
        for successor in successors {
            self.successors += self.lives(successor);
        }
        let before = self.holders;
        for holder in holder.iter().chain(&sharers) {
            self.holders += self.lives(holder);
            self.undated += usize::from(!holder.contains_key("renewed_at"));
        }
        if self.holders == before {
            self.gaps += usize::from(item.get("last") != item.get("watermark"));
        }
    }

    /// Records the entry's lease.
    fn lives(&mut self, entry: &Item) -> usize {
        let lease = entry.get("lease_ms").and_then(|lease| lease.as_n().ok());
        let lease = lease.and_then(|lease| lease.parse().ok());
        self.longest = self.longest.max(Duration::from_millis(lease.unwrap_or(0)));
        1
    }

    pub(crate) fn has_every_kind(&self) -> bool {
        let counts = [
            self.holders,
            self.undated,
            self.successors,
            self.rows,
            self.gaps,
        ];
        counts.iter().all(|count| *count > 0)
    }

    pub(crate) fn and(self, other: &Remains) -> Remains {
        Remains {
            holders: self.holders + other.holders,
            undated: self.undated + other.undated,
            successors: self.successors + other.successors,
            rows: self.rows + other.rows,
            gaps: self.gaps + other.gaps,
            longest: self.longest.max(other.longest),
        }
    }
}

fn map(value: &AttributeValue) -> Option<&Item> {
    value.as_m().ok()
}
