//! Turns by leases that are not renewed. A host takes a lease, and another may extend or release it; otherwise it runs out.

use std::time::Duration;

use fairlock::{Error, Lease, RecordWait};
use fastrand::Rng;
use tokio::time::Instant;

use crate::bounds::Bounds;
use crate::call::Call;
use crate::history::{Granted, Share};
use crate::stay::Stay;
use crate::wanted::Wanted;
use crate::worker::{RetryPolicy, is_due, pause, refused};
use crate::world::{Host, World, wait};

const SECOND: Duration = Duration::from_secs(1);

/// Takes the lock if it is free, and holds it for a while. In some plans the call waits, shares the lock or takes permits, or its lease comes
/// of a guard.
pub(crate) async fn take_turn(world: &World, host: &Host, lock: &Wanted, rng: &mut Rng) {
    if world.plan.leases_wait {
        return wait_for_turn(world, host, lock, rng).await;
    }
    let began = Instant::now();
    let mut call = Call::begin(world, host, lock, RecordWait::NoWait);
    let leased = lock.leases(&host.locks);
    let (id, span) = (format!("call {}", call.number), span_of(host, rng));
    match leased.acquire(id, span).await {
        Ok(lease) => stay(world, host, (&mut call, lock), &lease, rng).await,
        Err(error) => {
            drop(call);
            let is_due = is_due(&error, RecordWait::NoWait, host, (lock.name(), began));
            refused(world, RecordWait::NoWait, &error, is_due, rng).await;
        }
    }
}

async fn wait_for_turn(world: &World, host: &Host, lock: &Wanted, rng: &mut Rng) {
    let wanted = lock.draw(world, rng);
    let how = RetryPolicy::draw(rng, world.plan.only_infinite);
    let began = Instant::now();
    let mut call = Call::for_lease(world, host, &wanted);
    let (id, span) = (format!("call {}", call.number), span_of(host, rng));
    let comes_of_a_guard = rng.bool();
    // Not dropped: a lease that begins all the same would stay without an owner, and its place would seem to be passed.
    let leased = match comes_of_a_guard {
        true => match wanted.in_no_batch().acquire(how.wait).await {
            Ok(guard) => guard.into_lease(id, span).await,
            Err(error) => Err(error),
        },
        false => {
            let leases = wanted.leases(&host.locks);
            leases.acquire_in_turn(id, span, how.wait).await
        }
    };
    match leased {
        Ok(lease) => stay(world, host, (&mut call, &wanted), &lease, rng).await,
        Err(error) => {
            drop(call);
            let is_due = match &error {
                Error::NotGranted { .. } => how.wait != RecordWait::Infinite,
                // The guard's, before it became a lease.
                Error::Lost { .. } => comes_of_a_guard,
                // The requests that make a lease are tried for some time only.
                error => is_due(error, RecordWait::NoWait, host, (wanted.name(), began)),
            };
            refused(world, RecordWait::NoWait, &error, is_due, rng).await;
        }
    }
}

/// Works under the lease, while other hosts may continue it from its text form.
async fn stay(
    world: &World,
    host: &Host,
    (call, wanted): (&mut Call, &Wanted),
    lease: &Lease,
    rng: &mut Rng,
) {
    if left(world, lease).is_zero() {
        return;
    }
    call.is_granted();
    let (lock, token) = (lease.lock(), lease.ticket().get());
    let granted = Granted {
        hold: world.history.next_hold(),
        call: call.number,
        host: host.id,
        lock: lock.to_owned(),
        ticket: token,
        place: token,
        share: Share {
            permits: wanted.permits,
            of: wanted.of,
        },
        bounds: Bounds::default(),
    };
    let mut stay = Stay::until(world, granted, wait(left(world, lease)));
    let mut lease = lease.clone();
    for _ in 0..rng.u8(1..4) {
        host.link.awake().await;
        // The tickets of sharers do not exclude each other.
        if wanted.permits == wanted.of {
            stay.write(world, lock, token);
        }
        pause(world, left(world, &lease).mul_f64(rng.f64() * 1.2)).await;
        let carried: Lease = lease.to_string().parse().unwrap();
        let other = wanted.leases(&world.any_locks(rng));
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
        let other = wanted.leases(&world.any_locks(rng));
        let _ = other.release(&lease).await;
    } else {
        pause(world, left(world, &lease)).await;
    }
}

fn span_of(host: &Host, rng: &mut Rng) -> Duration {
    SECOND.max(host.plan.lease.mul_f64(rng.f64()))
}

/// How long the owner may still believe in the lease. It stops early, by as much as a right clock may be off.
fn left(world: &World, lease: &Lease) -> Duration {
    let over = lease.expires_at() + world.lease_overstay();
    let over = over - world.plan.skew();
    over.duration_since(world.server_time()).unwrap_or_default()
}
