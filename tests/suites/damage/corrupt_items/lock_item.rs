//! Damage to the lock item: to places, shares, data and leases.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Error, ItemProblem, RecordWait};

use super::{Item, SECOND, damage, items, number, text};
use fairlock_testkit::lab::{Lab, acquire, cut_off, in_lab, shares};
use fairlock_testkit::tamper::slot;

const ALL: u64 = 64;

fn set(item: &mut Item, name: &str, value: AttributeValue) {
    item.insert(name.into(), value);
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
    let lock = host.lock();
    let leased = host.locks.lease_lock("a").unwrap();
    let mut told = vec![
        lock.inspect().await.err(),
        lock.sweep().await.err(),
        leased.acquire("one", SECOND).await.err(),
        leased.find("one").await.err(),
    ];
    for wait in [RecordWait::NoWait, RecordWait::Timeout(SECOND)] {
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

/// Changes to a lock that was released, and has data.
const OF_A_FREE_LOCK: [(&str, Change); 8] = [
    ("a counter at its end", |item| {
        for name in ["last", "watermark"] {
            item.insert(name.into(), number(u64::MAX));
        }
    }),
    ("a watermark that no draw has come to", |item| {
        let last: u64 = item["last"].as_n().unwrap().parse().unwrap();
        set(item, "watermark", number(last + 1));
    }),
    ("text for data", |item| set(item, "data", text("?"))),
    ("a number for data", |item| set(item, "data", number(7))),
    ("no map of a write", |item| set(item, "written", text("?"))),
    ("nothing of a write", |item| {
        set(item, "written", map(Item::new()));
    }),
    ("a write of no ticket", |item| {
        set(map_in(item, "written"), "ticket", text("?"));
    }),
    ("a write of half a ticket", |item| {
        let half = AttributeValue::N("1.5".into());
        set(map_in(item, "written"), "ticket", half);
    }),
];

/// Changes to a lock that is held, by a lease or not.
const OF_A_HOLD: [(&str, Change); 4] = [
    // No condition would meet it.
    ("a nonce in capitals", |item| {
        set(slot(item, 0), "nonce", text(&"A".repeat(32)));
    }),
    ("slots out of order", |item| {
        let mut other = slot(item, 0).clone();
        set(&mut other, "nonce", text(&"0".repeat(32)));
        set(&mut other, "ticket", number(1));
        let Some(AttributeValue::L(slots)) = item.get_mut("slots") else {
            panic!("no slots")
        };
        slots.push(map(other));
    }),
    ("no permits, as in format 1", |item| {
        slot(item, 0).remove("permits");
    }),
    ("an id that is no text", |item| {
        set(slot(item, 0), "id", number(1));
    }),
];

/// Changes to a lock with one entry in the first slot and one sharer beside it.
const OF_A_SHARED_LOCK: [(&str, Change); 9] = [
    ("less left than they leave", |item| {
        set(item, "room", number(ALL - 2));
    }),
    ("more left than they leave", |item| {
        set(item, "room", number(ALL));
    }),
    ("a sharer has none", |item| {
        set(sharer(item).1, "permits", number(0));
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
            entry.remove("renewed_on_host");
            entry.remove("since");
            map_in(item, "sharers").insert(other, map(entry));
        }
        map_in(item, "sharers").remove(&nonce);
        let room = (ALL as i64 - 3_000).to_string();
        item.insert("room".into(), AttributeValue::N(room));
    }),
];

#[test]
fn what_is_damaged_is_said_to_all_who_come_and_not_written_over() {
    for (what, change) in OF_A_FREE_LOCK {
        in_lab(async |lab, []| {
            let guard = acquire(&lab.host()).await;
            guard.set_data("data").await.unwrap();
            guard.release().await.unwrap();
            damage(lab, 0, change).await;
            is_said_and_not_written_over(lab, what).await;
        });
    }
    for (what, change) in OF_A_HOLD {
        in_lab(async |lab, []| {
            let leased = lab.host().locks.lease_lock("a").unwrap();
            leased.acquire("one", 60 * SECOND).await.unwrap();
            damage(lab, 0, change).await;
            is_said_and_not_written_over(lab, what).await;
        });
    }
    for (what, change) in OF_A_SHARED_LOCK {
        in_lab(async |lab, []| {
            let hosts = [lab.host(), lab.host()];
            let _readers = (shares(&hosts[0]).await, shares(&hosts[1]).await);
            hosts
                .iter()
                .for_each(|host| host.network.set_faults(cut_off()));
            damage(lab, 0, change).await;
            is_said_and_not_written_over(lab, what).await;
        });
    }
}

#[test]
fn a_ticket_of_a_sharer_that_is_gone_is_left_alone_and_harms_nobody() {
    in_lab(async |lab, [a, b]| {
        let reader = shares(&a).await;
        damage(lab, 0, |item| {
            item.insert("0".repeat(32), text("?"));
        })
        .await;
        let other = shares(&b).await;
        reader.release().await.unwrap();
        other.release().await.unwrap();
        acquire(&a).await.release().await.unwrap();
        assert_eq!(items(lab).await[0][&"0".repeat(32)], text("?"));
    });
}

#[test]
fn a_write_that_was_said_to_be_of_the_last_ticket_of_all_is_not_written_over() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        guard.set_data("old").await.unwrap();
        damage(lab, 0, |item| {
            map_in(item, "written").insert("ticket".into(), number(u64::MAX));
        })
        .await;
        // No holder has a newer token. The holder learns that it was overtaken, or that its write is there.
        let told = guard.set_data("new").await;
        assert!(matches!(told, Ok(()) | Err(Error::Lost { .. })), "{told:?}");
        let left = AttributeValue::B(Blob::new("old"));
        assert_eq!(items(lab).await[0]["data"], left);
    });
}
