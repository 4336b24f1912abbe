//! The client as a value, driven over the real engine, beside the other client. With `FAIRLOCK_DRIVEN` set, all suites are of it.

mod panics;

use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, in_lab};
use futures::future::join_all;

fn driven(lab: &Lab) -> Host {
    lab.host_with(|builder| builder.testing(|it| it.is_driven = true))
}

#[test]
fn callers_of_both_clients_take_turns_and_leave_nothing() {
    in_lab(async |lab, others: [_; 2]| {
        let driven = [(); 2].map(|()| driven(lab));
        let turns = driven.iter().chain(&others).map(async |host| {
            for _ in 0..5 {
                let guard = acquire(host).await;
                lab.wait(SECOND / 10).await;
                assert!(guard.is_held());
                guard.release().await.unwrap();
            }
        });
        join_all(turns).await;
        lab.settle().await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        assert!(lab.is_free("a").await);
    });
}

/// Nine gather while the first one is on its way, and take their turns at one place. Without the date, its first request is refused.
#[test]
fn callers_of_one_client_pass_the_lock_on_without_a_request() {
    in_lab(async |lab, []| {
        let a = driven(lab);
        let turns = join_all((0..10).map(|_| async {
            let guard = acquire(&a).await;
            let ticket = guard.ticket();
            guard.release().await.unwrap();
            ticket
        }));
        let tickets = turns.await;
        assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
        assert_eq!(a.network.counts().requests(), 5);
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_hold_whose_runtime_has_gone_is_lost_at_once() {
    let guard = in_lab(async |lab, []| acquire(&driven(lab)).await);
    assert!(!guard.is_held());
}
