//! Two clients change one item: one of them wins. The other decides again, or learns what it found.

use fairlock::embedded::{Fault, Gate, When};
use fairlock::{UpdateError, Version, VersionedTable};
use tokio::time::{Instant, sleep};

use super::bank::*;
use super::steps::*;
use fairlock_testkit::ambiguous_endings::first;
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::SECOND;
use fairlock_testkit::virtual_time;

#[test]
fn a_deletion_does_not_take_what_was_changed_since_and_an_update_does_not_bring_back_what_was_deleted()
 {
    in_bank(async |bank| {
        let deletes = async |accounts: VersionedTable| accounts.update(key(), delete).await;
        let touches = async |accounts: VersionedTable| accounts.update(key(), touch).await;
        let deleted = despite(bank, "DeleteItem", deletes, async |accounts| {
            touches(accounts).await.unwrap();
        });
        let deleted = deleted.await.unwrap();
        assert_eq!(
            (deleted.attempts, deleted.version, deleted.item),
            (2, Version::Absent, None)
        );
        bank.open().await;
        let touched = despite(bank, "PutItem", touches, async |accounts| {
            deletes(accounts).await.unwrap();
        });
        assert_is!(touched.await, Err(UpdateError::Caller("gone")));
        assert_eq!(bank.account().await, None);
    });
}

#[test]
fn an_item_that_was_made_anew_is_not_taken_for_the_one_that_was_read() {
    in_bank(async |bank| {
        let touches = async |accounts: VersionedTable| accounts.update(key(), touch).await;
        let touched = despite(bank, "PutItem", touches, async |accounts| {
            accounts.update(key(), delete).await.unwrap();
            let again = accounts.update(key(), create).await.unwrap();
            assert_eq!(again.version, number(1), "the same version as before");
        });
        assert_eq!(touched.await.unwrap().attempts, 2);
    });
}

#[test]
fn whoever_loses_too_often_is_told_what_was_expected_and_what_was_found() {
    virtual_time(async {
        let bank = Bank::new().await;
        // What the loser does, what the other does meanwhile, and what each of the two finds.
        let races: [(Decide, Decide, Version, Version); 4] = [
            (create, create, Version::Absent, number(1)),
            (touch, touch, number(1), number(2)),
            (touch, delete, number(2), Version::Absent),
            (create, create, Version::Absent, number(1)),
        ];
        for (losing, winning, was_expected, was_found) in races {
            let (network, gate) = (bank.network(1), Gate::closed());
            first(&network, "PutItem", Fault::Hold(When::Before, gate.clone()));
            let once = VersionedTable::builder(network.client(), "accounts").max_attempts(1);
            let once = once.clock(bank.clock.clone()).build().unwrap();
            let wins = async {
                gate.reached(1).await;
                bank.accounts().update(key(), winning).await.unwrap();
                gate.open();
            };
            let (answer, ()) = tokio::join!(once.update(key(), losing), wins);
            let told = answer.as_ref().unwrap_err().to_string();
            let Err(UpdateError::Conflict {
                expected,
                found,
                attempts,
                table,
                key,
            }) = answer
            else {
                panic!("{answer:?}")
            };
            assert_eq!((expected, found, attempts), (was_expected, was_found, 1));
            assert_eq!(
                (table.as_str(), key.as_str()),
                ("accounts", "AccountId = 123")
            );
            assert!(
                told.contains(&format!("expected {expected} and found {found}")),
                "{told}"
            );
        }
    });
}

#[test]
fn the_attempts_are_counted_and_the_pauses_between_them_grow() {
    in_bank(async |bank| {
        let network = bank.network(1).script(|request| {
            let is_put = request.operation() == "PutItem";
            is_put.then(|| Fault::Delay(When::Before, SECOND / 10))
        });
        let accounts = bank.accounts_on(&network, 1);
        let other = bank.accounts();
        let others = async {
            loop {
                sleep(SECOND / 20).await;
                other.update(key(), touch).await.unwrap();
            }
        };
        let started = Instant::now();
        let answer = tokio::select! {
            biased;
            answer = accounts.update(key(), touch) => answer,
            () = others => panic!("they go on for ever"),
        };
        let Err(UpdateError::Conflict { attempts: 16, .. }) = answer else {
            panic!("{answer:?}")
        };
        let pauses = started.elapsed() - 16 * SECOND / 10;
        assert!(4 * SECOND < pauses && pauses < 20 * SECOND, "{pauses:?}");
        assert_eq!(network.counts().of("PutItem"), 16);
    });
}
