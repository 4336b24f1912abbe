//! Items with versions: no change is lost, none is made twice, and whoever loses a race is told what was found.
#![cfg(feature = "embedded")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

#[path = "optimistic/bank.rs"]
mod bank;
mod common;
#[path = "common/keys.rs"]
mod keys;
#[path = "common/reads.rs"]
mod reads;

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use bank::*;
use common::virtual_time;
use fairlock::embedded::{Engine, Fault, Faults, Gate, Network, When};
use fairlock::{Change, Error, Fence, Item, Ticket, UpdateError, Version, VersionedTable};
use futures::future::join_all;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

/// Every way in which a request may be applied without its sender's knowing.
fn applied_unseen() -> [Fault; 4] {
    [
        Fault::CutShort,
        Fault::Lose(When::After),
        Fault::ServerError(When::After),
        Fault::Hang(When::After),
    ]
}

/// And in which it is not applied, without its sender's knowing that.
fn lost_unseen() -> [Fault; 3] {
    [
        Fault::Lose(When::Before),
        Fault::ServerError(When::Before),
        Fault::Hang(When::Before),
    ]
}

/// The first request of an operation meets a fault, the others none.
fn first(network: &Network, operation: &'static str, fault: Fault) {
    let met = std::sync::atomic::AtomicBool::new(false);
    let _ = network.clone().script(move |request| {
        let is_it = request.operation() == operation;
        let hit = is_it && !met.swap(true, std::sync::atomic::Ordering::SeqCst);
        hit.then(|| fault.clone())
    });
}

fn number(version: i64) -> Version {
    Version::Number(version.try_into().unwrap())
}

// ---------------------------------------------------------------------------------------------------------------
// Nothing is lost, and nothing is done twice

/// The article's two withdrawals at once; what is wrong afterwards.
fn two_withdrawals(way: Way, seed: u64) -> Vec<String> {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let faults = Faults {
            round_trip: storm().round_trip,
            ..Faults::default()
        };
        let [one, other] =
            [2 * seed, 2 * seed + 1].map(|seed| Worker::new(&bank, way, seed, faults));
        let (one, other) = tokio::join!(one.withdraw("one", 400), other.withdraw("other", 300));
        let account = bank.account().await.unwrap();
        let told = BTreeMap::from([("one".to_owned(), one), ("other".to_owned(), other)]);
        let mut wrong = audit(&account, &told);
        if one == other {
            wrong.push(format!("both were told {one:?}"));
        }
        wrong
    })
}

#[test]
fn of_the_articles_two_withdrawals_exactly_one_is_made() {
    for seed in 0..50 {
        let wrong = two_withdrawals(Way::Versioned, seed);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
    }
    let wrong = |seed| !two_withdrawals(Way::Naive, seed).is_empty();
    let naive = (0..50).filter(|seed| wrong(*seed)).count();
    assert!(naive > 5, "the naive way was wrong {naive} times only");
}

/// Four workers with five withdrawals each, in a storm; what is wrong afterwards, and how often who was told what.
fn many_withdrawals(way: Way, seed: u64) -> (Vec<String>, BTreeMap<Told, usize>) {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let bank = &bank;
        let workers = (0..4).map(|who| async move {
            let worker = Worker::new(bank, way, 4 * seed + who, storm());
            let mut told = Vec::new();
            for turn in 0..5 {
                let name = format!("{who}/{turn}");
                let amount = i64::try_from(10 + (seed + 7 * who + 3 * turn) % 50).unwrap();
                told.push((name.clone(), worker.withdraw(&name, amount).await));
            }
            told
        });
        let told: BTreeMap<_, _> = join_all(workers).await.into_iter().flatten().collect();
        // Until the last copy of a request has come.
        sleep(10 * SECOND).await;
        let wrong = audit(&bank.account().await.unwrap(), &told);
        let mut counts = BTreeMap::new();
        for told in told.into_values() {
            *counts.entry(told).or_default() += 1;
        }
        (wrong, counts)
    })
}

