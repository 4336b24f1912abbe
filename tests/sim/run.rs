//! Runs a plan: faults until enough requests were sent, then none, and a bound by which everything must have settled.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::RecordWait;

use fairlock_testkit::datagram_network::Post;
use fairlock_testkit::sweeps::{Sweeping, sweep_table};

use crate::call::Call;
use crate::faults::{Counts, DUPLICATE_WITHIN, LATEST};
use crate::history::{Event, digest};
use crate::link::Weather;
use crate::mischief;
use crate::mutation::Mutation;
use crate::operator;
use crate::plan::{APART, Plan};
use crate::wanted::Wanted;
use crate::worker::turn;
use crate::world::{Host, RETENTION, World, wait};

const SECOND: Duration = Duration::from_secs(1);
/// The faults end after this time, however slowly requests come.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) events: Vec<(Duration, Event)>,
    pub(crate) counts: Counts,
    /// How many requests were sent while there were faults.
    pub(crate) troubled: u64,
    pub(crate) digest: u64,
    /// How many notifications the hosts sent each other.
    pub(crate) notifications: u64,
    /// How many lies the hosts were told.
    pub(crate) lies: u64,
}

pub(crate) async fn run(plan: Plan, mutation: Option<Mutation>) -> Run {
    let world = World::new(plan, mutation).await;
    let (epochs, mut troubled) = (world.plan.epochs(), 0);
    for epoch in 1..=epochs {
        let is_resumed = world.plan.is_silent && epoch > 1;
        if is_resumed {
            wait(RETENTION + APART).await;
            world.resume();
        } else {
            world.start();
        }
        troubled += trouble(&world, world.plan.requests.div_ceil(epochs), is_resumed).await;
        world.heal();
        drain(&world).await;
        if !world.plan.is_silent || epoch == epochs {
            tidy(&world).await;
        }
    }
    let counts = world.tally.counts();
    last_turns(&world).await;
    ended(&world, counts, troubled)
}

pub(crate) fn ended(world: &World, counts: Counts, troubled: u64) -> Run {
    let events = world.history.take();
    let digest = digest(&events);
    Run {
        plan: world.plan.clone(),
        events,
        counts,
        troubled,
        digest,
        notifications: world.post.as_ref().map_or(0, Post::carried),
        lies: world.lies.load(Ordering::Relaxed),
    }
}

/// Runs faults and work until this many more requests were sent. Returns how many were sent. After a silence, TTL runs meanwhile.
pub(crate) async fn trouble(world: &Arc<World>, requests: u64, is_resumed: bool) -> u64 {
    let before = world.tally.counts().requests;
    let sent = || world.tally.counts().requests - before;
    let enough = async {
        while sent() < requests {
            wait(SECOND / 10).await;
        }
    };
    let salt = (before + requests) << 32;
    tokio::select! {
        biased;
        () = enough => {}
        () = wait(LONGEST) => {}
        () = mischief::make(world.clone(), world.plan.rng(salt)) => {}
        () = mischief::make(world.clone(), world.plan.rng(salt + 1)) => {}
        () = mischief::expire_often(world, world.plan.rng(salt + 2)), if is_resumed => {}
        () = mischief::step_often(world, world.plan.rng(salt + 4)), if world.plan.steps => {}
        () = operator::act(world, world.plan.rng(salt + 3)), if world.plan.operates => {}
    }
    sent()
}

/// Every waiter is granted within this time after all faults have ended. Requests under way arrive. The dead holder, dead successors and
/// dead waiters expire, in the worst case one after the other as late requests bring more of them in. Gaps are closed. Then every living
/// caller has a turn, which ends at once, or after its shortest time.
fn bound(plan: &Plan) -> Duration {
    let lease = plan.longest_lease() + plan.longest_bound();
    let kept = plan.callers() * plan.longest_bound();
    let of_one = 5 * lease + 2 * plan.longest_grace() + plan.workers() * SECOND + kept;
    // A caller that holds one of several locks may wait for the next.
    let in_a_chain = if plan.has_several {
        plan.locks.len()
    } else {
        1
    };
    LATEST + of_one * in_a_chain as u32
}

async fn drain(world: &World) {
    let over = tokio::time::Instant::now() + bound(&world.plan);
    for (host, mut work) in world.take_workers() {
        let left = over.saturating_duration_since(tokio::time::Instant::now());
        tokio::select! {
            biased;
            done = &mut work => if let Err(panic) = done {
                world.history.note(Event::Surprise(panic.to_string()));
            },
            () = wait(left) => {
                work.abort();
                world.history.note(Event::Stuck(format!("a worker of host {host}")));
            }
        }
    }
}

/// Checks the table after the last duplicate has arrived. After a sweep, each lock has one item at most. After the idle retention there is
/// none, by whichever clock was the furthest ahead. A sweeper removes nothing for which a clock is behind.
async fn tidy(world: &Arc<World>) {
    wait(DUPLICATE_WITHIN + LATEST).await;
    let host = world.host(usize::MAX, world.steady(), Weather::default());
    sweep(world, &host).await;
    expect_items(world, "after a sweep", 1).await;
    wait(RETENTION + world.plan.longest_ahead() + 3600 * SECOND).await;
    if world.plan.swept_when_idle && world.plan.has_right_dates() {
        let swept = sweep_table(&host.locks).await;
        swept.unwrap();
    } else {
        world.engine.expire().await.unwrap();
    }
    expect_items(world, "after the idle retention", 0).await;
}

/// Sweeps for long enough that every dead entry is seen unchanged for a lease.
async fn sweep(world: &World, host: &Host) {
    let every = world.plan.longest_lease() + world.plan.longest_bound() + 2 * SECOND;
    let _sweeping = Sweeping::of(&host.locks, every);
    wait(6 * every).await;
}

async fn expect_items(world: &World, when: &str, most: usize) {
    for lock in &world.plan.locks {
        let items = world.items(lock).await;
        let is_lock_item = |item: &String| item.ends_with("/#lock");
        if items.len() > most || !items.iter().all(is_lock_item) {
            world
                .history
                .note(Event::Left(format!("{when}: {items:?}")));
        }
    }
}

/// Checks that every lock is granted at once, with a ticket above all before.
async fn last_turns(world: &Arc<World>) {
    let host = world.host(usize::MAX, world.steady(), Weather::default());
    for lock in &world.plan.locks {
        let free = Wanted::alone(world, &host, lock);
        let mut call = Call::begin(world, &host, &free, RecordWait::NoWait);
        match free.acquire(RecordWait::NoWait).await {
            Ok(guard) => {
                let call = (&mut call, free.bounds);
                turn(world, &host, call, guard, &mut world.plan.rng(0)).await;
            }
            Err(error) => world.history.note(Event::Stuck(error.to_string())),
        }
    }
}
