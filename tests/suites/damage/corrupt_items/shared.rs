//! Damage to shares, to data, and to leases.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Error, ItemProblem, LockGuard, RecordWait};

use super::{Item, SECOND, WAITS, damage, items, number, text};
use fairlock_testkit::lab::{Host, Lab, acquire, cut_off};
use fairlock_testkit::tamper::slot;
use fairlock_testkit::virtual_time;

const ALL: u64 = 64;

async fn shares(host: &Host) -> LockGuard {
    let lock = host.locks.fair_lock("a").unwrap();
    lock.acquire_shared(RecordWait::Infinite).await.unwrap()
}

fn map(map: Item) -> AttributeValue {
    AttributeValue::M(map)
}

fn map_in<'a>(item: &'a mut Item, name: &str) -> &'a mut Item {
    let Some(AttributeValue::M(map)) = item.get_mut(name) else {
        panic!("no map `{name}`")
    };
    map
}

/// The entry of the only sharer, and its nonce.
fn sharer(item: &mut Item) -> (String, &mut Item) {
    let (nonce, entry) = map_in(item, "sharers").iter_mut().next().unwrap();
    let AttributeValue::M(entry) = entry else {
        panic!("no entry")
    };
    (nonce.clone(), entry)
}

/// Every call on lock `a` reports the damage, and the existing entries stay as they were. If the damage lets a share apply, that share only
/// adds itself.
async fn is_said_and_not_written_over(lab: &Lab, what: &str) {
    let before = entries(lab).await;
    let host = lab.host();
    let lock = host.locks.fair_lock("a").unwrap();
    let leased = host.locks.lease_lock("a").unwrap();
    let mut told = vec![
        lock.inspect().await.err(),
        lock.sweep().await.err(),
        leased.acquire("one", SECOND).await.err(),
        leased.find("one").await.err(),
    ];
    for wait in WAITS {
        told.push(lock.acquire(wait).await.err());
        told.push(lock.acquire_shared(wait).await.err());
    }
    for error in told {
        let Some(Error::InvalidItem { item, problem, .. }) = &error else {
            panic!("{what}: {error:?}")
        };
        assert!(item.contains("pk = a, sk = fairlock/#lock"), "{what}");
        let is_damage = matches!(
            problem,
            ItemProblem::Inconsistent { .. }
                | ItemProblem::Missing { .. }
                | ItemProblem::WrongType { .. }
        );
        assert!(is_damage, "{what}: {problem}");
    }
    lab.settle().await;
    let after = entries(lab).await;
    assert!(before.iter().all(|entry| after.contains(entry)), "{what}");
}

/// The entries of all holders, and of the slots.
async fn entries(lab: &Lab) -> Vec<AttributeValue> {
    let item = items(lab).await.swap_remove(0);
    let sharers = item["sharers"].as_m().unwrap().values().cloned();
    let slots = item["slots"].as_l().unwrap().iter().cloned();
    sharers.chain(slots).collect()
}

type Change = fn(&mut Item);

