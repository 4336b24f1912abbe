//! Which time callers that do not wait use to take others for dead: dates that stay, and front ends whose answers are wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::Fault;
use fairlock::embedded::When::Before;
use fairlock::{RecordWait, SweepReport};

use super::{acquires, calls_until_granted, number, on_the_lock_item};
use fairlock_testkit::lab::{
    Host, Lab, MS, SECOND, acquire, cut_all, cut_off, in_lab, in_slots, waits,
};
use fairlock_testkit::verbs::verb;
use fairlock_testkit::virtual_time;

/// A draw takes nearly two seconds. Meanwhile another client draws, with a later date, and that date stays. Otherwise, when all die, a
/// caller that never waits could judge nothing.
#[test]
fn a_slow_draw_leaves_the_later_date_of_another() {
    in_slots(1, async |lab, hosts: [Host; 4]| {
        let [holder, successor, quick, slow] = &hosts[..] else {
            unreachable!("four hosts")
        };
        let _held = acquire(holder).await;
        let _successor = waits(lab, successor).await;
        lab.wait(100 * MS).await;
        let draws = Arc::new(AtomicUsize::new(0));
        let drawn = draws.clone();
        slow.script(move |request| {
            let drew = drawn.load(Ordering::SeqCst);
            if verb(request) == "draw" {
                drawn.fetch_add(1, Ordering::SeqCst);
                return (drew == 0).then_some(Fault::Delay(Before, 1950 * MS));
            }
            // The client dies before its row arrives.
            (drew == 2).then_some(Fault::Lose(Before))
        });
        quick.meets("enter known", 1, Fault::Delay(Before, SECOND / 2));
        let lost = acquires(slow, RecordWait::Infinite);
        lab.wait(1410 * MS).await;
        let waiting = acquires(quick, RecordWait::Infinite);
        lab.wait(SECOND).await;
        assert_eq!(
            draws.load(Ordering::SeqCst),
            2,
            "refused for the later date"
        );
        cut_all(&hosts);
        lost.abort();
        waiting.abort();
        assert!(calls_until_granted(lab, &lab.host()).await <= 3);
    });
}

/// A lock with a holder, a successor and a row behind it, whose hosts are cut off now.
async fn all_dead(lab: &Lab) -> Vec<Host> {
    let hosts = lab.hosts_with_slots(3, 1);
    std::mem::forget(acquire(&hosts[0]).await);
    waits(lab, &hosts[1]).await;
    waits(lab, &hosts[2]).await;
    lab.wait(15 * SECOND).await;
    cut_all(&hosts);
    hosts
}

/// Removes the date from an entry, or from the row.
async fn undate(lab: &Lab, what: &str) {
    if what != "entry.renewed_at" {
        let undated = on_the_lock_item(lab, &format!("REMOVE {what}"));
        undated.send().await.unwrap();
        return;
    }
    let items = lab.items("a").await;
    let row = items.into_iter().find(|key| !key.ends_with("#lock"));
    let update = lab.engine.client().update_item().table_name("locks");
    let update = update.key("pk", AttributeValue::S("a".into()));
    let update = update.key("sk", AttributeValue::S(row.unwrap()));
    let undated = update.update_expression(format!("REMOVE {what}"));
    undated.send().await.unwrap();
}

#[test]
fn whatever_has_no_date_is_given_one_by_whoever_meets_it() {
    for what in [
        "slots[0].renewed_at",
        "slots[1].renewed_at",
        "entry.renewed_at",
    ] {
        in_lab(async |lab, []| {
            let _dead = all_dead(lab).await;
            undate(lab, what).await;
            assert!(calls_until_granted(lab, &lab.host()).await <= 5, "{what}");
        });
    }
}

#[test]
fn a_gap_without_a_date_is_dated_by_a_caller_or_by_a_sweep() {
    for sweeps in [false, true] {
        in_lab(async |lab, [host]| {
            acquire(&host).await.release().await.unwrap();
            let draw = on_the_lock_item(lab, "SET #last = #last + :one");
            let draw = draw.expression_attribute_names("#last", "last");
            let draw = draw.expression_attribute_values(":one", number(1));
            draw.send().await.unwrap();
            if sweeps {
                let lock = host.lock();
                assert_eq!(lock.sweep().await.unwrap(), SweepReport::default());
                lab.wait(60 * SECOND).await;
                assert_eq!(lock.sweep().await.unwrap().gaps, 1);
                assert!(host.try_acquire().await.is_some());
            } else {
                assert!(calls_until_granted(lab, &host).await <= 2);
            }
        });
    }
}

