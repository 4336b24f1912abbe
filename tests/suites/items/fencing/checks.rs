//! Transactions that check the holder.

use std::sync::atomic::Ordering;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::builders::TransactWriteItemsFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsError, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use fairlock::embedded::{Fault, Network, Request, When};
use fairlock::{Error, LockGuard, LossReason, RecordWait};

use super::items::*;
use super::overtaken::Overtaken;
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, cut_off, in_lab};
use fairlock_testkit::virtual_time;

/// An unfenced write, and the hold's check.
fn checked(
    things: &Client,
    check: TransactWriteItem,
    value: u64,
) -> TransactWriteItemsFluentBuilder {
    let put = Put::builder().table_name("things").item("id", id());
    let put = put.item("value", n(value)).build().unwrap();
    let part = TransactWriteItem::builder().put(put).build();
    let transaction = things.transact_write_items().transact_items(part);
    transaction.transact_items(check)
}

#[test]
fn a_checked_transaction_is_refused_as_soon_as_another_has_the_lock_and_before_it_writes() {
    virtual_time(async {
        let while_held = async |stale: &LockGuard, things: &Client| {
            let check = stale.check_item().unwrap();
            let transaction = checked(things, check.clone(), 1).send().await;
            assert!(committed(transaction, 1));
            check
        };
        let (overtaken, early) = Overtaken::after(while_held).await;
        let things = &overtaken.things;
        let late = overtaken.stale.check_item().unwrap();
        for check in [early, late] {
            assert!(!committed(checked(things, check, 7).send().await, 1));
        }
        assert_eq!(number(things, "value").await, Some(1));
        let check = overtaken.fresh.check_item().unwrap();
        assert!(committed(checked(things, check, 2).send().await, 1));
        assert_eq!(number(things, "value").await, Some(2));
    });
}

/// Why each item of a transaction was cancelled.
fn reasons(
    answer: Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>>,
) -> Vec<String> {
    match answer.unwrap_err().into_service_error() {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => cancelled
            .cancellation_reasons()
            .iter()
            .map(|reason| reason.code().unwrap_or_default().to_owned())
            .collect(),
        other => vec![other.to_string()],
    }
}

#[test]
fn a_checked_transaction_in_conflict_is_told_from_one_of_a_hold_that_is_over_by_its_reasons() {
    in_lab(async |lab, []| {
        let things = things(lab).await;
        let guard = acquire(&lab.host()).await;
        let check = guard.check_item().unwrap();
        let in_conflict = |request: &Request| (request.number() == 1).then_some(Fault::Conflict);
        let network = Network::to(&lab.engine).script(in_conflict);
        let send = || checked(&network.client(), check.clone(), 1).send();
        assert_eq!(reasons(send().await), ["None", "TransactionConflict"]);
        assert_eq!(number(&things, "value").await, None);
        assert!(committed(send().await, 1), "sent again");
        guard.release().await.unwrap();
        assert_eq!(reasons(send().await), ["None", "ConditionalCheckFailed"]);
        assert_eq!(
            network.counts().requests(),
            3,
            "nothing sends any of them twice"
        );
    });
}

/// The first enter of a hold is held up, and the second is answered. The hold ends, and another has its turn. Then the first enter arrives.
#[test]
fn a_late_copy_of_an_enter_brings_no_check_of_the_hold_back() {
    in_lab(async |lab, []| {
        let things = things(lab).await;
        let (a, b) = (lab.host(), lab.host());
        acquire(&a).await.release().await.unwrap();
        let gate = a.held("enter", 1, When::Before);
        let stale = acquire(&a).await;
        gate.reached(1).await;
        let check = stale.check_item().unwrap();
        assert!(committed(
            checked(&things, check.clone(), 1).send().await,
            1
        ));
        stale.release().await.unwrap();
        let fresh = acquire(&b).await;
        let newer = fresh.check_item().unwrap();
        assert!(committed(checked(&things, newer, 2).send().await, 1));
        fresh.release().await.unwrap();
        a.network.set_faults(cut_off());
        gate.open();
        lab.settle().await;
        let state = b.inspect().await;
        assert!(state.holder.is_some(), "the first enter has come");
        assert!(!committed(checked(&things, check, 7).send().await, 1));
        assert_eq!(number(&things, "value").await, Some(2));
    });
}

#[test]
fn a_check_holds_over_renewals_and_not_after_the_release_nor_the_end_of_the_lock_item() {
    in_lab(async |lab, []| {
        let things = things(lab).await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let check = guard.check_item().unwrap();
        lab.wait(100 * SECOND).await;
        let transaction = checked(&things, check.clone(), 1).send().await;
        assert!(committed(transaction, 1));
        guard.release().await.unwrap();
        let transaction = checked(&things, check.clone(), 2).send().await;
        assert!(!committed(transaction, 1));
        host.lock().sweep().await.unwrap();
        lab.delete_lock_item("a").await;
        assert!(!committed(checked(&things, check, 3).send().await, 1));
    });
}