#[test]
fn in_a_storm_each_withdrawal_is_made_once_or_not_at_all_as_its_caller_is_told() {
    let mut all = BTreeMap::new();
    for seed in 0..60 {
        let (wrong, counts) = many_withdrawals(Way::Versioned, seed);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        counts
            .into_iter()
            .for_each(|(told, count)| *all.entry(told).or_insert(0) += count);
    }
    let of = |told| all.get(&told).copied().unwrap_or(0);
    assert!(of(Told::Done) > 900 && of(Told::Refused) > 10, "{all:?}");
    assert!(of(Told::Unknown) < 20, "{all:?}");
}

#[test]
fn the_audit_notices_lost_withdrawals_and_doubled_ones() {
    let wrong = |way| (0..20).flat_map(move |seed| many_withdrawals(way, seed).0);
    let naive: Vec<_> = wrong(Way::Naive).collect();
    assert!(
        naive
            .iter()
            .any(|it| it.ends_with("Done and is there 0 times")),
        "{naive:?}"
    );
    let forgetful: Vec<_> = wrong(Way::Forgetful).collect();
    assert!(
        forgetful
            .iter()
            .any(|it| it.ends_with("Done and is there 2 times")),
        "{forgetful:?}"
    );
    assert!(
        !forgetful.iter().any(|it| it.ends_with("there 0 times")),
        "{forgetful:?}"
    );
}

#[test]
fn a_write_that_was_applied_unseen_is_not_made_again() {
    for fault in applied_unseen() {
        virtual_time(async {
            let bank = Bank::new().await;
            bank.open().await;
            let network = bank.network(1);
            first(&network, "PutItem", fault);
            let done = withdraw(&bank.accounts_on(&network, 1), "one", 400)
                .await
                .unwrap();
            assert_eq!((done.version, done.attempts), (number(2), 1));
            let account = bank.account().await.unwrap();
            assert_eq!(read(&account, "Balance"), -300);
            assert_eq!(network.counts().of("PutItem"), 2);
        });
    }
}

/// One withdrawal whose put meets a fault and is not answered for two seconds, in which others are made one after the other.
async fn with_others(
    bank: &Bank,
    fault: Fault,
    others: usize,
) -> Result<fairlock::Updated, UpdateError<Overdrawn>> {
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
        virtual_time(async {
            let bank = Bank::new().await;
            bank.open().await;
            let done = with_others(&bank, Fault::Hang(When::After), others)
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
        virtual_time(async {
            let bank = Bank::new().await;
            bank.open().await;
            let late = Fault::Hang(When::Before).and(fault);
            let done = with_others(&bank, late, 3).await.unwrap();
            assert_eq!((done.version, done.attempts), (number(5), 2));
            let account = bank.account().await.unwrap();
            assert_eq!(read(&account, "Balance"), -303);
        });
    }
}

#[test]
fn a_write_that_arrives_after_all_changes_nothing_any_more() {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let late = Fault::Hang(When::Before).and(Fault::Duplicate { after: 5 * SECOND });
        let done = with_others(&bank, late, 3).await.unwrap();
        assert_eq!(done.attempts, 2);
        let account = bank.account().await;
        sleep(10 * SECOND).await;
        assert_eq!(bank.account().await, account);
    });
}

