//! Items that fairlock did not write, or that were damaged. Each is reported as a typed error that names the item. There is never a panic,
//! and nothing is made worse.

mod lock_item;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Error, ItemProblem, RecordWait};
use fairlock_testkit::lab;
use fairlock_testkit::lab::{Lab, SECOND, acquire, in_lab, waits};
use fairlock_testkit::tamper::slot;

type Item = HashMap<String, AttributeValue>;

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

async fn items(lab: &Lab) -> Vec<Item> {
    let query = lab.engine.client().query().table_name("locks");
    let query = query
        .key_condition_expression("pk = :pk")
        .expression_attribute_values(":pk", text("a"));
    query.send().await.unwrap().items.unwrap()
}

/// Changes an item of the lock without the clients' knowledge.
async fn damage(lab: &Lab, index: usize, change: impl FnOnce(&mut Item)) {
    let mut item = items(lab).await.swap_remove(index);
    change(&mut item);
    lab.engine
        .client()
        .put_item()
        .table_name("locks")
        .set_item(Some(item))
        .send()
        .await
        .unwrap();
}

#[test]
fn an_enter_mends_what_nobody_reads_before_it() {
    for name in ["drawn_at", "join_timeout_ms"] {
        in_lab(async |lab, [host]| {
            acquire(&host).await.release().await.unwrap();
            damage(lab, 0, |item| drop(item.insert(name.into(), text("?")))).await;
            acquire(&host).await.release().await.unwrap();
        });
    }
}

#[test]
fn a_row_of_another_ticket_is_said_and_never_given_a_slot() {
    in_lab(async |lab, []| {
        let single = || lab.host_with(|builder| builder.successor_slots(1));
        let (a, b, c, d) = (single(), single(), single(), single());
        let guard = acquire(&a).await;
        let successor = waits(lab, &b).await;
        let _queued = waits(lab, &c).await;
        c.network.set_faults(lab::cut_off());
        damage(lab, 1, |row| {
            let mut entry = row["entry"].as_m().unwrap().clone();
            entry.insert("ticket".into(), number(u64::MAX));
            row.insert("entry".into(), AttributeValue::M(entry));
        })
        .await;
        let refused = d
            .lock()
            .acquire(RecordWait::Timeout(5 * SECOND))
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, Error::InvalidItem { item, .. } if item.contains("fairlock/0")),
            "{refused}"
        );
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        assert_eq!(items(lab).await[0]["slots"], AttributeValue::L(Vec::new()));
    });
}

/// Where a count of tickets is stored.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Holder,
    Successor,
    Waiting,
    Void,
}

impl Counted {
    /// Changes the count: removes it, or sets another one computed from the newest ticket of its place.
    fn change(self, item: &mut Item, count: impl Fn(u64) -> Option<AttributeValue>) {
        let set = |map: &mut Item| {
            let newest: u64 = map["ticket"].as_n().unwrap().parse().unwrap();
            map.remove("tickets");
            map.extend(count(newest).map(|count| ("tickets".to_owned(), count)));
        };
        match self {
            Counted::Holder | Counted::Successor => {
                let index = usize::from(matches!(self, Counted::Successor));
                let nonce = slot(item, index)["nonce"].as_s().unwrap().clone();
                let beside = item.get(&nonce).cloned();
                let entry = slot(item, index);
                entry.extend(beside.map(|ticket| ("ticket".into(), ticket)));
                set(entry);
            }
            Counted::Waiting => {
                let AttributeValue::M(entry) = item.get_mut("entry").unwrap() else {
                    unreachable!()
                };
                set(entry);
            }
            Counted::Void => {
                item.insert("state".into(), text("void"));
                let AttributeValue::M(mut entry) = item.remove("entry").unwrap() else {
                    unreachable!()
                };
                set(&mut entry);
                item.extend(entry.remove_entry("tickets"));
            }
        }
    }

    fn index(self) -> usize {
        match self {
            Counted::Holder | Counted::Successor => 0,
            Counted::Waiting | Counted::Void => 1,
        }
    }
}

/// A holder, a successor, and a waiter behind it. None of them renews.
async fn three_in_queue(lab: &Lab) -> impl Sized {
    let hosts = lab.hosts_with_slots(3, 1);
    let guard = acquire(&hosts[0]).await;
    let successor = waits(lab, &hosts[1]).await;
    let behind = waits(lab, &hosts[2]).await;
    for host in &hosts {
        host.network.set_faults(lab::cut_off());
    }
    (hosts, guard, successor, behind)
}

#[test]
fn a_count_of_tickets_that_cannot_be_is_said_wherever_it_stands() {
    let counts: [fn(u64) -> AttributeValue; 6] = [
        |_| number(0),
        |newest| number(newest + 1),
        |_| number(u64::MAX),
        |_| AttributeValue::N("-1".into()),
        |_| AttributeValue::N("1.5".into()),
        |_| text("1"),
    ];
    let places = [
        Counted::Holder,
        Counted::Successor,
        Counted::Waiting,
        Counted::Void,
    ];
    for (place, count) in places
        .into_iter()
        .flat_map(|place| counts.map(|count| (place, count)))
    {
        in_lab(async |lab, []| {
            let _queue = three_in_queue(lab).await;
            damage(lab, place.index(), |item| {
                place.change(item, |newest| Some(count(newest)));
            })
            .await;
            let lock = lab.host().lock();
            let read = lock.inspect().await.unwrap_err();
            let refused = lock.acquire(RecordWait::Timeout(5 * SECOND)).await;
            for error in [read, refused.unwrap_err()] {
                let is_said = matches!(
                    error,
                    Error::InvalidItem {
                        problem: ItemProblem::Inconsistent { .. } | ItemProblem::WrongType { .. },
                        ..
                    }
                );
                assert!(is_said, "{place:?}, {:?}: {error}", count(7));
            }
        });
    }
}

#[test]
fn a_count_of_tickets_that_is_not_there_is_one() {
    for place in [
        Counted::Holder,
        Counted::Successor,
        Counted::Waiting,
        Counted::Void,
    ] {
        in_lab(async |lab, []| {
            let _queue = three_in_queue(lab).await;
            damage(lab, place.index(), |item| place.change(item, |_| None)).await;
            let state = lab.host().lock().inspect().await;
            let state = state.unwrap();
            assert_eq!(state.holder.unwrap().tickets, 1);
            assert!(state.queue.iter().all(|at| at.tickets == 1));
        });
    }
}

#[test]
fn a_waiter_that_meets_a_newer_format_writes_nothing_more() {
    in_lab(async |lab, []| {
        let hosts = lab.hosts_with_slots(3, 1);
        let guard = acquire(&hosts[0]).await;
        let successor = hosts[1].lock();
        let successor = tokio::spawn(async move { successor.acquire(RecordWait::Infinite).await });
        lab.wait(SECOND).await;
        let lock = hosts[2].lock();
        let waiting = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
        lab.wait(SECOND).await;
        damage(lab, 0, |item| drop(item.insert("format".into(), number(6)))).await;
        let before = hosts[2].network.counts().writes();
        let refused = waiting.await.unwrap().unwrap_err();
        let is_newer = matches!(
            refused,
            Error::InvalidItem {
                problem: ItemProblem::NewerFormat { found: 6, .. },
                ..
            }
        );
        assert!(is_newer, "{refused}");
        lab.wait(5 * SECOND).await;
        assert_eq!(hosts[2].network.counts().writes(), before);
        drop((guard, successor));
    });
}
