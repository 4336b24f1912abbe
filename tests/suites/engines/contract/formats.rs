//! Items of other formats are named, and not written to.

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Error, ItemProblem, RecordWait};

use super::rig::{Rig, SECOND};
use fairlock_testkit::lab::{Host, acquire};

pub(crate) async fn an_item_of_another_format_is_not_written_to(rig: &Rig) {
    let newer = ItemProblem::NewerFormat { found: 6, known: 5 };
    let older = ItemProblem::OlderFormat { found: 4, known: 5 };
    acquire(&rig.host()).await.release().await.unwrap();
    let mut item = rig.items().await.remove(0);
    for (format, expected) in [("6", newer), ("4", older)] {
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
    let (lock, leased) = (host.lock(), host.locks.lease_lock("a").unwrap());
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
