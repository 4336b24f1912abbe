//! What happens to sharers: requests that are lost, and deaths.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::embedded::{Fault, Faults};
use fairlock::{Error, LossReason};

use super::faults::{each, in_vain, unseen};
use super::rig::{Rig, SECOND, SHORT, granted, until};
use super::sharing::{counted, takes, waits_for};
use fairlock_testkit::lab::{Host, cut_off, shares};
use fairlock_testkit::verbs::meets;

/// The writes that bring four callers to their permits and away from them, and which caller sends each.
const WRITES: [(&str, usize); 6] = [
    ("share", 1),
    ("release", 1),
    ("release", 0),
    ("admit", 0),
    ("downgrade", 2),
    ("release", 3),
];

/// Two sharers, a waiter for many permits behind them, and a waiter behind that one get their permits, although one write meets a fault.
async fn four_turns(rig: &Rig, (write, sender): (&'static str, usize), fault: Fault) {
    let hosts = [(); 4].map(|()| rig.host_with(|builder| builder.request_timeout(SECOND)));
    let met = meets(&hosts[sender].network, write, 1, fault);
    let (three, one) = (takes(&hosts[0], 3).await, takes(&hosts[1], 1).await);
    let many = waits_for(rig, 0, &hosts[2], 3).await;
    let behind = waits_for(rig, 1, &hosts[3], 2).await;
    one.release().await.unwrap();
    three.release().await.unwrap();
    let (mut many, behind) = (granted(many).await, granted(behind).await);
    assert_eq!(counted(rig).await, (5, 1, 1, 0), "{write}");
    many.downgrade().await.unwrap();
    assert_eq!(counted(rig).await, (3, 1, 1, 0), "{write}");
    behind.release().await.unwrap();
    many.release().await.unwrap();
    rig.comes_to_rest().await;
    until(async || met.load(Ordering::SeqCst) == 1).await;
}

pub(crate) async fn a_write_of_a_sharer_that_was_applied_unseen_is_recognised(rig: &Rig) {
    for (write, fault) in rig.sampled(each(WRITES, &unseen()), 4) {
        four_turns(rig, write, fault).await;
    }
}

pub(crate) async fn a_write_of_a_sharer_that_was_not_applied_is_sent_again(rig: &Rig) {
    for (write, fault) in rig.sampled(each(WRITES, &in_vain()), 5) {
        four_turns(rig, write, fault).await;
    }
}

pub(crate) async fn a_write_of_a_sharer_that_comes_twice_is_applied_once(rig: &Rig) {
    for (write, sender) in WRITES {
        // A copy of a request for a place that comes when its caller has gone begins a hold that nobody renews: it would be in the way for its
        // lease. This one comes at once.
        let after = match write {
            "share" => Duration::ZERO,
            _ => SECOND / 4,
        };
        four_turns(rig, (write, sender), Fault::Duplicate { after }).await;
    }
}

/// A client that will die.
fn mortal(rig: &Rig) -> Host {
    rig.host_with(|builder| builder.lease_duration(SHORT))
}

/// The dead are at the holder's place or beside it. Living readers stay, and are renewed.
pub(crate) async fn dead_readers_are_evicted_one_by_one_and_the_living_stay(rig: &Rig) {
    let hosts = [(); 3].map(|()| mortal(rig));
    let (first, alive, third) = (
        shares(&hosts[0]).await,
        shares(&hosts[1]).await,
        shares(&hosts[2]).await,
    );
    let writer = rig.waits_behind(0, &rig.host()).await;
    hosts[0].network.set_faults(cut_off());
    until(async || counted(rig).await == (2, 2, 2, 1)).await;
    assert!(!first.is_held() && alive.is_held() && third.is_held());
    hosts[2].network.set_faults(cut_off());
    until(async || counted(rig).await == (1, 1, 1, 1)).await;
    assert!(alive.is_held() && !third.is_held() && !writer.is_finished());
    hosts[2].network.set_faults(Faults::default());
    let reason = third.lost().await.reason;
    assert!(matches!(reason, LossReason::Unreachable { .. }), "{reason}");
    let late = third.release().await;
    assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
    hosts[1].network.set_faults(cut_off());
    let writer = granted(writer).await;
    assert!(!alive.is_held(), "two believe that they have the lock");
    assert_eq!(counted(rig).await, (64, 0, 0, 0));
    writer.release().await.unwrap();
    rig.comes_to_rest().await;
}
