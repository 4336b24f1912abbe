//! First writes, on a key that carries no id of a write: what their callers learn if other writes come between.

use fairlock::embedded::{Fault, Gate, When};
use fairlock::{Change, Item, UpdateError, VersionedTable};
use tokio::time::sleep;

use super::bank::*;
use super::steps::*;
use fairlock_testkit::ambiguous_endings::{applied_unseen, first};
use fairlock_testkit::lab::SECOND;
use fairlock_testkit::virtual_time;

/// What other kinds of writers leave: nothing, an item without a version, and an item with a version of their own.
fn bases() -> [Option<Item>; 3] {
    let plain: Item = whole_key();
    let mut numbered = plain.clone();
    numbered.insert("version".into(), n(0));
    [None, Some(plain), Some(numbered)]
}

async fn begin_with(bank: &Bank, item: Option<Item>) {
    if let Some(item) = item {
        let put = bank.engine.client().put_item().table_name("accounts");
        put.set_item(Some(item)).send().await.unwrap();
    }
}

fn open(_: Option<Item>) -> Decided {
    Ok(Change::Put(opened()))
}

/// An update that opens the account. Its put meets `fault`, and its answer is held until `meanwhile` is done.
async fn opens_despite(
    bank: &Bank,
    fault: Fault,
    meanwhile: impl AsyncFnOnce(VersionedTable),
) -> Result<fairlock::UpdateOutcome, UpdateError<&'static str>> {
    let gate = Gate::closed();
    let network = bank.network(1);
    first(
        &network,
        "PutItem",
        fault.and(Fault::Hold(When::After, gate.clone())),
    );
    let builder = VersionedTable::builder(network.client(), "accounts");
    let builder = builder
        .clock(bank.clock.clone())
        .request_timeout(20 * SECOND);
    let accounts = builder.timeout(60 * SECOND).build().unwrap();
    let meanwhile = async {
        gate.reached(1).await;
        meanwhile(bank.accounts()).await;
        gate.open();
    };
    tokio::join!(accounts.update(key(), open), meanwhile).0
}

#[test]
fn a_first_write_that_was_applied_and_used_up_is_unknown_when_another_is_in_its_place() {
    for (base, fault) in bases().into_iter().flat_map(|base| {
        applied_unseen()
            .into_iter()
            .map(move |fault| (base.clone(), fault))
    }) {
        virtual_time(async {
            let bank = Bank::new().await;
            begin_with(&bank, base.clone()).await;
            let answer = opens_despite(&bank, fault.clone(), async |accounts| {
                accounts.update(key(), delete).await.unwrap();
                accounts.update(key(), create).await.unwrap();
            });
            let answer = answer.await;
            assert!(
                matches!(answer, Err(UpdateError::OutcomeUnknown { found: Some(found), .. }) if found == number(1)),
                "{base:?}, {fault:?}: {answer:?}"
            );
        });
    }
}

#[test]
fn a_first_write_under_later_ones_is_recognised_whatever_it_was_written_on() {
    for base in bases() {
        virtual_time(async {
            let bank = Bank::new().await;
            begin_with(&bank, base).await;
            let done = opens_despite(&bank, Fault::Lose(When::After), async |accounts| {
                accounts.update(key(), touch).await.unwrap();
            });
            assert_eq!(done.await.unwrap().attempts, 1);
            assert!(bank.account().await.unwrap().contains_key("touched"));
        });
    }
}

#[test]
fn a_late_copy_of_a_first_write_makes_a_deleted_item_anew_and_one_of_a_later_write_does_not() {
    let copied = || Fault::Duplicate { after: 5 * SECOND };
    virtual_time(async {
        let bank = Bank::new().await;
        let network = bank.network(1);
        let accounts = bank.accounts_on(&network, 1);
        first(&network, "PutItem", copied());
        accounts.update(key(), create).await.unwrap();
        accounts.update(key(), delete).await.unwrap();
        sleep(10 * SECOND).await;
        // As the limitations of `VersionedTable` say.
        assert!(bank.account().await.is_some());
        first(&network, "PutItem", copied());
        accounts.update(key(), touch).await.unwrap();
        accounts.update(key(), delete).await.unwrap();
        sleep(10 * SECOND).await;
        assert_eq!(bank.account().await, None);
        // The same holds over the first write of a new item.
        accounts.update(key(), create).await.unwrap();
        first(&network, "PutItem", copied());
        accounts.update(key(), touch).await.unwrap();
        accounts.update(key(), delete).await.unwrap();
        accounts.update(key(), create).await.unwrap();
        sleep(10 * SECOND).await;
        assert!(!bank.account().await.unwrap().contains_key("touched"));
    });
}

#[test]
fn a_tombstone_in_place_of_a_deletion_keeps_a_late_copy_of_a_first_write_out() {
    virtual_time(async {
        let bank = Bank::new().await;
        let network = bank.network(1);
        let accounts = bank.accounts_on(&network, 1);
        first(&network, "PutItem", Fault::Duplicate { after: 5 * SECOND });
        accounts.update(key(), create).await.unwrap();
        let bury = |_: Option<Item>| Ok::<_, ()>(Change::Put(Item::new()));
        accounts.update(key(), bury).await.unwrap();
        let buried = bank.account().await;
        sleep(10 * SECOND).await;
        assert_eq!(bank.account().await, buried);
    });
}