/// Changes to a lock with one entry in the first slot and one sharer beside it.
const CONTRADICTIONS: [(&str, Change); 9] = [
    ("less left than they leave", |item| {
        item.insert("room".into(), number(ALL - 2));
    }),
    ("more left than they leave", |item| {
        item.insert("room".into(), number(ALL));
    }),
    ("a sharer has none", |item| {
        sharer(item).1.insert("permits".into(), number(0));
    }),
    ("a sharer has more than there are", |item| {
        sharer(item).1.insert("permits".into(), number(ALL + 1));
        item.insert("room".into(), AttributeValue::N("-1".into()));
    }),
    ("as many as there are numbers", |item| {
        sharer(item).1.insert("permits".into(), number(u64::MAX));
        let room = (ALL as i64 - i64::MAX).to_string();
        item.insert("room".into(), AttributeValue::N(room));
    }),
    ("a sharer without a ticket", |item| {
        let nonce = sharer(item).0;
        item.remove(&nonce);
    }),
    ("a sharer with a ticket that nobody drew", |item| {
        let last: u64 = item["last"].as_n().unwrap().parse().unwrap();
        let nonce = sharer(item).0;
        item.insert(nonce, number(last + 1_000));
    }),
    ("a sharer under another's nonce", |item| {
        let nonce = sharer(item).0;
        let entry = map_in(item, "sharers").remove(&nonce).unwrap();
        map_in(item, "sharers").insert("0".repeat(32), entry);
        item.insert("0".repeat(32), number(7));
    }),
    ("three thousand sharers", |item| {
        let (nonce, entry) = sharer(item);
        let (entry, last) = (entry.clone(), item["last"].clone());
        for other in 0..3_000 {
            let other = format!("{other:032x}");
            let mut entry = entry.clone();
            entry.insert("nonce".into(), text(&other));
            entry.insert("owner".into(), text("-"));
            entry.insert("ticket".into(), last.clone());
            entry.remove("renewed_at");
            entry.remove("since");
            map_in(item, "sharers").insert(other, map(entry));
        }
        map_in(item, "sharers").remove(&nonce);
        let room = (ALL as i64 - 3_000).to_string();
        item.insert("room".into(), AttributeValue::N(room));
    }),
];

#[test]
fn what_contradicts_itself_is_said_to_all_who_come_and_not_written_over() {
    for (what, change) in CONTRADICTIONS {
        virtual_time(async {
            let lab = Lab::new().await;
            let hosts = [lab.host(), lab.host()];
            let _readers = (shares(&hosts[0]).await, shares(&hosts[1]).await);
            hosts
                .iter()
                .for_each(|host| host.network.set_faults(cut_off()));
            damage(&lab, 0, change).await;
            is_said_and_not_written_over(&lab, what).await;
        });
    }
}

#[test]
fn a_ticket_of_a_sharer_that_is_gone_is_left_alone_and_harms_nobody() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        let reader = shares(&a).await;
        damage(&lab, 0, |item| {
            item.insert("0".repeat(32), text("?"));
        })
        .await;
        let other = shares(&b).await;
        reader.release().await.unwrap();
        other.release().await.unwrap();
        acquire(&a).await.release().await.unwrap();
        assert_eq!(items(&lab).await[0][&"0".repeat(32)], text("?"));
    });
}

#[test]
fn an_entry_of_format_one_which_has_no_permits_is_said() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let _guard = acquire(&host).await;
        host.network.set_faults(cut_off());
        damage(&lab, 0, |item| {
            slot(item, 0).remove("permits");
        })
        .await;
        is_said_and_not_written_over(&lab, "no permits").await;
    });
}

#[test]
fn an_id_that_is_no_text_is_said() {
    virtual_time(async {
        let lab = Lab::new().await;
        let leased = lab.host().locks.lease_lock("a").unwrap();
        leased.acquire("one", 60 * SECOND).await.unwrap();
        damage(&lab, 0, |item| {
            slot(item, 0).insert("id".into(), number(1));
        })
        .await;
        is_said_and_not_written_over(&lab, "an id").await;
    });
}

#[test]
fn data_that_is_none_and_writes_that_were_none_are_said() {
    let of = |ticket: AttributeValue| {
        let count = ("count".to_owned(), number(1));
        map(Item::from([("ticket".into(), ticket), count]))
    };
    for (name, value) in [
        ("data", text("?")),
        ("data", number(7)),
        ("written", text("?")),
        ("written", map(Item::new())),
        ("written", of(text("?"))),
        ("written", of(AttributeValue::N("1.5".into()))),
    ] {
        virtual_time(async {
            let lab = Lab::new().await;
            let guard = acquire(&lab.host()).await;
            guard.set_data("data").await.unwrap();
            guard.release().await.unwrap();
            damage(&lab, 0, |item| {
                drop(item.insert(name.into(), value.clone()))
            })
            .await;
            let lock = lab.host().locks.fair_lock("a").unwrap();
            let read = lock.inspect().await.unwrap_err();
            assert!(matches!(read, Error::InvalidItem { .. }), "{read}");
            // The item does not stop the write that enters, but the answer shows the damage.
            let refused = lock.acquire(RecordWait::NoWait).await.unwrap_err();
            assert!(matches!(refused, Error::InvalidItem { .. }), "{refused}");
            assert_eq!(items(&lab).await[0][name], value);
        });
    }
}

