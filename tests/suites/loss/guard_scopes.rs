//! Guards and what happens around them: a scope or a shutdown that is dropped, and DynamoDB's own deletion.

use std::future::pending;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType};
use fairlock::embedded::Faults;
use fairlock::{Clock, Error, HeldLocks, LockClient, LossReason, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::captured_log::said_in_lab;
use fairlock_testkit::effort::sized;
use fairlock_testkit::keyed_tables::create_table;
use fairlock_testkit::lab::{EPOCH, Host, Lab, SECOND, acquire, all_wait, cut_off, in_lab, waits};
use fairlock_testkit::virtual_time;
use tokio::time::{Instant, timeout};
use tracing::Level;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Drops the future if it has not ended after a second.
async fn is_dropped<T>(work: impl Future<Output = T>) -> bool {
    timeout(SECOND, work).await.is_err()
}

/// Work that holds the lock, or waits for it, for as long as it lives.
async fn stays(locks: &LockClient) {
    let lock = locks.fair_lock("a").unwrap();
    let _guard = lock.acquire(RecordWait::Infinite).await.unwrap();
    pending::<()>().await;
}

fn assert_names_the_lock(warnings: &[String]) {
    let [warning] = warnings else {
        panic!("one of the client that is gone: {warnings:?}")
    };
    assert!(warning.contains("without `shutdown`"), "{warning}");
    assert!(warning.contains("{\"a\"}"), "{warning}");
}

#[test]
fn a_scope_that_is_dropped_while_it_has_a_lock_says_which_and_gives_it_back_in_the_background() {
    let warnings = said_in_lab(Level::WARN, async |lab, []| {
        let scope = lab.host().locks.scope(stays);
        assert!(is_dropped(scope).await);
        assert!(lab.is_free("a").await);
    });
    assert_names_the_lock(&warnings);
}

#[test]
fn a_scope_that_is_dropped_while_it_waits_says_where_and_leaves_the_queue_in_the_background() {
    let warnings = said_in_lab(Level::WARN, async |lab, []| {
        let guard = acquire(&lab.host()).await;
        let scope = lab.host().locks.scope(stays);
        assert!(is_dropped(scope).await);
        lab.settle().await;
        guard.release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
    assert_names_the_lock(&warnings);
}

#[test]
fn a_shutdown_that_is_dropped_before_its_end_leaves_the_client_to_say_what_is_not_done() {
    let warnings = said_in_lab(Level::WARN, async |lab, [host]| {
        let guard = acquire(&host).await;
        host.network.set_faults(cut_off());
        let shutdown = host.locks.shutdown(HeldLocks::Release, 60 * SECOND);
        assert!(is_dropped(shutdown).await);
        drop(guard);
        drop(host.locks);
        host.network.set_faults(Faults::default());
        // The release was lost on its way. It is sent again after its time-out.
        lab.wait(2 * SECOND).await;
        assert!(lab.is_free("a").await);
    });
    assert_names_the_lock(&warnings);
}

#[test]
fn a_scope_that_returns_and_a_shutdown_that_reports_leave_nothing_to_warn_of() {
    let warnings = said_in_lab(Level::WARN, async |lab, []| {
        let locks = lab.host().locks;
        let guard = locks.scope(async |locks| {
            let lock = locks.fair_lock("a").unwrap();
            lock.acquire(RecordWait::NoWait).await.unwrap()
        });
        assert!(!guard.await.is_held());
        let host = lab.host();
        let guard = acquire(&host).await;
        host.network.set_faults(cut_off());
        let report = host.locks.shutdown(HeldLocks::Release, SECOND).await;
        assert_eq!(report.unfinished.len(), 1, "the caller knows");
        drop((guard, host));
    });
    assert_eq!(warnings, [""; 0]);
}

async fn lab_with_ttl() -> Lab {
    let lab = Lab::new().await;
    lab.switch_ttl_on().await;
    lab
}

/// A client with rare heartbeats and polls, so that two days of them are few.
fn rare(lab: &Lab, slots: usize) -> Host {
    lab.host_with(|builder| {
        let builder = builder.lease_duration(60 * MINUTE);
        let builder = builder.heartbeat_interval(4 * MINUTE).idle_retention(DAY);
        let builder = builder.testing(|it| it.poll_interval = Some((MINUTE, 4 * MINUTE)));
        builder.successor_slots(slots)
    })
}

/// Sets the expiry of lock `a` to a day before the test began.
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
        let behind = sized(1, 3);
        let hosts: Vec<_> = (0..5 + behind).map(|_| rare(&lab, 4)).collect();
        let guard = acquire(&hosts[0]).await;
        let waiting = all_wait(&lab, &hosts[1..]).await;
        let queue = lab.items("a").await;
        assert_eq!(
            queue.len(),
            1 + behind,
            "four successors, and rows behind: {queue:?}"
        );
        // The idle retention passes, and more.
        for _ in 0..sized(6, 10) {
            lab.wait(DAY / 4).await;
            let deleted = lab.engine.expire().await.unwrap();
            assert_eq!(deleted, 0, "{queue:?}: left {:?}", lab.items("a").await);
        }
        assert_eq!(lab.items("a").await, queue);
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

/// A client whose wall clock is this many days behind DynamoDB's and that of every other host.
fn host_days_behind(lab: &Lab, days: u32) -> Host {
    let late = Clock::of_tokio(EPOCH - days * DAY);
    lab.host_with(|builder| builder.clock(late))
}

#[test]
fn a_bystander_with_an_old_wall_clock_does_not_have_ttl_delete_a_lock_that_is_held() {
    virtual_time(async {
        let lab = lab_with_ttl().await;
        let guard = acquire(&lab.host()).await;
        let late = host_days_behind(&lab, 8);
        let waiting = waits(&lab, &late).await;
        assert!(late.try_acquire().await.is_none());
        for _ in 0..10 {
            assert_eq!(lab.engine.expire().await.unwrap(), 0);
            lab.wait(10 * SECOND).await;
        }
        assert!(guard.is_held());
        guard.release().await.unwrap();
        let next = waiting.await.unwrap();
        assert_eq!(lab.engine.expire().await.unwrap(), 0);
        next.release().await.unwrap();
    });
}

#[test]
fn a_wall_clock_makes_no_lock_that_ttl_takes_away_under_its_holder() {
    virtual_time(async {
        for (days, ahead) in [(8, true), (8, false), (4000, false)] {
            let lab = lab_with_ttl().await;
            let wall = match ahead {
                true => Clock::of_tokio(EPOCH + days * DAY),
                false => Clock::of_tokio(EPOCH - days * DAY),
            };
            let wrong = lab.host_with(|builder| builder.clock(wall));
            // Whatever its first write creates.
            let guard = acquire(&wrong).await;
            assert_eq!(lab.engine.expire().await.unwrap(), 0);
            let first = guard.ticket();
            guard.release().await.unwrap();
            // The lock item expires after it was unused for long enough, and not before. Its tickets keep growing.
            // By the later of the two clocks.
            let later = if ahead { days * DAY } else { Duration::ZERO };
            lab.wait(later + 3 * DAY).await;
            assert_eq!(lab.engine.expire().await.unwrap(), 0);
            lab.wait(5 * DAY).await;
            assert_eq!(lab.engine.expire().await.unwrap(), 1);
            let again = acquire(&lab.host()).await;
            assert!(again.ticket() > first, "{} days: {}", days, again.ticket());
            again.release().await.unwrap();
            lab.wait(8 * DAY).await;
            assert_eq!(lab.engine.expire().await.unwrap(), 1);
            let wrong = acquire(&wrong).await;
            assert!(wrong.ticket() > first, "{} days: {}", days, wrong.ticket());
        }
    });
}

#[test]
fn a_lock_whose_item_would_go_soon_is_kept_before_anybody_believes_in_it() {
    virtual_time(async {
        let lab = lab_with_ttl().await;
        // With a lease of a quarter of an hour, days have few heartbeats. Both leases are far shorter than the retention.
        let lease = sized(15 * 60 * SECOND, 30 * SECOND);
        let host = lab.host_with(|builder| builder.lease_duration(lease));
        acquire(&host).await.release().await.unwrap();
        // Half of the retention of seven days, and an hour, have passed.
        lab.wait(7 * DAY / 2 + 3600 * SECOND).await;
        let before = host.network.counts();
        let guard = acquire(&host).await;
        let sent = host.network.counts() - before;
        assert_eq!(sent.requests(), 2, "enters, and renews at once: {sent:?}");
        lab.wait(6 * DAY).await;
        assert!(guard.is_held());
        assert_eq!(lab.engine.expire().await.unwrap(), 0);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_client_with_a_shorter_idle_retention_takes_nothing_off_a_longer_one() {
    virtual_time(async {
        let lab = lab_with_ttl().await;
        let long = lab.host_with(|builder| builder.idle_retention(30 * DAY));
        let short = lab.host_with(|builder| builder.idle_retention(DAY));
        acquire(&long).await.release().await.unwrap();
        for _ in 0..10 {
            let guard = acquire(&short).await;
            lab.wait(60 * SECOND).await;
            guard.release().await.unwrap();
            lab.wait(DAY).await;
            assert_eq!(lab.engine.expire().await.unwrap(), 0);
        }
        lab.wait(21 * DAY).await;
        assert_eq!(lab.engine.expire().await.unwrap(), 1);
    });
}

#[test]
fn a_ttl_in_the_past_frees_no_lock_until_dynamodb_deletes_it_and_then_its_holder_is_told() {
    virtual_time(async {
        let lab = lab_with_ttl().await;
        let guard = acquire(&lab.host()).await;
        let lock = lab.host().lock();
        date_back(&lab).await;
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert_eq!(lock.sweep().await.unwrap(), Default::default());
        let wait = RecordWait::Timeout(5 * SECOND);
        assert!(lock.acquire(wait).await.is_err());
        assert!(guard.is_held());
        // A heartbeat shows it, and the next one corrects it.
        lab.wait(25 * SECOND).await;
        assert_eq!(lab.engine.expire().await.unwrap(), 0);
        date_back(&lab).await;
        assert_eq!(lab.engine.expire().await.unwrap(), 1);
        assert_eq!(guard.lost().await.reason, LossReason::Deleted);
        assert!(!guard.is_held());
    });
}

/// Waits behind the slots for a second. Its row is made void.
async fn gives_up(host: &Host) {
    let quits = host.lock().acquire(RecordWait::Timeout(SECOND)).await;
    assert_is!(quits, Err(Error::NotGranted { .. }));
}

#[test]
fn a_queue_works_in_a_table_whose_keys_are_called_like_what_stands_inside_of_an_entry() {
    in_lab(async |lab, []| {
        let keys = ["id", "nonce"].map(|name| (name, ScalarAttributeType::S));
        create_table(&lab.engine.client(), "others", &keys).await;
        let hosts = [0, 1, 2, 3].map(|_| {
            lab.host_with(|it| {
                it.table("others")
                    .key_names("id", "nonce", "beat")
                    .successor_slots(1)
            })
        });
        let guard = acquire(&hosts[0]).await;
        let successor = waits(lab, &hosts[1]).await;
        // Behind the slots: one caller that gives up, and one whose row waits.
        gives_up(&hosts[2]).await;
        let last = waits(lab, &hosts[3]).await;
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        last.await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_void_row_that_ttl_deletes_before_the_queue_has_passed_it_costs_nobody_its_turn() {
    virtual_time(async {
        let lab = lab_with_ttl().await;
        let hosts = [(); 4].map(|()| rare(&lab, 1));
        let guard = acquire(&hosts[0]).await;
        let successor = waits(&lab, &hosts[1]).await;
        gives_up(&hosts[2]).await;
        let last = waits(&lab, &hosts[3]).await;
        assert_eq!(
            lab.items("a").await.len(),
            3,
            "the lock, a void row and one that waits"
        );
        lab.wait(2 * DAY).await;
        assert_eq!(lab.engine.expire().await.unwrap(), 1);
        guard.release().await.unwrap();
        let successor = successor.await.unwrap();
        // The ticket is a gap again, which is observed for one join timeout. Polls are four minutes apart.
        lab.wait(10 * MINUTE).await;
        let started = Instant::now();
        successor.release().await.unwrap();
        let last = last.await.unwrap();
        assert!(started.elapsed() <= 4 * MINUTE, "{:?}", started.elapsed());
        last.release().await.unwrap();
        assert!(lab.is_free("a").await);
        assert_eq!(lab.items("a").await.len(), 1);
    });
}

#[test]
fn a_void_row_that_ttl_deletes_is_passed_by_those_who_come_later_and_do_not_wait() {
    virtual_time(async {
        let lab = lab_with_ttl().await;
        let hosts = [(); 4].map(|()| lab.host_with(|it| it.idle_retention(DAY).successor_slots(1)));
        let guard = acquire(&hosts[0]).await;
        let successor = waits(&lab, &hosts[1]).await;
        let lock = hosts[2].lock();
        drop(lock.acquire(RecordWait::Timeout(SECOND)).await);
        successor.abort();
        lab.settle().await;
        // As if the row had been there for a day: TTL would delete the same.
        let items = lab.items("a").await;
        let void = items.iter().find(|key| !key.ends_with("#lock"));
        if let Some(void) = void {
            let delete = lab.engine.client().delete_item().table_name("locks");
            let delete = delete.key("pk", AttributeValue::S("a".into()));
            let delete = delete.key("sk", AttributeValue::S(void.clone()));
            delete.send().await.unwrap();
        }
        guard.release().await.unwrap();
        lab.wait(20 * SECOND).await;
        let granted = hosts[3].try_acquire().await;
        assert!(granted.is_some(), "{items:?}");
    });
}
