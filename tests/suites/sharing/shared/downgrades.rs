//! A holder that held a lock exclusively, and keeps a share of it.

use fairlock::Error;
use fairlock::embedded::{Fault, When};

use super::{SECOND, requests_of, shares, waits_to_share};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Lab, acquire, cut_off, waits};
use fairlock_testkit::verbs::meets;
use fairlock_testkit::virtual_time;

#[test]
fn a_writer_that_downgrades_lets_others_share_and_no_writer_in() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..4).map(|_| lab.host()).collect();
        let mut guard = acquire(&hosts[0]).await;
        let ticket = guard.ticket();
        let second = waits_to_share(&lab, &hosts[1]).await;
        let writer = waits(&lab, &hosts[2]).await;
        let third = waits_to_share(&lab, &hosts[3]).await;
        let (_, requests) = requests_of(&hosts[0], guard.downgrade()).await;
        assert_eq!((requests, guard.permits(), guard.ticket()), (1, 1, ticket));
        let second = second.await.unwrap();
        lab.settle().await;
        assert!(!writer.is_finished() && !third.is_finished());
        let (_, requests) = requests_of(&hosts[0], guard.downgrade()).await;
        assert_eq!(requests, 0, "nothing is left to be freed");
        guard.release().await.unwrap();
        second.release().await.unwrap();
        writer.await.unwrap().release().await.unwrap();
        third.await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_downgrade_that_was_dropped_costs_no_hold_when_data_is_written() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let mut guard = acquire(&host).await;
        meets(&host.network, "downgrade", 1, Fault::Hang(When::After));
        tokio::select! {
            biased;
            done = guard.downgrade() => panic!("{done:?}"),
            () = lab.wait(SECOND / 10) => {}
        }
        let refused = guard.set_data("late").await.unwrap_err();
        assert!(is_invalid(&refused, "this hold shares it"), "{refused}");
        assert_eq!((guard.is_held(), guard.permits()), (true, 1));
        guard.release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_downgrade_of_a_lock_that_was_lost_says_so() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..2).map(|_| lab.host()).collect();
        let mut guard = acquire(&hosts[0]).await;
        let next = waits(&lab, &hosts[1]).await;
        let _ = hosts[0].network.clone().faults(cut_off());
        lab.wait(60 * SECOND).await;
        let next = next.await.unwrap();
        let refused = guard.downgrade().await.unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }), "{refused}");
        assert!(next.is_held());
    });
}

#[test]
fn a_downgrade_whose_answer_is_lost_is_followed_by_a_release_of_what_is_left() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let mut guard = acquire(&hosts[0]).await;
        meets(&hosts[0].network, "downgrade", 1, Fault::Lose(When::After));
        guard.downgrade().await.unwrap();
        let second = shares(&hosts[1]).await;
        guard.release().await.unwrap();
        assert!(second.is_held());
        second.release().await.unwrap();
        assert!(acquire(&hosts[2]).await.is_held());
    });
}
