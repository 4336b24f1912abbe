//! Items that this version did not write: named, not written to where that would do harm, and repaired as documented.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Error, HeldLocks, ItemProblem, RecordWait};

use super::rig::{Rig, SECOND};
use fairlock_testkit::lab::{Host, acquire};
use fairlock_testkit::tamper::{Blow, RowBody, Target, delete_all, names_the_item};

pub(crate) async fn an_item_of_another_format_is_not_written_to(rig: &Rig) {
    let newer = ItemProblem::NewerFormat { found: 5, known: 4 };
    let older = ItemProblem::OlderFormat { found: 3, known: 4 };
    acquire(&rig.host()).await.release().await.unwrap();
    let mut item = rig.items().await.remove(0);
    for (format, expected) in [("5", newer), ("3", older)] {
        item.insert("format".into(), AttributeValue::N(format.into()));
        rig.put(&item).await;
        for refused in refusals(&rig.host()).await {
            let Error::InvalidItem { problem, .. } = &refused else {
                panic!("{refused}")
            };
            assert_eq!(*problem, expected);
        }
        assert_eq!(rig.items().await, [item.clone()]);
    }
}

/// The errors of every kind of call on a lock.
async fn refusals(host: &Host) -> Vec<Error> {
    let (lock, leased) = (
        host.locks.fair_lock("a").unwrap(),
        host.locks.lease_lock("a").unwrap(),
    );
    let mut refusals = vec![
        leased.acquire("one", SECOND).await.unwrap_err(),
        leased.find("one").await.unwrap_err(),
    ];
    for wait in [
        RecordWait::NoWait,
        RecordWait::Timeout(SECOND),
        RecordWait::Infinite,
    ] {
        refusals.push(lock.acquire(wait).await.unwrap_err());
        refusals.push(lock.acquire_shared(wait).await.unwrap_err());
    }
    refusals
}

fn blows() -> Vec<Blow> {
    let text = AttributeValue::S("?".into());
    let huge = AttributeValue::N("99999999999999999999999999999999999999".into());
    vec![
        Blow::Remove(Target::LockItem, "format"),
        Blow::Set(Target::LockItem, "last", text.clone()),
        Blow::Set(Target::LockItem, "watermark", huge.clone()),
        Blow::Set(Target::LockItem, "room", huge),
        Blow::Remove(Target::LockItem, "sharers"),
        Blow::Set(Target::LockItem, "slots", text.clone()),
        Blow::Remove(Target::LockItem, "slots[0].beat"),
        Blow::Set(Target::LockItem, "slots[1]", text.clone()),
        Blow::Set(Target::Row, "state", text.clone()),
        Blow::Remove(Target::Row, "entry.lease_ms"),
        Blow::Foreign("fairlock/zzz", text),
        Blow::Row(1, RowBody::Nonsense),
        Blow::Delete(Target::LockItem),
        Blow::Fill(Target::LockItem),
    ]
}

pub(crate) async fn a_damaged_table_is_named_and_the_way_out_leads_out(rig: &Rig) {
    for blow in blows() {
        let hosts = [(); 3].map(|()| rig.single());
        let guard = acquire(&hosts[0]).await;
        let newest = guard.ticket();
        let successor = rig.waits_behind(0, &hosts[1]).await;
        let behind = rig.waits_behind(1, &hosts[2]).await;
        assert!(blow.strike(&rig.table()).await, "{blow:?} met nothing");
        let other = rig.host().locks.fair_lock("a").unwrap();
        let reads = [
            other.try_acquire().await.err(),
            other.inspect().await.err(),
            other.sweep().await.err(),
        ];
        // The documented repair: stop the callers, delete the items, start the callers.
        for host in hosts {
            host.locks.shutdown(HeldLocks::Release, SECOND).await;
        }
        drop(guard);
        let waited = [successor.await.unwrap().err(), behind.await.unwrap().err()];
        for error in reads.iter().chain(&waited).flatten() {
            let helps = matches!(error, Error::ShutDown(_)) || names_the_item(error);
            assert!(helps, "{blow:?}: {error}");
        }
        delete_all(&rig.table()).await;
        let guard = acquire(&rig.host()).await;
        assert!(guard.ticket() > newest, "{blow:?}");
        guard.release().await.unwrap();
        delete_all(&rig.table()).await;
    }
}
