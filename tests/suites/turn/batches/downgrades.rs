//! A caller of a batch keeps a share of the lock, while others of the batch wait to hold it next.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use fairlock::embedded::{Fault, When};
use fairlock::{HeldLocks, LockGuard, RecordWait};
use tokio::task::JoinHandle;

use super::INFINITE;
use super::batch::{BatchQueue, Place, granted, holds_at};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, SECOND};
use fairlock_testkit::virtual_time;

const TIME: Duration = Duration::from_secs(20);

fn shares(host: &Host) -> JoinHandle<LockGuard> {
    let lock = host.lock();
    tokio::spawn(async move { lock.acquire_shared(INFINITE).await.unwrap() })
}

/// The first of a batch holds the lock, and one other call waits for it.
async fn of_two(last: RecordWait) -> (BatchQueue, LockGuard) {
    let mut queue = BatchQueue::with(Place::Row, [INFINITE, last]).await;
    let first = queue.first().await;
    (queue, first)
}

async fn requests_of_downgrade(queue: &BatchQueue, guard: &mut LockGuard) -> u64 {
    let before = queue.host.network.counts().requests();
    guard.downgrade().await.unwrap();
    queue.host.network.counts().requests() - before
}

/// A reader holds the lock beside a holder that downgraded, and both end well.
async fn is_shared(lab: &Lab, guard: LockGuard, reader: JoinHandle<LockGuard>) {
    assert!(reader.is_finished(), "nobody waits before the reader");
    let reader = reader.await.unwrap();
    assert!(guard.is_held() && reader.is_held());
    assert_eq!((guard.permits(), reader.permits()), (1, 1));
    guard.release().await.unwrap();
    reader.release().await.unwrap();
    assert!(lab.is_free("a").await);
}

/// How the last call of a batch leaves.
#[derive(Clone, Copy, Debug)]
enum Goes {
    TimeIsOver,
    Dropped,
    ShutDown,
}

impl Goes {
    async fn away(self, queue: &mut BatchQueue) {
        let last = queue.members.remove(0);
        match self {
            Goes::TimeIsOver => {}
            Goes::Dropped => last.abort(),
            Goes::ShutDown => drop(queue.host.locks.shutdown(HeldLocks::Keep, SECOND).await),
        }
        assert!(!matches!(last.await, Ok(Ok(_))), "{self:?}");
    }
}

#[test]
fn a_downgrade_frees_the_permits_as_soon_as_the_next_of_its_batch_has_gone() {
    let faults = [
        None,
        Some(Fault::Lose(When::Before)),
        Some(Fault::Lose(When::After)),
        Some(Fault::Throttle),
    ];
    for fault in faults {
        for goes in [Goes::TimeIsOver, Goes::Dropped, Goes::ShutDown] {
            virtual_time(async {
                let (mut queue, mut first) = of_two(RecordWait::Timeout(TIME)).await;
                assert_eq!(requests_of_downgrade(&queue, &mut first).await, 0);
                assert_eq!(first.permits(), 1);
                let reader = shares(&queue.other);
                queue.lab.settle().await;
                assert!(!reader.is_finished(), "the next of the batch has it alone");
                if let Some(fault) = fault.clone() {
                    queue.host.meets("downgrade", 1, fault);
                }
                goes.away(&mut queue).await;
                queue.lab.wait(5 * SECOND).await;
                is_shared(&queue.lab, first, reader).await;
            });
        }
    }
}

#[test]
fn a_downgrade_frees_the_permits_when_the_time_of_the_next_is_over_though_its_call_is_not_polled() {
    virtual_time(async {
        let gathering = BatchQueue::gathers(Place::Row, [INFINITE]).await;
        let lock = gathering.host.lock();
        let mut unpolled = Box::pin(lock.acquire(RecordWait::Timeout(TIME)));
        assert!(futures::poll!(&mut unpolled).is_pending());
        let mut queue = gathering.comes().await;
        let mut first = queue.first().await;
        assert_eq!(requests_of_downgrade(&queue, &mut first).await, 0);
        let reader = shares(&queue.other);
        queue.lab.wait(TIME + SECOND).await;
        is_shared(&queue.lab, first, reader).await;
        assert!(unpolled.await.is_err());
    });
}