#[test]
fn under_more_writes_than_are_remembered_nobody_knows_and_the_caller_is_told_so() {
    for (fault, others) in [
        (Fault::Hang(When::After), 16),
        (Fault::Hang(When::Before), 16),
    ] {
        virtual_time(async {
            let bank = Bank::new().await;
            bank.open().await;
            let Err(UpdateError::Unknown {
                expected,
                found,
                key,
                source,
                ..
            }) = with_others(&bank, fault.clone(), others).await
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
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
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
        let Err(UpdateError::Unknown {
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
        assert!(
            matches!(answer, Err(UpdateError::Table(Error::Unavailable { .. }))),
            "{answer:?}"
        );
        let account = bank.account().await.unwrap();
        assert_eq!(read(&account, "Balance"), 100);
    });
}

#[test]
fn a_refusal_or_a_conflict_is_no_doubt() {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let network = bank.network(1);
        let accounts = bank.accounts_on(&network, 1);
        first(&network, "PutItem", Fault::Refuse("AccessDeniedException"));
        let answer = withdraw(&accounts, "one", 10).await;
        assert!(
            matches!(answer, Err(UpdateError::Table(Error::Refused { .. }))),
            "{answer:?}"
        );
        first(&network, "PutItem", Fault::Conflict);
        let done = withdraw(&accounts, "one", 10).await.unwrap();
        assert_eq!((done.version, done.attempts), (number(2), 1));
    });
}

// ---------------------------------------------------------------------------------------------------------------
// Races, one by one

/// An update whose write is held up until `meanwhile` is done.
async fn despite<T>(
    bank: &Bank,
    operation: &'static str,
    update: impl AsyncFnOnce(VersionedTable) -> T,
    meanwhile: impl AsyncFnOnce(VersionedTable),
) -> T {
    let (network, gate) = (bank.network(1), Gate::closed());
    first(&network, operation, Fault::Hold(When::Before, gate.clone()));
    let meanwhile = async {
        gate.reached(1).await;
        meanwhile(bank.accounts()).await;
        gate.open();
    };
    tokio::join!(update(bank.accounts_on(&network, 1)), meanwhile).0
}

type Decided = Result<Change, &'static str>;

fn delete(item: Option<Item>) -> Decided {
    item.map_or(Err("gone"), |_| Ok(Change::Delete))
}

fn create(item: Option<Item>) -> Decided {
    item.map_or_else(|| Ok(Change::Put(opened())), |_| Err("taken"))
}

fn touch(item: Option<Item>) -> Decided {
    let mut item = item.ok_or("gone")?;
    item.insert("touched".into(), AttributeValue::Bool(true));
    Ok(Change::Put(item))
}

#[test]
fn of_two_who_create_an_item_one_does_and_the_other_sees_it() {
    virtual_time(async {
        let bank = Bank::new().await;
        let creates = async |accounts: VersionedTable| accounts.update(key(), create).await;
        let meanwhile = async |accounts: VersionedTable| {
            accounts.update(key(), create).await.unwrap();
        };
        let slow = despite(&bank, "PutItem", creates, meanwhile).await;
        assert!(
            matches!(slow, Err(UpdateError::Caller("taken"))),
            "{slow:?}"
        );
        let version = bank.account().await.unwrap()["version"].clone();
        assert_eq!(version, n(1));
    });
}

#[test]
fn a_deletion_does_not_take_what_was_changed_since_and_an_update_does_not_bring_back_what_was_deleted()
 {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let deletes = async |accounts: VersionedTable| accounts.update(key(), delete).await;
        let touches = async |accounts: VersionedTable| accounts.update(key(), touch).await;
        let deleted = despite(&bank, "DeleteItem", deletes, async |accounts| {
            touches(accounts).await.unwrap();
        });
        let deleted = deleted.await.unwrap();
        assert_eq!(
            (deleted.attempts, deleted.version, deleted.item),
            (2, Version::Absent, None)
        );
        bank.open().await;
        let touched = despite(&bank, "PutItem", touches, async |accounts| {
            deletes(accounts).await.unwrap();
        });
        let touched = touched.await;
        assert!(
            matches!(touched, Err(UpdateError::Caller("gone"))),
            "{touched:?}"
        );
        assert_eq!(bank.account().await, None);
    });
}

#[test]
fn an_item_that_was_made_anew_is_not_taken_for_the_one_that_was_read() {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let touches = async |accounts: VersionedTable| accounts.update(key(), touch).await;
        let touched = despite(&bank, "PutItem", touches, async |accounts| {
            accounts.update(key(), delete).await.unwrap();
            let anew = accounts.update(key(), create).await.unwrap();
            assert_eq!(anew.version, number(1), "the same version as before");
        });
        assert_eq!(touched.await.unwrap().attempts, 2);
    });
}

