//! The driver of a client: what is true of it alone.

mod panics;

use fairlock_testkit::lab::{acquire, in_lab};
use futures::future::join_all;

/// Nine gather while the first one is on its way, and take their turns at one place. Without the date, its first request is refused.
#[test]
fn callers_of_one_client_pass_the_lock_on_without_a_request() {
    in_lab(async |lab, [a]| {
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
    let guard = in_lab(async |_, [a]| acquire(&a).await);
    assert!(!guard.is_held());
}
