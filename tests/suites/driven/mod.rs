//! The client as a value, driven over the real engine, beside the other client.

mod panics;

use fairlock::embedded::Fault::Hang;
use fairlock::embedded::When;
use fairlock::{Held, RecordWait};
use fairlock_protocol::agent::{Bounds, Claim, Done, Loss, Refusal};
use fairlock_testkit::lab::{Host, SECOND, acquire, cut_off, in_lab};
use futures::future::join_all;

async fn asks(host: &Host, wait: RecordWait) -> Result<Held, Refusal> {
    host.locks
        .driven()
        .acquire("a", wait, Claim::default())
        .await
}

async fn holds(host: &Host) -> Held {
    asks(host, RecordWait::Infinite).await.unwrap()
}

fn is_not_granted(asked: Result<Held, Refusal>) -> bool {
    matches!(asked, Err(Refusal::NotGranted(Some(_))))
}

#[test]
fn callers_of_both_clients_take_turns_and_leave_nothing() {
    in_lab(async |lab, hosts: [_; 4]| {
        let driven = hosts[..2].iter().map(async |host| {
            for _ in 0..5 {
                let held = holds(host).await;
                lab.wait(SECOND / 10).await;
                assert!(held.is_held());
                assert!(matches!(held.release().await, Ok(Done::HandedOff(_))));
            }
        });
        let others = hosts[2..].iter().map(async |host| {
            for _ in 0..5 {
                let guard = acquire(host).await;
                lab.wait(SECOND / 10).await;
                assert!(guard.is_held());
                guard.release().await.unwrap();
            }
        });
        futures::join!(join_all(driven), join_all(others));
        lab.settle().await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        assert!(lab.is_free("a").await);
    });
}

/// Nine gather while the first one is on its way, and take their turns at one place. Without the date, its first request is refused.
#[test]
fn callers_of_one_client_pass_the_lock_on_without_a_request() {
    in_lab(async |lab, [a]| {
        let turns = join_all((0..10).map(|_| async {
            let held = holds(&a).await;
            (held.ticket(), held.release().await.unwrap())
        }));
        let (tickets, done): (Vec<_>, Vec<_>) = turns.await.into_iter().unzip();
        assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
        let passed = done.iter().filter(|it| matches!(it, Done::PassedOn));
        assert_eq!((passed.count(), a.network.counts().requests()), (8, 5));
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_call_waits_for_as_long_as_it_says_and_leaves_nothing() {
    in_lab(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        assert!(is_not_granted(asks(&b, RecordWait::NoWait).await));
        assert!(is_not_granted(asks(&b, RecordWait::Timeout(SECOND)).await));
        lab.drops(SECOND, holds(&b)).await;
        lab.settle().await;
        assert_eq!(a.inspect().await.queue.len(), 0);
        guard.release().await.unwrap();
        drop(asks(&b, RecordWait::NoWait).await.unwrap());
        assert!(lab.is_free("a").await);
    });
}

/// The answer to its first request comes after its caller has gone.
#[test]
fn a_call_that_is_dropped_gives_back_what_it_gets_later() {
    for when in [When::Before, When::After] {
        in_lab(async |lab, [a]| {
            a.next_meets("UpdateItem", Hang(when));
            lab.drops(SECOND / 2, holds(&a)).await;
            lab.wait(SECOND * 10).await;
            assert!(lab.is_free("a").await);
        });
    }
}

#[test]
fn a_hold_is_renewed_and_lost_when_it_cannot_be() {
    in_lab(async |lab, [a, b]| {
        let held = holds(&a).await;
        lab.wait(SECOND * 100).await;
        assert!(held.is_held());
        let _ = a.network.clone().faults(cut_off());
        let why = held.lost().await;
        assert!(
            matches!(why, Loss::Unreachable(_) | Loss::Expired),
            "{why:?}"
        );
        assert!(!held.is_held());
        let next = acquire(&b).await;
        assert!(next.ticket() > held.ticket());
        drop(held);
        next.release().await.unwrap();
    });
}

#[test]
fn a_hold_ends_with_its_longest_time() {
    in_lab(async |lab, [a]| {
        let bounds = Bounds {
            max: Some(SECOND * 5),
            ..Bounds::default()
        };
        let claim = Claim {
            bounds,
            ..Claim::default()
        };
        let driven = a.locks.driven();
        let held = driven
            .acquire("a", RecordWait::NoWait, claim)
            .await
            .unwrap();
        assert!(matches!(held.lost().await, Loss::MaxHold(_)));
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_hold_whose_runtime_has_gone_is_lost_at_once() {
    let held = in_lab(async |_, [a]| holds(&a).await);
    assert!(!held.is_held());
}