#[test]
fn a_deletion_whose_answer_is_lost_is_unknown_once_there_is_no_item() {
    for fault in applied_unseen() {
        virtual_time(async {
            let bank = Bank::new().await;
            bank.open().await;
            let network = bank.network(1);
            first(&network, "DeleteItem", fault);
            let answer = bank.accounts_on(&network, 1).update(key(), delete).await;
            let Err(UpdateError::Unknown {
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
        virtual_time(async {
            let bank = Bank::new().await;
            bank.open().await;
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
fn whoever_loses_too_often_is_told_what_was_expected_and_what_was_found() {
    virtual_time(async {
        let bank = Bank::new().await;
        // What the loser does, what the other does meanwhile, and what each of the two finds.
        let races: [(fn(_) -> Decided, fn(_) -> Decided, Version, Version); 4] = [
            (create, create, Version::Absent, number(1)),
            (touch, touch, number(1), number(2)),
            (touch, delete, number(2), Version::Absent),
            (create, create, Version::Absent, number(1)),
        ];
        for (losing, winning, was_expected, was_found) in races {
            let (network, gate) = (bank.network(1), Gate::closed());
            first(&network, "PutItem", Fault::Hold(When::Before, gate.clone()));
            let once = VersionedTable::builder(network.client(), "accounts").attempts(1);
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
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
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

// ---------------------------------------------------------------------------------------------------------------
// What callers see

#[test]
fn an_update_is_one_consistent_read_and_one_write_and_to_keep_an_item_is_none() {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let reads = reads::Reads::default();
        let network = reads.watch(bank.network(1));
        let accounts = bank.accounts_on(&network, 1);
        withdraw(&accounts, "one", 10).await.unwrap();
        let sent = network.counts();
        assert_eq!((sent.reads(), sent.writes()), (1, 1));
        let kept = accounts
            .update(key(), |_| Ok::<_, ()>(Change::Keep))
            .await
            .unwrap();
        let sent = network.counts() - sent;
        assert_eq!((sent.reads(), sent.writes()), (1, 0));
        assert_eq!(kept.version, number(2));
        assert_eq!(read(&kept.item.unwrap(), "Balance"), 90);
    });
}

#[test]
fn a_closure_is_shown_its_own_attributes_and_the_version_is_kept_whatever_it_says() {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let wrong = |item: Option<Item>| {
            let mut item = item.unwrap();
            assert!(!item.contains_key("version") && !item.contains_key("version_writes"));
            assert!(item.remove("AccountId").is_some());
            item.insert("version".into(), n(77));
            Ok::<_, ()>(Change::Put(item))
        };
        let updated = bank.accounts().update(key(), wrong).await.unwrap();
        assert_eq!(updated.version, number(2));
        assert_eq!(bank.account().await.unwrap()["version"], n(2));
    });
}

#[test]
fn a_callers_error_comes_through_unchanged_and_nothing_is_written() {
    #[derive(Debug, PartialEq)]
    struct NoErrorAtAll(Vec<u8>);
    virtual_time(async {
        let bank = Bank::new().await;
        let refuses = |_| Err(NoErrorAtAll(vec![1, 2]));
        let answer = bank.accounts().update(key(), refuses).await;
        assert!(matches!(answer, Err(UpdateError::Caller(own)) if own == NoErrorAtAll(vec![1, 2])));
        assert_eq!(bank.account().await, None);
    });
}

#[test]
fn an_item_without_a_version_gets_one_and_from_then_on_no_change_is_lost() {
    virtual_time(async {
        let bank = Bank::new().await;
        let put = bank.engine.client().put_item().table_name("accounts");
        let mut account = opened();
        account.extend(whole_key());
        put.set_item(Some(account)).send().await.unwrap();
        let touches = async |accounts: VersionedTable| accounts.update(key(), touch).await;
        let touched = despite(&bank, "PutItem", touches, async |accounts| {
            let first = withdraw(&accounts, "one", 400).await.unwrap();
            assert_eq!(first.version, number(1));
        });
        let touched = touched.await.unwrap();
        assert_eq!((touched.version, touched.attempts), (number(2), 2));
        assert_eq!(read(&touched.item.unwrap(), "Balance"), -300);
        // Deleted meanwhile, it does not come back either.
        let strip = bank.engine.client().update_item().table_name("accounts");
        let strip = strip
            .set_key(Some(whole_key()))
            .update_expression("REMOVE version");
        strip.send().await.unwrap();
        let touched = despite(&bank, "PutItem", touches, async |_| {
            let delete = bank.engine.client().delete_item().table_name("accounts");
            delete.set_key(Some(whole_key())).send().await.unwrap();
        });
        assert!(matches!(touched.await, Err(UpdateError::Caller("gone"))));
    });
}

#[test]
fn those_who_write_with_versions_in_other_ways_lose_nothing_and_nothing_of_theirs_is_lost() {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        // As the article does it.
        let writes_by_hand = async |version: u64, condition: bool| {
            let mut account = bank.account().await.unwrap();
            account.insert("version".into(), n(version + 1));
            let put = bank.engine.client().put_item().table_name("accounts");
            let mut put = put.set_item(Some(account));
            if condition {
                put = put.condition_expression("version = :seen");
                put = put.expression_attribute_values(":seen", n(version));
            }
            put.send().await
        };
        let touches = async |accounts: VersionedTable| accounts.update(key(), touch).await;
        let touched = despite(&bank, "PutItem", touches, async |_| {
            writes_by_hand(1, true).await.unwrap();
        });
        assert_eq!(touched.await.unwrap().version, number(3));
        assert!(writes_by_hand(2, true).await.is_err());
        writes_by_hand(3, true).await.unwrap();
        assert_eq!(
            withdraw(&bank.accounts(), "one", 10).await.unwrap().version,
            number(5)
        );
    });
}

#[test]
fn an_item_whose_version_is_none_is_refused_with_what_it_is() {
    virtual_time(async {
        let bank = Bank::new().await;
        let put = bank.engine.client().put_item().table_name("accounts");
        let put = put
            .set_item(Some(whole_key()))
            .item("version", AttributeValue::S("v7".into()));
        put.send().await.unwrap();
        let answer = bank.accounts().update(key(), touch).await;
        let Err(UpdateError::NotAVersion {
            attribute, value, ..
        }) = answer
        else {
            panic!("{answer:?}")
        };
        assert!(
            attribute == "version" && value.contains("v7"),
            "{attribute}: {value}"
        );
    });
}

#[test]
fn a_fenced_update_is_refused_by_a_newer_token_whether_it_came_before_the_read_or_after() {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let fenced = |accounts: VersionedTable, ticket| {
            accounts.fenced(Fence::new("fence", Ticket::new(ticket)))
        };
        let touches = async |accounts, ticket| fenced(accounts, ticket).update(key(), touch).await;
        touches(bank.accounts(), 7).await.unwrap();
        let touched = despite(
            &bank,
            "PutItem",
            async |accounts| touches(accounts, 7).await,
            async |accounts| {
                touches(accounts, 8).await.unwrap();
            },
        );
        for answer in [touched.await, touches(bank.accounts(), 7).await] {
            let Err(UpdateError::Stale { ticket, newest, .. }) = answer else {
                panic!("{answer:?}")
            };
            assert_eq!((ticket, newest), (Ticket::new(7), Ticket::new(8)));
        }
        let deleted = fenced(bank.accounts(), 7).update(key(), delete).await;
        assert!(
            matches!(deleted, Err(UpdateError::Stale { .. })),
            "{deleted:?}"
        );
        fenced(bank.accounts(), 8)
            .update(key(), delete)
            .await
            .unwrap();
        assert_eq!(bank.account().await, None);
    });
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

#[test]
fn settings_and_keys_that_cannot_work_are_refused_by_type_before_anything_is_sent() {
    virtual_time(async {
        let network = Network::to(&Engine::memory().unwrap());
        let builder = || VersionedTable::builder(network.client(), "accounts");
        for refused in [
            VersionedTable::new(network.client(), "a table").err(),
            builder().version_attribute("").build().err(),
            builder().version_attribute("x".repeat(256)).build().err(),
            builder().writes_attribute("version").build().err(),
            builder().attempts(0).build().err(),
            builder().request_timeout(Duration::ZERO).build().err(),
            builder().request_timeout(Duration::MAX).build().err(),
        ] {
            assert!(matches!(refused, Some(Error::Invalid(_))), "{refused:?}");
        }
        for timeout in [SECOND / 1000, 10 * SECOND, 3600 * SECOND] {
            builder().request_timeout(timeout).build().unwrap();
        }
        let accounts = builder().build().unwrap();
        let fenced = accounts.fenced(Fence::new("version", Ticket::new(1)));
        for refused in [
            accounts.update([("", n(1)); 0], touch).await,
            accounts.update([("version", n(1))], touch).await,
            fenced.update(key(), touch).await,
        ] {
            let refused = refused.unwrap_err();
            assert!(
                matches!(refused, UpdateError::Table(Error::Invalid(_))),
                "{refused:?}"
            );
        }
        assert_eq!(network.counts().requests(), 0);
    });
}
