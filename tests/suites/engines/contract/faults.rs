//! What goes wrong on the way to an engine and back, over every transport.

use std::sync::atomic::Ordering;

use fairlock::embedded::{Fault, Faults, When};
use futures::future::join_all;

use super::rig::{Rig, SECOND, granted};
use super::turns::Visits;
use fairlock_testkit::lab::acquire;
use fairlock_testkit::verbs::meets;

/// The writes that bring three callers to their turns, and which caller sends each.
const WRITES: [(&str, usize); 6] = [
    ("enter", 0),
    ("enter known", 1),
    ("draw", 2),
    ("join", 2),
    ("fill", 2),
    ("release", 0),
];

/// A holder, a successor and a waiter behind it have their turns although one of their writes meets a fault.
async fn three_turns(rig: &Rig, (write, sender): (&'static str, usize), fault: Fault) {
    let hosts = [(); 3].map(|()| {
        rig.host_with(|builder| {
            let builder = builder.successor_slots(1).request_timeout(SECOND);
            builder.testing(|it| it.join_timeout = Some(5 * SECOND / 2))
        })
    });
    // The first turn creates the lock.
    acquire(&hosts[0]).await.release().await.unwrap();
    let met = meets(&hosts[sender].network, write, 1, fault);
    let guard = acquire(&hosts[0]).await;
    let successor = rig.waits_behind(0, &hosts[1]).await;
    let behind = rig.waits_behind(1, &hosts[2]).await;
    let mut newest = guard.ticket();
    guard.release().await.unwrap();
    for waiting in [successor, behind] {
        let guard = granted(waiting).await;
        assert!(guard.ticket() > newest, "{write}");
        newest = guard.ticket();
        guard.release().await.unwrap();
    }
    rig.comes_to_rest().await;
    assert_eq!(met.load(Ordering::SeqCst), 1, "{write}");
}

/// Every fault by which a write is applied without its sender learning of it.
pub(crate) fn unseen() -> [Fault; 5] {
    [
        Fault::Lose(When::After),
        Fault::Close(When::After),
        Fault::ServerError(When::After),
        Fault::CutShort,
        Fault::Hang(When::After),
    ]
}

/// Every fault by which a write is not applied.
pub(crate) fn in_vain() -> [Fault; 6] {
    [
        Fault::Lose(When::Before),
        Fault::Close(When::Before),
        Fault::ServerError(When::Before),
        Fault::Hang(When::Before),
        Fault::Throttle,
        Fault::Conflict,
    ]
}

/// Each of the writes with each of the faults. Four and five have no divisor in common with the number of faults, so a sample of one in as
/// many has every write and every fault.
pub(crate) fn each(
    writes: [(&'static str, usize); 6],
    faults: &[Fault],
) -> impl Iterator<Item = ((&'static str, usize), Fault)> {
    let writes = writes.into_iter();
    writes.flat_map(move |write| faults.iter().map(move |fault| (write, fault.clone())))
}

pub(crate) async fn a_write_that_was_applied_unseen_is_recognised(rig: &Rig) {
    for (write, fault) in rig.sampled(each(WRITES, &unseen()), 4) {
        three_turns(rig, write, fault).await;
    }
}

pub(crate) async fn a_write_that_was_not_applied_is_sent_again(rig: &Rig) {
    for (write, fault) in rig.sampled(each(WRITES, &in_vain()), 5) {
        three_turns(rig, write, fault).await;
    }
}

pub(crate) async fn four_workers_on_a_bad_network_are_never_two_at_once(rig: &Rig) {
    let (visits, hosts) = (Visits::default(), [(); 4].map(|()| rig.host()));
    let bad = Faults {
        lost_requests: 0.03,
        lost_answers: 0.03,
        errors_before: 0.03,
        errors_after: 0.03,
        throttles: 0.03,
        conflicts: 0.03,
        ..Faults::default()
    };
    hosts.iter().for_each(|host| host.network.set_faults(bad));
    join_all(hosts.iter().map(|host| visits.visit(host, 5))).await;
    visits.assert_in_order(20);
    rig.comes_to_rest().await;
}
