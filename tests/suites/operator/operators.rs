//! Requests of operators beside other requests: each is heard, and no late copy of one takes back what came since.

use std::time::Duration;

use fairlock::embedded::{Fault, When};
use fairlock::{BreakOutcome, DeleteOutcome, LockGuard, LossReason};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{Host, SECOND, acquire, in_lab, waits};

/// Longer than a heartbeat.
const A_WHILE: Duration = Duration::from_secs(11);
const LATE_COPY: Fault = Fault::Duplicate {
    after: Duration::from_secs(4),
};

fn reason(guard: &LockGuard) -> String {
    guard.yield_requested().unwrap().reason
}

/// Asks the holder of lock `a`.
async fn ask(ops: &Host, reason: &str) {
    assert_eq!(ops.locks.ask_to_yield("a", reason).await.unwrap(), 1);
}

async fn breaks(ops: &Host, reason: &str) {
    let seen = ops.inspect().await;
    let seen = seen.holder.unwrap();
    let broken = ops.locks.break_hold("a", &seen, reason).await.unwrap();
    assert!(matches!(broken, BreakOutcome::Broken { .. }));
}

#[test]
fn a_request_that_any_answer_shows_wakes_whoever_waits_for_it() {
    in_lab(async |lab, [one, ops]| {
        let guard = acquire(&one).await;
        ask(&ops, "please").await;
        let asked = tokio::spawn(guard.asked_to_yield());
        lab.settle().await;
        assert!(!asked.is_finished() && guard.yield_requested().is_none());
        guard.set_data("x").await.unwrap();
        lab.settle().await;
        assert!(asked.is_finished() && guard.yield_requested().is_some());
    });
}

#[test]
fn a_late_copy_of_a_request_to_give_way_replaces_no_newer_one() {
    in_lab(async |lab, [one, two, ops]| {
        let first = acquire(&one).await;
        let next = waits(lab, &two).await;
        ops.meets("ask", 1, LATE_COPY);
        ask(&ops, "first").await;
        first.release().await.unwrap();
        let next = next.await.unwrap();
        ask(&ops, "second").await;
        lab.wait(A_WHILE).await;
        assert_eq!(reason(&next), "second");
        // The same holder is asked again.
        let again = lab.host();
        again.meets("ask", 1, LATE_COPY);
        ask(&again, "third").await;
        ask(&ops, "fourth").await;
        lab.wait(A_WHILE).await;
        assert_eq!(reason(&next), "fourth");
    });
}

#[test]
fn a_request_whose_answer_is_lost_is_made_once_and_told_as_made() {
    in_lab(async |_, [one, ops]| {
        let guard = acquire(&one).await;
        ops.meets("ask", 1, Fault::Lose(When::After));
        ask(&ops, "tea").await;
        assert_eq!(ops.network.counts().requests(), 3);
        assert_eq!(guard.asked_to_yield().await.reason, "tea");
    });
}

#[test]
fn a_request_whose_answer_is_lost_is_not_made_again_over_a_newer_one() {
    in_lab(async |lab, [one, ops, other]| {
        let guard = acquire(&one).await;
        let slow = Fault::Delay(When::After, SECOND).and(Fault::Lose(When::After));
        ops.meets("ask", 1, slow);
        tokio::join!(ask(&ops, "first"), async {
            lab.wait(SECOND / 2).await;
            ask(&other, "second").await;
        });
        lab.wait(A_WHILE).await;
        assert_eq!(reason(&guard), "second");
    });
}

#[test]
fn operators_who_ask_at_one_moment_all_ask() {
    in_lab(async |lab, []| {
        let guard = acquire(&lab.host()).await;
        let operators: Vec<_> = (0..8).map(|_| lab.host()).collect();
        let asked = operators.iter().map(|ops| ask(ops, "please"));
        futures::future::join_all(asked).await;
        guard.asked_to_yield().await;
    });
}

#[test]
fn a_late_copy_of_a_break_is_no_newer_break() {
    in_lab(async |lab, [one, two, three, ops]| {
        let _first = acquire(&one).await;
        let next = waits(lab, &two).await;
        ops.meets("break", 1, LATE_COPY);
        breaks(&ops, "first").await;
        let next = next.await.unwrap();
        let last = waits(lab, &three).await;
        breaks(&ops, "second").await;
        let told = next.lost().await.reason;
        let second = |reason: &str| reason == "second";
        assert_is!(told, LossReason::Broken { reason, .. } if second(reason));
        lab.wait(A_WHILE).await;
        assert!(last.await.unwrap().is_held());
    });
}

#[test]
fn a_late_copy_of_a_deletion_takes_nothing_that_came_since() {
    in_lab(async |lab, [one, ops]| {
        acquire(&one).await.release().await.unwrap();
        lab.wait(90 * SECOND).await;
        ops.meets("remove lock", 1, LATE_COPY);
        let deleted = ops.locks.delete_lock("a").await.unwrap();
        assert_eq!(deleted, DeleteOutcome::Deleted);
        acquire(&one).await.release().await.unwrap();
        lab.wait(A_WHILE).await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    });
}
