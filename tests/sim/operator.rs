//! What an operator does to locks while programs use them: breaks places, asks holders to give way, changes how many permits there are, and
//! deletes locks.

use std::time::Duration;

use fairlock::ResizeOutcome;
use fairlock::{BreakOutcome, DeleteOutcome, LockClient, LockGuard, LossReason, Participant};
use fastrand::Rng;

use crate::history::{Break, Event};
use crate::plan::Sharing;
use crate::wanted::ALL;
use crate::world::{World, wait};

/// What an operator says and has, for the report.
pub(crate) const DONE: [&str; 8] = [
    "broken",
    "not broken: changed",
    "not broken: gone",
    "told of a break",
    "told to give way",
    "more permits",
    "fewer permits",
    "deleted",
];

/// Never ends by itself.
pub(crate) async fn act(world: &World, mut rng: Rng) {
    loop {
        wait(Duration::from_millis(rng.u64(0..800))).await;
        let lock = rng.choice(&world.plan.locks).unwrap();
        // Over the bad link of a host. What was not answered may be done, or not.
        let locks = world.any_locks(&mut rng);
        match rng.u8(0..8) {
            0..=2 => break_one(world, &locks, lock, &mut rng).await,
            3 | 4 => ask(world, &locks, lock).await,
            5 | 6 => resize(world, &locks, lock, &mut rng).await,
            _ => delete(world, &locks, lock).await,
        }
    }
}

/// Records what the holder has been told by the end of its work.
pub(crate) async fn was_told(world: &World, guard: &LockGuard) {
    let lock = guard.name().to_owned();
    if let Some(request) = guard.yield_requested() {
        world.tally.fault("told to give way");
        let reason = request.reason;
        let lock = lock.clone();
        world.history.note(Event::ToldToYield { lock, reason });
    }
    if guard.is_held() {
        return;
    }
    if let LossReason::Broken { reason, .. } = guard.lost().await.reason {
        world.tally.fault("told of a break");
        world.history.note(Event::ToldBroken {
            lock,
            ticket: guard.ticket().get(),
            reason,
        });
    }
}

async fn break_one(world: &World, locks: &LockClient, lock: &str, rng: &mut Rng) {
    // The state of permits is read in the same way.
    let Ok(state) = locks.fair_lock(lock).unwrap().inspect().await else {
        return;
    };
    let places: Vec<_> = state
        .holder
        .iter()
        .chain(&state.sharers)
        .chain(&state.queue)
        .collect();
    let Some(seen) = rng.choice(places) else {
        return;
    };
    // The owner may renew in the meantime, or have its turn.
    wait(Duration::from_millis(rng.u64(0..300))).await;
    // Each has a reason of its own.
    let reason = format!("break at {:?}", world.history.now());
    let last = seen.ticket.get();
    world.history.note(Event::Broken(Break {
        lock: lock.to_owned(),
        host: host_of(seen),
        tickets: ((last + 1).saturating_sub(seen.tickets), last),
        reason: reason.clone(),
    }));
    let done = match locks.break_hold(lock, seen, reason.as_str()).await {
        Ok(BreakOutcome::Broken { .. }) => return world.tally.fault("broken"),
        Ok(BreakOutcome::Changed) => "not broken: changed",
        Ok(BreakOutcome::Gone) => "not broken: gone",
        Ok(_) | Err(_) => return,
    };
    world.tally.fault(done);
    world.history.note(Event::Spared(reason));
}

/// The host whose client has the place.
fn host_of(seen: &Participant) -> Option<usize> {
    let id = seen.owner.strip_prefix("host-")?;
    id.split('-').next()?.parse().ok()
}

async fn ask(world: &World, locks: &LockClient, lock: &str) {
    let reason = format!("ask at {:?}", world.history.now());
    let lock = lock.to_owned();
    world.history.note(Event::AsksToYield {
        lock: lock.clone(),
        reason: reason.clone(),
    });
    // If this is not answered, the holders may be told.
    let _ = locks.ask_to_yield(lock, reason).await;
}

async fn resize(world: &World, locks: &LockClient, lock: &str, rng: &mut Rng) {
    let most = match world.plan.sharing {
        Sharing::Permits(of) => 2 * of,
        Sharing::Readers | Sharing::None => ALL + 4,
    };
    // Few, half of the time, so that readers of a fair lock meet the limit too.
    let permits = if rng.bool() { 4 } else { most };
    let permits = rng.u64(1..=permits);
    world.history.note(Event::Resizes {
        lock: lock.to_owned(),
        permits,
    });
    if let Ok(ResizeOutcome::Resized { before, .. }) = locks.resize(lock, permits).await {
        let more = if before < permits {
            "more permits"
        } else {
            "fewer permits"
        };
        world.tally.fault(more);
    }
}

async fn delete(world: &World, locks: &LockClient, lock: &str) {
    let _noted = Deletes::begin(world, lock);
    if let Ok(DeleteOutcome::Deleted) = locks.delete_lock(lock).await {
        world.tally.fault("deleted");
    }
}

/// Notes when a deletion begins and when it ends, answered or not: no data that was left by then is certain to be there.
struct Deletes<'a>(&'a World, &'a str);

impl<'a> Deletes<'a> {
    fn begin(world: &'a World, lock: &'a str) -> Self {
        let deletes = Deletes(world, lock);
        deletes.note();
        deletes
    }

    fn note(&self) {
        let Deletes(world, lock) = self;
        let lock = (*lock).to_owned();
        world.history.note(Event::MayBeDeleted(lock));
    }
}

impl Drop for Deletes<'_> {
    fn drop(&mut self) {
        self.note();
    }
}