#[test]
fn the_next_of_a_batch_has_the_lock_alone_after_one_that_downgraded_and_before_those_who_share() {
    virtual_time(async {
        let (mut queue, mut first) = of_two(INFINITE).await;
        let reader = shares(&queue.other);
        assert_eq!(requests_of_downgrade(&queue, &mut first).await, 0);
        queue.lab.settle().await;
        let before = first.ticket();
        first.release().await.unwrap();
        let next = granted(queue.members.remove(0)).await;
        assert_eq!((next.permits(), next.total_permits()), (64, 64));
        assert!(next.ticket() > before);
        next.set_data("alone").await.unwrap();
        queue.lab.settle().await;
        assert!(!reader.is_finished());
        next.release().await.unwrap();
        reader.await.unwrap().release().await.unwrap();
    });
}

/// Writes to what the lock protects, with a check of a hold. Returns whether the write was applied.
async fn is_written(lab: &Lab, check: TransactWriteItem) -> bool {
    let text = |text: &str| AttributeValue::S(text.into());
    let put = Put::builder().table_name("locks");
    let put = put.item("pk", text("protected")).item("sk", text("data"));
    let put = TransactWriteItem::builder().put(put.build().unwrap());
    let client = lab.engine.client();
    let write = client.transact_write_items().transact_items(put.build());
    write.transact_items(check).send().await.is_ok()
}

#[test]
fn what_was_to_be_written_alone_is_refused_after_a_downgrade_whoever_of_the_batch_is_next() {
    for goes in [true, false] {
        virtual_time(async {
            let (mut queue, mut first) = of_two(INFINITE).await;
            assert!(is_written(&queue.lab, first.check_item().unwrap()).await);
            let check = first.check_item().unwrap();
            assert_eq!(requests_of_downgrade(&queue, &mut first).await, 1);
            assert!(!is_written(&queue.lab, check.clone()).await);
            let shared = first.set_data("late").await.unwrap_err();
            assert!(is_invalid(&shared, "this hold shares it"), "{shared}");
            let early = first.check_item().unwrap();
            assert!(
                !is_written(&queue.lab, early.clone()).await,
                "before a next"
            );
            if goes {
                queue.members.remove(0).abort();
                queue.lab.settle().await;
                assert!(is_written(&queue.lab, first.check_item().unwrap()).await);
                let share = first.check_item().unwrap();
                first.release().await.unwrap();
                assert!(!is_written(&queue.lab, share).await);
            } else {
                first.release().await.unwrap();
                let mut next = granted(queue.members.remove(0)).await;
                assert!(!is_written(&queue.lab, early.clone()).await);
                assert!(is_written(&queue.lab, next.check_item().unwrap()).await);
                next.downgrade().await.unwrap();
                assert!(is_written(&queue.lab, next.check_item().unwrap()).await);
            }
            assert!(!is_written(&queue.lab, early).await);
            assert!(!is_written(&queue.lab, check).await);
        });
    }
}

#[test]
fn a_check_of_a_share_is_refused_in_the_turn_of_the_next_of_its_batch() {
    virtual_time(async {
        let (mut queue, mut first) = of_two(INFINITE).await;
        assert_eq!(requests_of_downgrade(&queue, &mut first).await, 0);
        let early = first.check_item().unwrap();
        assert!(!is_written(&queue.lab, early.clone()).await);
        first.release().await.unwrap();
        let mut next = granted(queue.members.remove(0)).await;
        assert!(!is_written(&queue.lab, early.clone()).await);
        next.downgrade().await.unwrap();
        assert!(is_written(&queue.lab, next.check_item().unwrap()).await);
        assert!(!is_written(&queue.lab, early).await);
    });
}

#[test]
fn a_write_of_data_that_comes_after_a_downgrade_is_refused_before_the_next_of_the_batch() {
    virtual_time(async {
        let (mut queue, mut first) = of_two(INFINITE).await;
        let gate = holds_at(&queue.host.network, "write data", 0, When::Before);
        tokio::select! {
            biased;
            done = first.set_data("late") => unreachable!("{done:?}"),
            () = gate.reached(1) => {}
        }
        first.downgrade().await.unwrap();
        gate.open();
        queue.lab.settle().await;
        first.release().await.unwrap();
        assert_eq!(granted(queue.members.remove(0)).await.data(), None);
    });
}
