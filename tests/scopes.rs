//! Guards and what goes on around them: a caller that fails, and DynamoDB's own deletion.
#![cfg(feature = "embedded")]
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod common;
#[path = "common/lab.rs"]
mod lab;

use std::panic::{AssertUnwindSafe, panic_any};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TimeToLiveSpecification};
use common::virtual_time;
use fairlock::embedded::Faults;
use fairlock::{Loss, RecordWait};
use futures::FutureExt;
use lab::{EPOCH, Host, Lab, acquire, cut_off, waits};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, PartialEq, Eq)]
struct CallersOwn(&'static str);

async fn fails(host: &Host) -> Result<(), CallersOwn> {
    let _guard = acquire(host).await;
    Err(CallersOwn("error"))
}

#[expect(clippy::panic, reason = "the caller's own")]
async fn panics(host: &Host) {
    let _guard = acquire(host).await;
    panic_any(CallersOwn("panic"))
}

#[test]
fn a_callers_error_comes_through_a_turn_unchanged_and_the_lock_is_free() {
    virtual_time(async {
        let lab = Lab::new().await;
        assert_eq!(fails(&lab.host()).await, Err(CallersOwn("error")));
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_callers_panic_comes_through_a_turn_unchanged_and_the_lock_is_free() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let panicked = AssertUnwindSafe(panics(&host)).catch_unwind().await;
        let payload = panicked.unwrap_err().downcast::<CallersOwn>().unwrap();
        assert_eq!(*payload, CallersOwn("panic"));
        assert!(lab.is_free("a").await);
        // The client that it happened in is none the worse.
        acquire(&host).await.release().await.unwrap();
    });
}

#[test]
fn a_callers_error_comes_through_unchanged_also_when_the_lock_cannot_be_released() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let turn = async {
            let _guard = acquire(&host).await;
            host.network.set_faults(cut_off());
            Err::<(), _>(CallersOwn("error"))
        };
        assert_eq!(turn.await, Err(CallersOwn("error")));
        assert!(!lab.is_free("a").await);
        host.network.set_faults(Faults::default());
        lab.wait(5 * SECOND).await;
        assert!(lab.is_free("a").await);
    });
}

async fn lab_with_ttl() -> Lab {
    let lab = Lab::new().await;
    let ttl = TimeToLiveSpecification::builder().enabled(true);
    let ttl = ttl.attribute_name("expires_at").build().unwrap();
    let request = lab.engine.client().update_time_to_live();
    let request = request.table_name("locks");
    let request = request.time_to_live_specification(ttl);
    request.send().await.unwrap();
    lab
}

/// Says that lock `a` was done with a day before the test began.
async fn date_back(lab: &Lab) {
    let past = AttributeValue::N((EPOCH - DAY).as_secs().to_string());
    let request = lab.engine.client().update_item().table_name("locks");
    let request = request.key("pk", AttributeValue::S("a".into()));
    let request = request.key("sk", AttributeValue::S("fairlock/#lock".into()));
    let request = request.update_expression("SET expires_at = :past");
    let request = request.expression_attribute_values(":past", past);
    request.send().await.unwrap();
}

#[test]
fn ttl_takes_nothing_of_a_lock_that_is_held_and_waited_for_however_long() {
    virtual_time(async {
        let lab = lab_with_ttl().await;
        // Rare heartbeats and looks, for two days of them to be few.
        let minutes = |n: u32| n * 60 * SECOND;
        let hosts: Vec<_> = (0..8)
            .map(|_| {
                lab.host_with(|builder| {
                    let builder = builder.lease(minutes(60)).heartbeat(minutes(4));
                    let builder = builder.look_bounds(minutes(1), minutes(4));
                    builder.idle_retention(DAY).seats(4)
                })
            })
            .collect();
        let guard = acquire(&hosts[0]).await;
        let mut waiting = Vec::new();
        for host in &hosts[1..] {
            waiting.push(waits(&lab, host).await);
        }
        let line = lab.items("a").await;
        assert_eq!(line.len(), 1 + 3, "four heirs, and rows behind: {line:?}");
        for _ in 0..10 {
            lab.wait(DAY / 4).await;
            assert_eq!(lab.engine.expire().await.unwrap(), 0);
        }
        assert_eq!(lab.items("a").await, line);
        let mut before = guard.ticket();
        guard.release().await.unwrap();
        for next in waiting {
            let next = next.await.unwrap();
            assert!(next.ticket() > before);
            before = next.ticket();
            next.release().await.unwrap();
        }
    });
}

#[test]
fn a_ttl_in_the_past_frees_no_lock_until_dynamodb_deletes_it_and_then_its_holder_is_told() {
    virtual_time(async {
        let lab = lab_with_ttl().await;
        let guard = acquire(&lab.host()).await;
        let lock = lab.host().locks.fair_lock("a").unwrap();
        date_back(&lab).await;
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert_eq!(lock.sweep().await.unwrap(), Default::default());
        let wait = RecordWait::Timeout(5 * SECOND);
        assert!(lock.acquire(wait).await.is_err());
        assert!(guard.is_held());
        // The next heartbeat puts it right.
        lab.wait(15 * SECOND).await;
        assert_eq!(lab.engine.expire().await.unwrap(), 0);
        date_back(&lab).await;
        assert_eq!(lab.engine.expire().await.unwrap(), 1);
        assert_eq!(guard.lost().await, Loss::Deleted);
        assert!(!guard.is_held());
    });
}
