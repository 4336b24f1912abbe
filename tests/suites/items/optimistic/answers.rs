//! Writes whose answers were lost: the caller learns what became of each, or that it is unknown.

use std::collections::BTreeMap;

use fairlock::embedded::{Fault, When};
use fairlock::{Error, UpdateError, Version};
use tokio::time::{Instant, sleep};

use super::bank::*;
use super::steps::*;
use fairlock_testkit::ambiguous_endings::{applied_unseen, first, lost_unseen};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::SECOND;
use fairlock_testkit::virtual_time;

/// Makes one withdrawal whose put meets a fault and is not answered for two seconds. Meanwhile other withdrawals are made, one after the
/// other.
async fn with_others(
    bank: &Bank,
    fault: Fault,
    others: usize,
) -> Result<fairlock::UpdateOutcome, UpdateError<Overdrawn>> {
    let network = bank.network(1);
    first(&network, "PutItem", fault);
    let (one, other) = (bank.accounts_on(&network, 1), bank.accounts());
    let others = async {
        sleep(SECOND).await;
        for turn in 0..others {
            withdraw(&other, &format!("other {turn}"), 1).await.unwrap();
        }
    };
    tokio::join!(withdraw(&one, "one", 400), others).0
}

#[test]
fn a_write_that_was_applied_unseen_is_recognised_under_those_that_came_after_it() {
    for others in [1, 15] {
        in_bank(async |bank| {
            let done = with_others(bank, Fault::Hang(When::After), others)
                .await
                .unwrap();
            assert_eq!((done.version, done.attempts), (number(2), 1));
            let told = BTreeMap::from([("one".to_owned(), Told::Done)]);
            let account = bank.account().await.unwrap();
            assert_eq!(audit(&account, &told), [""; 0]);
            assert_eq!(
                read(&account, "Balance"),
                -300 - i64::try_from(others).unwrap()
            );
        });
    }
}

#[test]
fn a_write_that_was_never_applied_is_decided_on_anew_over_what_came_before_it() {
    for fault in lost_unseen() {
        in_bank(async |bank| {
            let late = Fault::Hang(When::Before).and(fault);
            let done = with_others(bank, late, 3).await.unwrap();
            assert_eq!((done.version, done.attempts), (number(5), 2));
            let account = bank.account().await.unwrap();
            assert_eq!(read(&account, "Balance"), -303);
        });
    }
}

#[test]
fn under_more_writes_than_are_remembered_nobody_knows_and_the_caller_is_told_so() {
    for (fault, others) in [
        (Fault::Hang(When::After), 16),
        (Fault::Hang(When::Before), 16),
    ] {
        in_bank(async |bank| {
            let Err(UpdateError::OutcomeUnknown {
                expected,
                found,
                key,
                source,
                ..
            }) = with_others(bank, fault.clone(), others).await
            else {
                panic!("{fault:?}: it cannot be known")
            };
            assert_eq!(expected, number(1));
            let later = if matches!(fault, Fault::Hang(When::After)) {
                18
            } else {
                17
            };
            assert_eq!(found, Some(number(later)));
            assert_eq!((key.as_str(), source.is_none()), ("AccountId = 123", true));
        });
    }
}

#[test]
fn a_write_that_is_never_answered_is_unknown_and_a_read_is_not() {
    in_bank(async |bank| {
        let network = bank.network(1);
        let accounts = bank.accounts_on(&network, 1);
        let cut = |operation: &'static str| {
            let _ = network.clone().script(move |request| {
                let is_it = request.operation() == operation;
                is_it.then_some(Fault::Lose(When::Before))
            });
        };
        cut("PutItem");
        let started = Instant::now();
        let answer = withdraw(&accounts, "one", 400).await;
        let Err(UpdateError::OutcomeUnknown {
            found: None,
            source: Some(source),
            ..
        }) = answer
        else {
            panic!("{answer:?}")
        };
        assert!(matches!(*source, Error::Unavailable { .. }), "{source:?}");
        assert!(started.elapsed() <= 32 * SECOND, "{:?}", started.elapsed());
        cut("GetItem");
        let answer = withdraw(&accounts, "one", 400).await;
        assert_is!(answer, Err(UpdateError::Table(Error::Unavailable { .. })));
        let account = bank.account().await.unwrap();
        assert_eq!(read(&account, "Balance"), 100);
    });
}

#[test]
fn a_refusal_or_a_conflict_is_no_doubt() {
    in_bank(async |bank| {
        let network = bank.network(1);
        let accounts = bank.accounts_on(&network, 1);
        first(&network, "PutItem", Fault::Refuse("AccessDeniedException"));
        let answer = withdraw(&accounts, "one", 10).await;
        assert_is!(answer, Err(UpdateError::Table(Error::Refused { .. })));
        first(&network, "PutItem", Fault::Conflict);
        let done = withdraw(&accounts, "one", 10).await.unwrap();
        assert_eq!((done.version, done.attempts), (number(2), 1));
        // If there were any doubt, it would be unknown which write deleted the item.
        first(
            &network,
            "DeleteItem",
            Fault::Delay(When::After, SECOND).and(Fault::Conflict),
        );
        let others = async {
            sleep(SECOND / 2).await;
            bank.accounts().update(key(), delete).await.unwrap();
        };
        let (answer, ()) = tokio::join!(accounts.update(key(), delete), others);
        assert_is!(answer, Err(UpdateError::Caller("gone")));
    });
}

#[test]
fn a_deletion_whose_answer_is_lost_is_unknown_once_there_is_no_item() {
    for fault in applied_unseen() {
        in_bank(async |bank| {
            let network = bank.network(1);
            first(&network, "DeleteItem", fault);
            let answer = bank.accounts_on(&network, 1).update(key(), delete).await;
            let Err(UpdateError::OutcomeUnknown {
                expected, found, ..
            }) = answer
            else {
                panic!("{answer:?}")
            };
            assert_eq!((expected, found), (number(1), Some(Version::Absent)));
        });
    }
}

#[test]
fn a_deletion_that_was_lost_is_made_and_one_that_another_write_forestalled_is_decided_on_anew() {
    for fault in lost_unseen() {
        in_bank(async |bank| {
            let network = bank.network(1);
            first(&network, "DeleteItem", fault.clone());
            let accounts = bank.accounts_on(&network, 1);
            assert_eq!(accounts.update(key(), delete).await.unwrap().attempts, 1);
            bank.open().await;
            first(&network, "DeleteItem", Fault::Hang(When::Before));
            let touches = async {
                sleep(SECOND).await;
                bank.accounts().update(key(), touch).await.unwrap();
            };
            let (deleted, ()) = tokio::join!(accounts.update(key(), delete), touches);
            assert_eq!(deleted.unwrap().attempts, 2);
            assert_eq!(bank.account().await, None);
        });
    }
}

#[test]
fn an_engine_that_does_not_show_what_stood_in_the_way_is_asked() {
    for (when, version, attempts) in [(When::After, 2, 1), (When::Before, 4, 2)] {
        virtual_time(async {
            let mut bank = Bank::new().await;
            bank.engine = bank.engine.without_old_values();
            bank.open().await;
            let done = with_others(&bank, Fault::Hang(when), 2).await.unwrap();
            assert_eq!((done.version, done.attempts), (number(version), attempts));
            let account = bank.account().await.unwrap();
            assert_eq!(read(&account, "Balance"), -302);
        });
    }
}
