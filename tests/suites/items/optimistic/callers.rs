//! What callers see, and what they are kept from.

use std::convert::Infallible;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Network};
use fairlock::{Change, Error, Fence, Item, Ticket, UpdateError, VersionedTable};

use super::bank::*;
use super::steps::*;
use fairlock_testkit::assert_is;
use fairlock_testkit::consistent_reads;
use fairlock_testkit::lab::SECOND;
use fairlock_testkit::virtual_time;

#[test]
fn an_update_is_one_consistent_read_and_one_write_and_to_keep_an_item_is_none() {
    in_bank(async |bank| {
        let reads = consistent_reads::Reads::default();
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
    in_bank(async |bank| {
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
        // If the item was deleted meanwhile, it does not come back either.
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
    in_bank(async |bank| {
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
        let touched = despite(bank, "PutItem", touches, async |_| {
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
fn what_another_program_keeps_at_the_attribute_of_ids_is_neither_read_as_ids_nor_written_over() {
    let map = |key: &str, value| AttributeValue::M([(key.to_owned(), value)].into());
    for (value, version) in [
        (AttributeValue::S("of others".into()), Some(n(3))),
        (AttributeValue::S("of others".into()), None),
        (map("3", n(3)), Some(n(3))),
        (map("by", AttributeValue::S("others".into())), Some(n(3))),
    ] {
        virtual_time(async {
            let bank = Bank::new().await;
            let mut item = whole_key();
            item.insert("version_writes".into(), value.clone());
            item.extend(version.map(|version| ("version".into(), version)));
            let put = bank.engine.client().put_item().table_name("accounts");
            put.set_item(Some(item.clone())).send().await.unwrap();
            for answer in [
                bank.accounts().update(key(), touch).await,
                bank.accounts().update(key(), delete).await,
            ] {
                let Err(UpdateError::NotAVersion { attribute, .. }) = answer else {
                    panic!("{answer:?}")
                };
                assert_eq!(attribute, "version_writes");
            }
            assert_eq!(bank.account().await, Some(item));
        });
    }
}

#[test]
fn an_item_that_has_room_for_one_id_is_written_again_and_again() {
    virtual_time(async {
        let bank = Bank::new().await;
        // The key, the version and one id, with the map that contains them. Then one byte more than there is room for.
        let others = "AccountId123".len() + "version".len() + 2 + "version_writes".len() + 3;
        let room = 400 * 1024 - others - (1 + "1".len() + 32) - "big".len();
        let put = async |bytes: usize| {
            let big = AttributeValue::S("x".repeat(bytes));
            let put =
                |_| Ok::<_, Infallible>(Change::Put([("big".to_owned(), big.clone())].into()));
            bank.accounts().update(key(), put).await
        };
        for version in 1..=9 {
            assert_eq!(put(room).await.unwrap().version, number(version));
        }
        let refused = put(room + 1).await;
        let Err(UpdateError::Table(Error::Refused { .. })) = refused else {
            panic!("{refused:?}")
        };
        // With a second id, as if no id were forgotten, DynamoDB does not accept the item.
        let mut item = bank.account().await.unwrap();
        let ids = item["version_writes"].as_m().unwrap().clone();
        assert_eq!(ids.len(), 1);
        let more = ids
            .into_iter()
            .chain([("8".to_owned(), AttributeValue::S("y".repeat(32)))]);
        item.insert("version_writes".into(), AttributeValue::M(more.collect()));
        let put_whole = bank.engine.client().put_item().table_name("accounts");
        assert!(put_whole.set_item(Some(item)).send().await.is_err());
        // A smaller item remembers more ids again.
        for _ in 0..20 {
            put(room - 1000).await.unwrap();
        }
        let item = bank.account().await.unwrap();
        assert_eq!(item["version_writes"].as_m().unwrap().len(), 16);
    });
}

#[test]
fn a_fence_that_is_no_token_is_said_before_anything_is_written() {
    let beyond = u128::from(u64::MAX) + 2;
    for (value, is_token) in [
        (AttributeValue::S("none yet".into()), false),
        (AttributeValue::N(beyond.to_string()), false),
        (AttributeValue::N("-1.5".into()), true),
    ] {
        virtual_time(async {
            let bank = Bank::new().await;
            let put = bank.engine.client().put_item().table_name("accounts");
            let put = put.set_item(Some(whole_key())).item("fence", value.clone());
            put.send().await.unwrap();
            let fenced = bank.accounts().fenced(Fence::new("fence", Ticket::new(7)));
            match fenced.update(key(), touch).await {
                Ok(_) => assert!(is_token, "{value:?}"),
                Err(UpdateError::NotAToken { attribute, .. }) => {
                    assert!(attribute == "fence" && !is_token, "{value:?}");
                }
                Err(other) => panic!("{other}"),
            }
        });
    }
}

#[test]
fn a_fenced_update_says_the_item_with_its_token() {
    in_bank(async |bank| {
        for token in [7, 9] {
            let fence = Fence::new("fence", Ticket::new(token));
            let fenced = bank.accounts().fenced(fence.clone());
            let updated = fenced.update(key(), touch).await.unwrap();
            assert_eq!(
                updated.item.as_ref().unwrap()["fence"],
                fence.parts().compared.1
            );
            let keeps = |_| Ok::<_, Infallible>(Change::Keep);
            let kept = fenced.update(key(), keeps).await.unwrap();
            assert_eq!(updated.item, kept.item);
        }
    });
}

#[test]
fn a_fenced_update_is_refused_by_a_newer_token_whether_it_came_before_the_read_or_after() {
    in_bank(async |bank| {
        let fenced = |accounts: VersionedTable, ticket| {
            accounts.fenced(Fence::new("fence", Ticket::new(ticket)))
        };
        let touches = async |accounts, ticket| fenced(accounts, ticket).update(key(), touch).await;
        touches(bank.accounts(), 7).await.unwrap();
        let touched = despite(
            bank,
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
        assert_is!(deleted, Err(UpdateError::Stale { .. }));
        fenced(bank.accounts(), 8)
            .update(key(), delete)
            .await
            .unwrap();
        assert_eq!(bank.account().await, None);
    });
}

#[test]
fn a_fence_on_an_attribute_of_the_key_is_refused_and_writes_to_no_other_item() {
    virtual_time(async {
        let network = Network::to(&Engine::memory().unwrap());
        let accounts = VersionedTable::new(network.client(), "accounts").unwrap();
        let [(name, _)] = key();
        let fenced = accounts.fenced(Fence::new(name, Ticket::new(7)));
        for refused in [
            fenced.update(key(), touch).await,
            fenced.update(key(), delete).await,
        ] {
            let Err(UpdateError::Table(Error::Invalid(invalid))) = refused else {
                panic!("{refused:?}")
            };
            assert!(invalid.to_string().contains("fence"), "{invalid}");
        }
        assert_eq!(network.counts().requests(), 0);
    });
}

#[test]
fn settings_and_keys_that_cannot_work_are_refused_by_type_before_anything_is_sent() {
    virtual_time(async {
        let network = Network::to(&Engine::memory().unwrap());
        let builder = || VersionedTable::builder(network.client(), "accounts");
        for refused in [
            VersionedTable::new(network.client(), "a table").err(),
            builder().version_attribute("").build().err(),
            builder().version_attribute("x".repeat(249)).build().err(),
            builder().max_attempts(0).build().err(),
            builder().request_timeout(Duration::ZERO).build().err(),
            builder().request_timeout(Duration::MAX).build().err(),
        ] {
            assert_is!(refused, Some(Error::Invalid(_)));
        }
        for timeout in [SECOND / 1000, 10 * SECOND, 3600 * SECOND] {
            builder().request_timeout(timeout).build().unwrap();
        }
        let accounts = builder().build().unwrap();
        let fenced = accounts.fenced(Fence::new("version", Ticket::new(1)));
        for refused in [
            accounts.update(Item::new(), touch).await,
            accounts.update([("version", n(1))], touch).await,
            fenced.update(key(), touch).await,
        ] {
            assert_is!(refused, Err(UpdateError::Table(Error::Invalid(_))));
        }
        assert_eq!(network.counts().requests(), 0);
    });
}
