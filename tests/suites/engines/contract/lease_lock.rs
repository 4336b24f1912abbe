//! Locks that a name holds for a time, across processes.

use std::time::Duration;

use fairlock::{Error, Lease, LeaseLock, RecordWait};

use super::rig::{Rig, SECOND, granted, until};
use fairlock_testkit::lab::{Host, acquire};

const MINUTE: Duration = Duration::from_secs(60);

fn named(host: &Host) -> LeaseLock {
    host.locks.lease_lock("a").unwrap()
}

/// Leases need dates. Where answers have none, the clock of the hosts stands in for them.
fn host(rig: &Rig) -> Host {
    rig.host_with(|builder| builder.fallback_date(rig.clock_at_rate(1.0)))
}

fn is_refused(refused: &Result<Lease, Error>) -> bool {
    matches!(refused, Err(Error::NotGranted { .. }))
}

pub(crate) async fn a_lease_is_found_extended_and_released_by_another_process(rig: &Rig) {
    let [a, b, c] = [(); 3].map(|()| host(rig));
    let lease = named(&a).acquire("one", MINUTE).await.unwrap();
    assert_eq!(named(&b).find("one").await.unwrap(), Some(lease.clone()));
    assert_eq!(named(&b).find("other").await.unwrap(), None);
    assert!(is_refused(&named(&b).acquire("other", MINUTE).await));
    assert_eq!(named(&b).acquire("one", MINUTE).await.unwrap(), lease);
    let longer = named(&b).extend(&lease, 10 * MINUTE).await.unwrap();
    assert!(longer.ticket() == lease.ticket() && longer.expires_at() > lease.expires_at());
    let next = rig.waits_behind(0, &c).await;
    named(&b).release(&lease).await.unwrap();
    let next = granted(next).await;
    assert!(next.ticket() > lease.ticket());
    assert!(is_refused(&named(&a).acquire("one", MINUTE).await));
    for refused in [
        named(&a).release(&lease).await.err(),
        named(&a).extend(&lease, MINUTE).await.err(),
    ] {
        assert!(matches!(refused, Some(Error::Lost { .. })), "{refused:?}");
    }
    assert!(next.is_held());
    next.release().await.unwrap();
    rig.comes_to_rest().await;
}

/// By the server clock, or by a waiter in the queue that has observed no change for that long.
pub(crate) async fn a_lease_that_is_over_is_passed_by_who_waits(rig: &Rig) {
    let lease = named(&host(rig)).acquire("one", SECOND).await.unwrap();
    let next = granted(rig.waits_behind(0, &host(rig)).await).await;
    assert!(next.ticket() > lease.ticket());
    next.release().await.unwrap();
    rig.comes_to_rest().await;
}

/// Leases whose callers waited in the queue, one by one and beside each other, and guards that became leases.
pub(crate) async fn leases_are_granted_in_turn_and_permits_are_leased(rig: &Rig) {
    let [a, b, c] = [(); 3].map(|()| host(rig));
    let guard = acquire(&a).await;
    let lock = named(&b);
    let waiting = lock.acquire_in_turn("one", MINUTE, RecordWait::Infinite);
    let (lease, ()) = futures::future::join(waiting, async {
        let lock = c.lock();
        until(async || lock.inspect().await.unwrap().queue.len() == 1).await;
        guard.release().await.unwrap();
    })
    .await;
    let lease = lease.unwrap();
    assert_eq!(named(&c).find("one").await.unwrap(), Some(lease.clone()));
    let next = rig.waits_behind(0, &c).await;
    named(&a).release(&lease).await.unwrap();
    let mut next = granted(next).await;
    next.downgrade().await.unwrap();
    let reading = next.into_lease("reader", MINUTE).await.unwrap();
    let beside = named(&a).shared().acquire("beside", MINUTE).await.unwrap();
    let longer = named(&b).shared().extend(&beside, 2 * MINUTE).await;
    let longer = longer.unwrap();
    assert!(longer.expires_at() > beside.expires_at());
    assert!(is_refused(&named(&b).acquire("writer", MINUTE).await));
    for lease in [reading, longer] {
        named(&c).shared().release(&lease).await.unwrap();
    }
    rig.comes_to_rest().await;
}
