//! Faults of whole hosts and of the table, one after the other until the faults stop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::SweepReport;
use fairlock_testkit::sweeps::Sweeping;
use fastrand::Rng;

use crate::history::Event;
use crate::link::Mood;
use crate::world::{Host, World, spawn, wait};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CutOff,
    Deny,
    Freeze,
    Crash,
    Sweep,
    Expire,
    Tardy,
}

const ALL: [Kind; 7] = [
    Kind::CutOff,
    Kind::Deny,
    Kind::Freeze,
    Kind::Crash,
    Kind::Sweep,
    Kind::Expire,
    Kind::Tardy,
];

impl Kind {
    /// Draws the kinds that happen in one seed: three, with repetition, so that some seeds are about one kind only.
    pub(crate) fn some(rng: &mut Rng) -> Vec<Kind> {
        (0..3).map(|_| ALL[rng.usize(0..ALL.len())]).collect()
    }
}

/// Never ends by itself.
pub(crate) async fn make(world: Arc<World>, mut rng: Rng) {
    loop {
        wait(Duration::from_millis(rng.u64(0..1_500))).await;
        let kind = world.plan.mischief[rng.usize(0..world.plan.mischief.len())];
        let hosts = world.hosts();
        let host = &hosts[rng.usize(0..hosts.len())];
        let span = host.plan.lease.mul_f64(rng.f64() * 2.5);
        if host.link.mood() == Mood::Well {
            let what = format!("{kind:?} {} for {span:?}", host.id);
            world.history.note(Event::Mischief(what));
            happen(&world, kind, host, span, &mut rng).await;
        }
    }
}

async fn happen(world: &Arc<World>, kind: Kind, host: &Host, span: Duration, rng: &mut Rng) {
    match kind {
        Kind::CutOff => moody(host, Mood::CutOff, span).await,
        Kind::Deny => moody(host, Mood::Denied, span / 2).await,
        Kind::Freeze => moody(host, Mood::Frozen, span).await,
        Kind::Tardy => moody(host, Mood::Tardy, 4 * span).await,
        Kind::Crash => {
            world.tally.fault("crash");
            world.crash(host.id);
            wait(span / 8).await;
            world.give_up_all_of(host.id).await;
            wait(span / 8).await;
            world.restart(host.id);
        }
        Kind::Sweep => run_wild(world, host, span, rng).await,
        Kind::Expire => expire(world).await,
    }
}

/// By how many seconds a wall clock is set off from where it began.
const STEPS: [i64; 5] = [-86_521, -120, 0, 120, 86_521];

/// Sets the wall clocks of hosts, forwards and back, while their clients live. Never ends by itself.
pub(crate) async fn step_often(world: &World, mut rng: Rng) {
    loop {
        wait(Duration::from_millis(rng.u64(0..4_000))).await;
        let hosts = world.hosts();
        let host = &hosts[rng.usize(0..hosts.len())];
        let seconds = STEPS[rng.usize(0..STEPS.len())];
        let what = format!("wall clock of {} is set off by {seconds} s", host.id);
        world.history.note(Event::Mischief(what));
        world.tally.fault("wall clock stepped");
        let before = host.stepped.swap(seconds, Ordering::Relaxed);
        host.clock.step(seconds - before);
    }
}

/// Runs TTL at random moments. Never ends by itself.
pub(crate) async fn expire_often(world: &World, mut rng: Rng) {
    loop {
        wait(Duration::from_millis(rng.u64(0..1_000))).await;
        expire(world).await;
    }
}

async fn expire(world: &World) {
    let deleted = world.engine.expire().await.unwrap();
    if deleted > 0 {
        world.tally.fault("TTL");
        let what = format!("TTL deletes {deleted}");
        world.history.note(Event::Mischief(what));
    }
}

async fn moody(host: &Host, mood: Mood, span: Duration) {
    host.link.set(mood);
    wait(span).await;
    host.link.set(Mood::Well);
}

/// Sweeps all the time, by every available way, over the same bad link.
async fn run_wild(world: &Arc<World>, host: &Host, span: Duration, rng: &mut Rng) {
    let _sweeping = Sweeping::of(&host.locks, Duration::from_secs(1));
    for _ in 0..3 {
        let lock = rng.choice(&world.plan.locks).unwrap();
        let lock = host.locks.fair_lock(lock).unwrap();
        let tally = world.tally.clone();
        let once = spawn(async move {
            if lock
                .sweep()
                .await
                .is_ok_and(|swept| swept != SweepReport::default())
            {
                tally.fault("swept");
            }
        });
        wait(span / 3).await;
        drop(once);
    }
}
