//! Turns by leases that are not renewed. A host takes a lease, and another may extend or release it; otherwise it runs out.

use std::time::Duration;

use fairlock::{Lease, RecordWait};
use fastrand::Rng;
use tokio::time::Instant;

use crate::call::Call;
use crate::history::Share;
use crate::stay::{Grant, Stay};
use crate::wanted::{ALL, Wanted};
use crate::worker::{is_due, pause, refused};
use crate::world::{Host, World, wait};

const SECOND: Duration = Duration::from_secs(1);

/// Takes the lock if it is free, and holds it for a while.
pub(crate) async fn take_turn(world: &World, host: &Host, lock: &Wanted, rng: &mut Rng) {
    let began = Instant::now();
    let mut call = Call::begin(world, host, lock, RecordWait::NoWait);
    let leased = host.locks.lease_lock(lock.name()).unwrap();
    let (id, span) = (format!("call {}", call.number), span_of(host, rng));
    match leased.acquire(id, span).await {
        Ok(lease) => stay(world, host, &mut call, &lease, rng).await,
        Err(error) => {
            drop(call);
            let is_due = is_due(&error, RecordWait::NoWait, host, (lock.name(), began));
            refused(world, RecordWait::NoWait, &error, is_due, rng).await;
        }
    }
}

/// Works under the lease, while other hosts may continue it from its text form.
async fn stay(world: &World, host: &Host, call: &mut Call, lease: &Lease, rng: &mut Rng) {
    if left(world, lease).is_zero() {
        return;
    }
    call.is_granted();
    let (lock, token) = (lease.lock(), lease.ticket().get());
    let grant = Grant {
        host: host.id,
        call: call.number,
        lock,
        ticket: token,
        share: Share {
            permits: ALL,
            of: ALL,
        },
    };
    let mut stay = Stay::until(world, grant, wait(left(world, lease)));
    let mut lease = lease.clone();
    for _ in 0..rng.u8(1..4) {
        host.link.awake().await;
        stay.write(world, lock, token);
        pause(world, left(world, &lease).mul_f64(rng.f64() * 1.2)).await;
        let carried: Lease = lease.to_string().parse().unwrap();
        let other = world.any_locks(rng).lease_lock(lock).unwrap();
        if rng.bool() {
            let longer = other.extend(&carried, span_of(host, rng)).await;
            if let Ok(longer) = longer {
                stay.go_on(wait(left(world, &longer)));
                lease = longer;
            }
        } else if let Ok(Some(found)) = other.find(lease.id()).await {
            lease = found;
        }
    }
    if rng.bool() {
        stay.give_back();
        // The call may be lost or not answered: the history shows whether that did any harm.
        let _ = world
            .any_locks(rng)
            .lease_lock(lock)
            .unwrap()
            .release(&lease)
            .await;
    } else {
        pause(world, left(world, &lease)).await;
    }
}

fn span_of(host: &Host, rng: &mut Rng) -> Duration {
    SECOND.max(host.plan.lease.mul_f64(rng.f64()))
}

/// How long the owner may still believe in the lease. It stops early, by as much as a front end's clock may differ from the time.
fn left(world: &World, lease: &Lease) -> Duration {
    let over = lease.expires_at() + world.lease_overstay();
    let over = over - world.plan.skew();
    over.duration_since(world.server_time()).unwrap_or_default()
}
