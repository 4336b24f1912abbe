//! A holder that held a lock exclusively, and keeps a share of it.

use fairlock::Error;
use fairlock::embedded::{Fault, When};

use fairlock_testkit::assert_is;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, SECOND, acquire, cut_off, in_lab, waits};

#[test]
fn a_downgrade_that_was_dropped_costs_no_hold_when_data_is_written() {
    in_lab(async |lab, [host]| {
        let mut guard = acquire(&host).await;
        host.meets("downgrade", 1, Fault::Hang(When::After));
        lab.drops(SECOND / 10, guard.downgrade()).await;
        let refused = guard.set_data("late").await.unwrap_err();
        assert!(is_invalid(&refused, "this hold shares it"), "{refused}");
        assert_eq!((guard.is_held(), guard.permits()), (true, 1));
        guard.release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_downgrade_of_a_lock_that_was_lost_says_so() {
    in_lab(async |lab, hosts: [Host; 2]| {
        let mut guard = acquire(&hosts[0]).await;
        let next = waits(lab, &hosts[1]).await;
        let _ = hosts[0].network.clone().faults(cut_off());
        lab.wait(60 * SECOND).await;
        let next = next.await.unwrap();
        let refused = guard.downgrade().await.unwrap_err();
        assert_is!(refused, Error::Lost { .. });
        assert!(next.is_held());
    });
}
