//! Everybody who holds or waits dies at one moment. Those who come afterwards never wait, each in a process of its own that
//! lives for one call and whose clock shows anything: one of them is let in before long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Error, RecordWait};
use fastrand::Rng;
use futures::future::join_all;
use tokio::time::Instant;

use crate::call::Call;
use crate::faults::LATEST;
use crate::history::Event;
use crate::link::Weather;
use crate::mutation::Mutation;
use crate::plan::{DAYS_OFF, HostPlan, Plan};
use crate::run::{Run, ended, trouble};
use crate::wanted::Wanted;
use crate::worker::turn;
use crate::world::{World, wait};

const HOUR: Duration = Duration::from_secs(3600);
/// Requests that are sent before all die.
const REQUESTS: u64 = 150;
/// A caller comes this often at the rarest.
const EVERY: Duration = Duration::from_secs(4);
/// What whole seconds of dates, and clocks that run at other rates, come to.
const GRAIN: Duration = Duration::from_secs(3);

/// What the dead left of the locks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remains {
    pub(crate) holders: usize,
    /// Holders that entered with their process's first request, and died before they said when.
    pub(crate) undated: usize,
    pub(crate) successors: usize,
    pub(crate) rows: usize,
    /// Free, with tickets open.
    pub(crate) gaps: usize,
    longest: Duration,
}

type Item = HashMap<String, AttributeValue>;

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

/// Calls until one is granted, or the bound is over.
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
        // What was on its way arrives.
        let now = Remains::of(&world.raw(lock).await);
        remains.longest = remains.longest.max(now.longest);
    }
}

/// Within this from the moment of their death somebody is let in: what was on its way arrives, and whoever has no date yet
/// is given one by the next caller; then the longest lease, or the grace of a gap, is over by the server clock; and the
/// next caller finds it so, or the one after it where the first cleared the way for others.
fn bound(plan: &Plan, remains: Remains) -> Duration {
    let longest = remains.longest.max(plan.longest_grace());
    LATEST + EVERY + longest + plan.longest_allowance() + GRAIN + 2 * EVERY
}

/// One process.
async fn is_granted(world: &Arc<World>, lock: &str, rng: &mut Rng) -> bool {
    let plan = HostPlan {
        ahead: rng.u32(0..=6) * HOUR,
        days_off: rng.i32(-DAYS_OFF..=DAYS_OFF),
        rate: 0.991 + rng.f64() * 0.018,
        ..world.steady()
    };
    let host = world.host(usize::MAX, plan, Weather::default());
    let free = Wanted::alone(world, &host, lock);
    let mut call = Call::begin(world, &host, &free, RecordWait::NoWait);
    match free.acquire(RecordWait::NoWait).await {
        Ok(guard) => {
            turn(world, &host, &mut call, guard, rng).await;
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
        // Beside sharers the first of the slots waits, if it takes more than they leave.
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

    /// Notes its lease.
    fn lives(&mut self, entry: &Item) -> usize {
        let lease = entry.get("lease_ms").and_then(|lease| lease.as_n().ok());
        let lease = lease.and_then(|lease| lease.parse().ok());
        self.longest = self.longest.max(Duration::from_millis(lease.unwrap_or(0)));
        1
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