/// A hold whose owner is cut off and believes in it, and a caller.
async fn cut_off_holder(lab: &Lab) -> (fairlock::LockGuard, Host) {
    let (holder, caller) = (lab.host(), lab.host());
    let guard = acquire(&holder).await;
    lab.wait(15 * SECOND).await;
    holder.network.set_faults(cut_off());
    assert!(caller.try_acquire().await.is_none());
    (guard, caller)
}

#[test]
fn one_answer_of_a_front_end_that_is_ahead_evicts_nobody_and_is_not_believed_later() {
    virtual_time(async {
        for ahead in [13, 60, 3600, 1_000_000] {
            let lab = Lab::new().await;
            let (guard, caller) = cut_off_holder(&lab).await;
            let met = caller.meets("enter", 1, Fault::Skew(ahead));
            for _ in 0..3 {
                assert!(caller.try_acquire().await.is_none(), "{ahead} s ahead");
                lab.wait(SECOND).await;
            }
            assert_eq!(met.load(Ordering::SeqCst), 1);
            assert!(guard.is_held());
            lab.wait(60 * SECOND).await;
            assert!(!guard.is_held() && caller.try_acquire().await.is_some());
        }
    });
}

/// A process that lives for one call, on a host whose wall clock is years off.
fn one_call(lab: &Lab) -> Host {
    let years = 3 * 365 * 24 * 3600 * SECOND;
    lab.host_with(|builder| builder.clock(lab.clock.clone().ahead(years)))
}

/// The holder died before it knew the time. Each later process makes one call only, and has no wall clock that confirms an answer.
#[test]
fn one_call_dates_a_dead_holder_and_the_next_gets_past_it_though_no_wall_clock_is_right() {
    in_lab(async |lab, []| {
        let dead = one_call(lab);
        let _held = acquire(&dead).await;
        dead.network.set_faults(cut_off());
        let first = one_call(lab);
        assert!(first.try_acquire().await.is_none());
        assert_eq!(first.network.counts().requests(), 1);
        lab.wait(60 * SECOND).await;
        assert!(one_call(lab).try_acquire().await.is_some());
    });
}

/// Each answer is wrong once. Only if the one that shows the holder is early, the holder seems to be alive, and that call is refused.
#[test]
fn one_wrong_answer_keeps_no_call_from_getting_past_the_dead() {
    for wrong in 1..=4 {
        for by in [-3_600, 3_600] {
            let is_refused = wrong == 1 && by < 0;
            in_lab(async |lab, [dead]| {
                let _held = acquire(&dead).await;
                lab.wait(2 * SECOND).await;
                dead.network.set_faults(cut_off());
                lab.wait(60 * SECOND).await;
                let next = one_call(lab);
                next.script(move |request| (request.number() == wrong).then_some(Fault::Skew(by)));
                let granted = next.try_acquire().await;
                assert_eq!(granted.is_none(), is_refused, "{wrong}, {by}");
                next.script(|_| None);
                assert!(granted.is_some() || next.try_acquire().await.is_some());
            });
        }
    }
}

/// Its first answer tells the time, and nothing confirms it. The item may be deleted at any moment.
#[test]
fn an_item_that_is_about_to_be_deleted_is_kept_by_what_one_answer_tells() {
    in_lab(async |lab, []| {
        lab.switch_ttl_on().await;
        acquire(&lab.host()).await.release().await.unwrap();
        lab.wait(31 * 24 * 3600 * SECOND).await;
        let guard = acquire(&one_call(lab)).await;
        lab.engine.expire().await.unwrap();
        assert!(!lab.is_free("a").await);
        assert!(guard.is_held());
    });
}

/// The hosts' wall clocks are hours apart. A lone host whose own clock was wrong, and is set right before it comes back, is among them.
#[test]
fn a_dead_holder_is_passed_after_its_lease_and_five_seconds_however_far_hosts_are_apart() {
    const HOURS: [i64; 3] = [0, 6 * 3600, -6 * 3600];
    let cells = HOURS
        .into_iter()
        .flat_map(|dead| HOURS.map(|next| (dead, next)));
    for (dead, next) in cells {
        in_lab(async |lab, []| {
            let clock = lab.clock.clone().ahead(Duration::ZERO);
            let host = || lab.host_with(|builder| builder.clock(clock.clone()));
            clock.step(dead);
            let holder = host();
            let _held = acquire(&holder).await;
            // It has been renewed since, at most five seconds ago.
            lab.wait(15 * SECOND).await;
            holder.network.set_faults(cut_off());
            clock.step(next - dead);
            lab.wait(27 * SECOND).await;
            assert!(host().try_acquire().await.is_none(), "{dead} {next}");
            // The lease, five seconds, and the grain of dates.
            lab.wait(5 * SECOND).await;
            assert!(host().try_acquire().await.is_some(), "{dead} {next}");
        });
    }
}
