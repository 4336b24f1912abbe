//! Dead clients: waiters pass them, and a client that comes back learns what happened.

use fairlock::embedded::Faults;
use fairlock::{Error, LossReason};

use super::rig::{Rig, SECOND, SHORT, granted};
use fairlock_testkit::lab::{Host, acquire, cut_off};

/// A client that will die.
fn mortal(rig: &Rig) -> Host {
    rig.host_with(|builder| builder.lease_duration(SHORT).successor_slots(1))
}

pub(crate) async fn a_dead_holder_is_passed_after_its_lease_and_told(rig: &Rig) {
    let (dead, next) = (mortal(rig), rig.host());
    let guard = acquire(&dead).await;
    let waiting = rig.waits_behind(0, &next).await;
    dead.network.set_faults(cut_off());
    let next = granted(waiting).await;
    assert!(!guard.is_held(), "two believe that they have the lock");
    assert!(next.ticket() > guard.ticket());
    let reason = guard.lost().await.reason;
    assert!(matches!(reason, LossReason::Unreachable { .. }), "{reason}");
    dead.network.set_faults(Faults::default());
    let late = guard.release().await;
    assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
    assert!(next.is_held(), "a late release released the next holder");
    next.release().await.unwrap();
    rig.comes_to_rest().await;
}

/// They wait in one client, which dies, and one living caller waits behind them.
pub(crate) async fn a_dead_successor_and_the_dead_behind_it_are_passed(rig: &Rig) {
    const DEAD: usize = 4;
    let (host, mortal, next) = (rig.host(), mortal(rig), rig.single());
    let guard = acquire(&host).await;
    let mut waiting = Vec::new();
    for before in 0..DEAD {
        waiting.push(rig.waits_behind(before, &mortal).await);
    }
    let next = rig.waits_behind(DEAD, &next).await;
    mortal.network.set_faults(cut_off());
    let ticket = guard.ticket().get();
    guard.release().await.unwrap();
    let next = granted(next).await;
    assert!(next.ticket().get() > ticket + DEAD as u64);
    for dead in waiting {
        dead.abort();
        // An answer that was under way when its client died may have granted it the lock.
        if let Ok(Ok(guard)) = dead.await {
            assert!(!guard.is_held(), "two believe that they have the lock");
        }
    }
    next.release().await.unwrap();
    rig.comes_to_rest().await;
}

pub(crate) async fn a_holder_whose_lock_item_was_deleted_is_told_so(rig: &Rig) {
    let host = rig.host_with(|builder| builder.lease_duration(6 * SECOND));
    let guard = acquire(&host).await;
    rig.delete_lock_item().await;
    assert_eq!(guard.lost().await.reason, LossReason::Deleted);
    let next = acquire(&rig.host()).await;
    assert!(next.ticket() > guard.ticket());
    let late = guard.release().await;
    let reason = match &late {
        Err(Error::Lost { reason, .. }) => Some(reason),
        _ => None,
    };
    assert_eq!(reason, Some(&LossReason::Deleted), "{late:?}");
    assert!(next.is_held());
    next.release().await.unwrap();
}
