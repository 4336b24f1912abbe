//! Turns with several locks at once: all or none, whatever happens to one of them.

use fairlock::MultiLockGuard;
use fastrand::Rng;
use tokio::time::Instant;

use crate::bounds::Bounds;
use crate::call::Call;
use crate::data;
use crate::stay::Stay;
use crate::worker::{RetryPolicy, is_due, refused, works};
use crate::world::{Host, World};

pub(crate) async fn take_turn(world: &World, host: &Host, rng: &mut Rng) {
    let names = some(world, rng);
    let locks = host.locks.multi_lock(&names).unwrap();
    let how = RetryPolicy::draw(rng, world.plan.only_infinite);
    let began = Instant::now();
    let mut call = Call::for_several(world, host, names.len(), how.wait);
    let is_due = |error| {
        let mut names = names.iter();
        names.any(|name| is_due(error, how.wait, host, (name, began)))
    };
    match how.has(world, host, locks.acquire(how.wait)).await {
        Some(Ok(guard)) => turn(world, host, &mut call, guard, rng).await,
        Some(Err(error)) => {
            drop(call);
            refused(world, how.wait, &error, is_due(&error), rng).await;
        }
        None => world.tally.fault("wait dropped"),
    }
}

/// Draws at least two locks, in any order.
fn some(world: &World, rng: &mut Rng) -> Vec<String> {
    let mut names = world.plan.locks.clone();
    rng.shuffle(&mut names);
    names.truncate(rng.usize(2..=names.len()));
    names
}

/// Takes a turn with all locks. A host that stood still works on when it continues.
async fn turn(world: &World, host: &Host, call: &mut Call, guard: MultiLockGuard, rng: &mut Rng) {
    call.is_granted();
    let stay = |guard| Stay::begin(world, host.id, call.number, (guard, Bounds::default()));
    let mut stays: Vec<_> = guard.guards().iter().map(stay).collect();
    if world.plan.has_data {
        let guards = guard.guards().iter();
        guards.for_each(|guard| data::found(world, guard));
    }
    host.link.awake().await;
    works(world, host, guard.lost(), rng).await;
    for (stay, guard) in stays.iter_mut().zip(guard.guards()) {
        if guard.is_held() || rng.bool() {
            stay.write(world, guard.name(), guard.ticket().get());
        }
        stay.give_back();
    }
    if rng.bool() {
        // The release may be lost or not answered: the history shows whether that did any harm.
        let _ = guard.release().await;
    }
}