#[test]
fn a_hold_that_is_not_believed_in_gives_no_check() {
    in_lab(async |_, [host]| {
        let guard = acquire(&host).await;
        host.network.set_faults(cut_off());
        guard.lost().await;
        let sent = host.network.counts();
        let Err(Error::Lost { reason, ticket, .. }) = guard.check_item() else {
            panic!("a check of a lost hold")
        };
        assert_is!(reason, LossReason::Unreachable { .. });
        assert_eq!(ticket, guard.ticket());
        assert_eq!((host.network.counts() - sent).requests(), 0);
    });
}

fn call(host: &Host) -> Call {
    let lock = host.lock();
    tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.unwrap() })
}

type Call = tokio::task::JoinHandle<LockGuard>;

/// A lock that another client has released, and callers of one client that hold it one after the other. The first has had its turn, the
/// second has its turn now, and the rest are next at the second's place.
struct Together<const REST: usize> {
    lab: Lab,
    things: Client,
    host: Host,
    earlier: LockGuard,
    later: [Call; REST],
}

impl<const REST: usize> Together<REST> {
    async fn new() -> Self {
        let lab = Lab::new().await;
        let things = things(&lab).await;
        let (other, host) = (lab.host(), lab.host());
        let holder = acquire(&other).await;
        // While the first is on its way into the queue, the others gather, and then go together.
        let (first, second) = (call(&host), call(&host));
        let later = [(); REST].map(|()| call(&host));
        lab.settle().await;
        holder.release().await.unwrap();
        first.await.unwrap().release().await.unwrap();
        let earlier = second.await.unwrap();
        Together {
            lab,
            things,
            host,
            earlier,
            later,
        }
    }
}

#[test]
fn callers_who_have_the_lock_at_one_place_are_told_apart_by_their_checks_and_their_fences() {
    virtual_time(async {
        let Together {
            things,
            earlier,
            later: [later],
            ..
        } = Together::new().await;
        let (check, fence) = (earlier.check_item().unwrap(), earlier.fence("fence"));
        let ticket = earlier.ticket();
        assert!(committed(
            checked(&things, check.clone(), 1).send().await,
            1
        ));
        earlier.release().await.unwrap();
        let later = later.await.unwrap();
        assert_eq!(ticket.get() + 1, later.ticket().get());
        assert!(!committed(
            checked(&things, check.clone(), 7).send().await,
            1
        ));
        let its_own = later.check_item().unwrap();
        assert!(committed(
            checked(&things, its_own.clone(), 2).send().await,
            1
        ));
        assert!(applied(
            later.fence("fence").on(raise(&things)).send().await
        ));
        assert!(!applied(fence.on(set(&things, 7)).send().await));
        later.release().await.unwrap();
        for check in [check, its_own] {
            assert!(!committed(checked(&things, check, 7).send().await, 1));
        }
        assert_eq!(number(&things, "value").await, Some(2));
    });
}

#[test]
fn a_turn_is_passed_on_by_one_write_if_it_was_to_be_checked_and_by_none_if_not() {
    for asks in [true, false] {
        virtual_time(async {
            let together = Together::<1>::new().await;
            if asks {
                drop(together.earlier.check_item().unwrap());
            }
            let sent = together.host.network.counts();
            together.earlier.release().await.unwrap();
            let [later] = together.later;
            let later = later.await.unwrap();
            let sent = together.host.network.counts() - sent;
            assert_eq!(sent.requests(), u64::from(asks));
            later.release().await.unwrap();
            assert_eq!(together.lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn a_check_stays_over_however_its_end_was_answered_and_however_late_a_copy_comes() {
    let late = Fault::Duplicate { after: 2 * SECOND };
    for fault in [
        Fault::Lose(When::After).and(late.clone()),
        Fault::Hang(When::After),
        Fault::Hang(When::Before).and(late.clone()),
        Fault::Conflict,
        late,
    ] {
        virtual_time(async {
            let together = Together::<2>::new().await;
            let met = together.host.meets("pass on", 1, fault.clone());
            let [second, third] = together.later;
            let mut checks = vec![together.earlier.check_item().unwrap()];
            together.earlier.release().await.unwrap();
            assert_eq!(met.load(Ordering::SeqCst), 1);
            let second = second.await.unwrap();
            checks.push(second.check_item().unwrap());
            second.release().await.unwrap();
            let third = third.await.unwrap();
            for _ in 0..5 {
                for check in checks.clone() {
                    let transaction = checked(&together.things, check, 7).send().await;
                    assert!(!committed(transaction, 1), "{fault:?}");
                }
                together.lab.wait(SECOND).await;
            }
            third.release().await.unwrap();
        });
    }
}

#[test]
fn a_turn_whose_check_cannot_be_ended_is_not_passed_on_and_the_next_stands_in_queue_anew() {
    virtual_time(async {
        let together = Together::<1>::new().await;
        let check = together.earlier.check_item().unwrap();
        let denied = Fault::Refuse("AccessDeniedException");
        let _met = together.host.meets("pass on", usize::MAX, denied);
        let ticket = together.earlier.ticket();
        together.earlier.release().await.unwrap();
        let [later] = together.later;
        let later = later.await.unwrap();
        assert!(
            later.ticket().get() > ticket.get() + 1,
            "a place of its own"
        );
        let transaction = checked(&together.things, check, 7).send().await;
        assert!(!committed(transaction, 1));
        later.release().await.unwrap();
    });
}