#[test]
fn a_write_that_was_said_to_be_of_the_last_ticket_of_all_is_not_written_over() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        guard.set_data("old").await.unwrap();
        damage(&lab, 0, |item| {
            map_in(item, "written").insert("ticket".into(), number(u64::MAX));
        })
        .await;
        // No holder has a newer token. The holder learns that it was overtaken, or that its write is there.
        let told = guard.set_data("new").await;
        assert!(matches!(told, Ok(()) | Err(Error::Lost { .. })), "{told:?}");
        let left = AttributeValue::B(Blob::new("old"));
        assert_eq!(items(&lab).await[0]["data"], left);
    });
}

#[test]
fn data_of_three_hundred_kilobytes_goes_to_the_next_holder_as_it_is() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        acquire(&a).await.release().await.unwrap();
        damage(&lab, 0, |item| {
            let data = AttributeValue::B(Blob::new(vec![7; 300_000]));
            item.insert("data".into(), data);
            let written = [("ticket", 7), ("count", 1)];
            let written = written.map(|(name, value)| (name.to_owned(), number(value)));
            item.insert("written".into(), map(written.into()));
        })
        .await;
        let guard = acquire(&a).await;
        assert_eq!(guard.data().unwrap().bytes.len(), 300_000);
        guard.release().await.unwrap();
        let (reader, other) = (shares(&a).await, shares(&b).await);
        reader.release().await.unwrap();
        other.release().await.unwrap();
        let guard = acquire(&b).await;
        guard.set_data("small").await.unwrap();
        assert_eq!(guard.data().unwrap().bytes.len(), 5);
    });
}

#[test]
fn hundreds_of_dead_who_have_permits_are_passed_within_a_bound() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts = [lab.host(), lab.host()];
        let semaphore = |host: &Host| host.locks.semaphore("a", 400).unwrap();
        let _dead = [
            semaphore(&hosts[0])
                .acquire(RecordWait::NoWait)
                .await
                .unwrap(),
            semaphore(&hosts[1])
                .acquire(RecordWait::NoWait)
                .await
                .unwrap(),
        ];
        // A hold that was taken by its client's first request gets its date with the first renewal.
        lab.wait(2 * SECOND).await;
        hosts
            .iter()
            .for_each(|host| host.network.set_faults(cut_off()));
        damage(&lab, 0, |item| {
            let ticket = item["last"].clone();
            let entry = sharer(item).1.clone();
            for other in 0..398 {
                let other = format!("{other:032x}");
                let mut entry = entry.clone();
                entry.insert("nonce".into(), text(&other));
                entry.insert("ticket".into(), ticket.clone());
                entry.insert("renewed_at".into(), number(1_700_000_000_000));
                map_in(item, "sharers").insert(other, map(entry));
            }
            item.insert("room".into(), number(1));
        })
        .await;
        lab.wait(60 * SECOND).await;
        let late = lab.host();
        // A caller that does not wait evicts some of them, and finds room if it wants no more than that. A sweep evicts them all.
        let takes = |permits| {
            let late = semaphore(&late);
            async move { late.acquire_many(permits, RecordWait::NoWait).await }
        };
        let refused = takes(200).await.unwrap_err();
        assert!(matches!(refused, Error::NotGranted { .. }), "{refused}");
        takes(2).await.unwrap().release().await.unwrap();
        let before = late.network.counts().requests();
        let swept = late.locks.fair_lock("a").unwrap().sweep().await.unwrap();
        let sent = late.network.counts().requests() - before;
        assert!(
            swept.holders > 300 && sent < 500,
            "{swept}, {sent} requests"
        );
        let all = semaphore(&late).acquire_many(400, RecordWait::NoWait).await;
        all.unwrap().release().await.unwrap();
    });
}
