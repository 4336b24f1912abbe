//! What an operator does to the callers of a lock: asks the holders to give way, or breaks a place.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Fault, When};
use fairlock::{BreakOutcome, Error, FairLock, LockGuard, LossReason, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{
    Host, Lab, SECOND, acquire, all_wait, cut_off, have_turns, in_lab, in_slots, loss, waits,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// An operator, by this name.
fn operator(lab: &Lab) -> Host {
    lab.host_with(|builder| builder.owner("ops@desk"))
}

/// Runs a test with an operator, and as many clients as it names.
fn with_operator<const N: usize>(test: impl AsyncFnOnce(&Lab, Host, [Host; N])) {
    in_lab(async |lab, hosts| test(lab, operator(lab), hosts).await);
}

fn next_of(outcome: &BreakOutcome) -> Option<u64> {
    match outcome {
        BreakOutcome::Broken { next } => next.as_ref().map(|next| next.ticket.get()),
        other => panic!("not broken: {other:?}"),
    }
}

#[test]
fn a_live_holder_is_broken_and_the_next_has_the_lock_at_once_with_a_larger_token() {
    with_operator(async |lab, ops, [one, two]| {
        let guard = acquire(&one).await;
        let next = waits(lab, &two).await;
        let seen = ops.inspect().await.holder.unwrap();
        let broken = Instant::now();
        let outcome = ops.locks.break_hold("a", &seen, "it is stuck").await;
        assert_eq!(next_of(&outcome.unwrap()), Some(guard.ticket().get() + 1));
        let next = next.await.unwrap();
        assert!(broken.elapsed() < SECOND && next.ticket() > guard.ticket());
        let lost = guard.lost().await;
        // At the next renewal: a heartbeat of ten seconds.
        assert!(broken.elapsed() <= 10 * SECOND, "{:?}", broken.elapsed());
        let (by, reason) = ("ops@desk".to_owned(), "it is stuck".to_owned());
        assert_eq!(lost.reason, LossReason::Broken { by, reason });
        assert_eq!(lost.reason.to_string(), "ops@desk broke it: it is stuck");
        let released = guard.release().await.unwrap_err();
        assert_is!(released, Error::Lost { .. });
        next.release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

/// It tells of the break before any renewal. If its first request gets no answer, that may have been applied, but the item says who took the
/// lock away.
#[test]
fn a_release_after_the_break_tells_it_also_if_a_request_has_no_answer() {
    for fault in [None, Some(When::Before), Some(When::After)] {
        with_operator(async |lab, ops, [one, two]| {
            let guard = acquire(&one).await;
            let next = waits(lab, &two).await;
            let seen = ops.inspect().await.holder.unwrap();
            ops.locks.break_hold("a", &seen, "why").await.unwrap();
            let next = next.await.unwrap();
            if let Some(when) = fault {
                one.next_meets("UpdateItem", Fault::Lose(when));
            }
            let reason = loss(guard.release().await);
            assert_is!(reason, LossReason::Broken { .. });
            // A release of which nothing but the answer is lost is still a release.
            if let Some(when) = fault {
                two.next_meets("UpdateItem", Fault::Lose(when));
            }
            next.release().await.unwrap();
            // A later hold of the same client that ends otherwise is not taken for the broken one.
            let guard = acquire(&one).await;
            ops.locks
                .give_up(&guard.place_id(), Duration::ZERO)
                .await
                .unwrap();
            let reason = guard.lost().await.reason;
            assert_eq!(reason, LossReason::Evicted { by: None });
        });
    }
}

#[test]
fn a_lease_that_was_broken_is_lost_also_if_a_request_of_its_release_has_no_answer() {
    with_operator(async |_, ops, [one]| {
        let lock = one.locks.lease_lock("a").unwrap();
        let lease = lock.acquire("deploy", 600 * SECOND).await.unwrap();
        let seen = ops.inspect().await.holder.unwrap();
        ops.locks.break_hold("a", &seen, "why").await.unwrap();
        one.next_meets("UpdateItem", Fault::Lose(When::Before));
        let reason = loss(lock.release(&lease).await);
        assert_is!(reason, LossReason::Broken { .. });
    });
}

/// Two callers of one client at one place: the first holds the lock, and the second waits behind it.
struct Behind {
    first: LockGuard,
    second: JoinHandle<LockGuard>,
    /// Why the second was told that it lost its place, each time.
    losses: Arc<Mutex<Vec<LossReason>>>,
}

/// Two tasks of one client that come while another of its tasks is on its way share a place.
async fn behind_a_hold(lab: &Lab) -> Behind {
    let (host, other) = (lab.host(), lab.host());
    let before = acquire(&other).await;
    let losses = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&losses);
    let lock = host.lock();
    let observed = lock.clone().observed(move |waiting| {
        tell.lock().unwrap().extend(waiting.place_lost.clone());
    });
    let acquires =
        |lock: FairLock| async move { lock.acquire(RecordWait::Infinite).await.unwrap() };
    let alone = tokio::spawn(acquires(lock.clone()));
    let first = tokio::spawn(acquires(lock));
    let second = tokio::spawn(acquires(observed));
    lab.wait(2 * SECOND).await;
    before.release().await.unwrap();
    alone.await.unwrap().release().await.unwrap();
    Behind {
        first: first.await.unwrap(),
        second,
        losses,
    }
}

/// The process stands still for longer than its lease, and the guard is given back before anything notices that.
#[test]
fn a_caller_behind_a_hold_that_was_given_back_too_late_is_told_that_it_lost_its_place() {
    in_lab(async |lab, []| {
        let Behind {
            first,
            second,
            losses,
        } = behind_a_hold(lab).await;
        tokio::join!(biased; tokio::time::advance(60 * SECOND), async { drop(first) });
        second.await.unwrap().release().await.unwrap();
        assert_eq!(*losses.lock().unwrap(), [LossReason::Expired]);
    });
}

/// A hold whose item would go soon is renewed before it is granted. It is broken just before that.
#[test]
fn a_call_that_does_not_wait_is_told_of_no_place_that_it_will_not_have_again() {
    with_operator(async |lab, ops, [one]| {
        let losses = Arc::new(Mutex::new(0));
        let counts = Arc::clone(&losses);
        acquire(&one).await.release().await.unwrap();
        lab.wait(4 * 24 * 3_600 * SECOND).await;
        let lock = one.lock().observed(move |waiting| {
            *counts.lock().unwrap() += usize::from(waiting.place_lost.is_some());
        });
        let gate = one.held("renew hold", 1, When::Before);
        let tried = tokio::spawn(async move { lock.acquire(RecordWait::NoWait).await });
        gate.reached(1).await;
        let seen = ops.inspect().await.holder.unwrap();
        ops.locks.break_hold("a", &seen, "why").await.unwrap();
        gate.open();
        let refused = tried.await.unwrap();
        assert!(refused.is_err() && *losses.lock().unwrap() == 0);
    });
}

#[test]
fn a_place_that_was_renewed_since_it_was_seen_stays() {
    with_operator(async |lab, ops, [one]| {
        let guard = acquire(&one).await;
        let seen = ops.inspect().await.holder.unwrap();
        lab.wait(11 * SECOND).await;
        let outcome = ops.locks.break_hold("a", &seen, "").await.unwrap();
        assert_eq!(outcome, BreakOutcome::Changed);
        lab.wait(60 * SECOND).await;
        guard.release().await.unwrap();
        for lock in ["a", "b"] {
            let outcome = ops.locks.break_hold(lock, &seen, "").await.unwrap();
            assert_eq!(outcome, BreakOutcome::Gone, "{lock}");
        }
    });
}

/// It is renewed after the operator's client has looked, and before it writes.
#[test]
fn a_renewal_beside_the_break_wins_or_loses_as_a_whole() {
    with_operator(async |lab, ops, [one]| {
        let guard = acquire(&one).await;
        let seen = ops.inspect().await.holder.unwrap();
        ops.script(|request| {
            let is_break = request.operation() == "UpdateItem";
            is_break.then_some(Fault::Delay(When::Before, 11 * SECOND))
        });
        let outcome = ops.locks.break_hold("a", &seen, "").await;
        // The delay is longer than a request may take, so there is no answer.
        assert!(outcome.is_ok_and(|outcome| outcome == BreakOutcome::Changed) || guard.is_held());
        lab.wait(30 * SECOND).await;
        guard.release().await.unwrap();
    });
}

#[test]
fn a_break_whose_answer_is_lost_is_told_as_broken() {
    with_operator(async |_, ops, [one]| {
        let guard = acquire(&one).await;
        let seen = ops.inspect().await.holder.unwrap();
        ops.next_meets("UpdateItem", Fault::Lose(When::After));
        let outcome = ops.locks.break_hold("a", &seen, "").await.unwrap();
        assert_eq!(outcome, BreakOutcome::Broken { next: None });
        assert_is!(guard.lost().await.reason, LossReason::Broken { .. });
    });
}

#[test]
fn a_break_of_a_row_whose_answer_is_lost_is_told_as_broken() {
    in_slots(1, async |lab, hosts: [Host; 3]| {
        let ops = operator(lab);
        let guard = acquire(&hosts[0]).await;
        let successor = waits(lab, &hosts[1]).await;
        let waiting = waits(lab, &hosts[2]).await;
        let seen = ops.inspect().await.queue[1].clone();
        ops.next_meets("UpdateItem", Fault::Lose(When::After));
        let outcome = ops.locks.break_hold("a", &seen, "").await;
        assert_eq!(next_of(&outcome.unwrap()), Some(guard.ticket().get()));
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        let moved = waiting.await.unwrap();
        assert!(moved.ticket() > seen.ticket);
        moved.release().await.unwrap();
    });
}

/// Its owner leaves before the second try. The first was certainly not applied.
#[test]
fn a_break_of_a_row_that_was_only_held_up_is_not_told_as_broken() {
    in_slots(1, async |lab, hosts: [Host; 3]| {
        let ops = operator(lab);
        let _guard = acquire(&hosts[0]).await;
        let _successor = waits(lab, &hosts[1]).await;
        let waiting = waits(lab, &hosts[2]).await;
        let seen = ops.inspect().await.queue[1].clone();
        let leaves = waiting.abort_handle();
        ops.script(move |request| {
            let is_first = request.operation() == "UpdateItem" && !leaves.is_finished();
            is_first.then(|| leaves.abort())?;
            Some(Fault::Throttle)
        });
        let outcome = ops.locks.break_hold("a", &seen, "").await;
        assert_eq!(outcome.unwrap(), BreakOutcome::Gone);
    });
}

/// A holder, a successor and a waiter without a slot.
#[test]
fn successors_and_waiters_are_broken_too_and_stand_again_at_the_end() {
    for broken in 0..2 {
        in_slots(1, async |lab, hosts: [Host; 4]| {
            let ops = operator(lab);
            let guard = acquire(&hosts[0]).await;
            let mut waiting = all_wait(lab, &hosts[1..]).await;
            let before = ops.inspect().await.queue;
            assert_eq!(before.len(), 3);
            let outcome = ops
                .locks
                .break_hold("a", &before[broken], "out of turn")
                .await;
            assert_eq!(next_of(&outcome.unwrap()), Some(guard.ticket().get()));
            // A waiter learns of it by its next poll, or by its next renewal.
            lab.wait(12 * SECOND).await;
            let after = ops.inspect().await.queue;
            assert_eq!(after.len(), 3, "{after:#?}");
            assert!(after[2].ticket > before[2].ticket);
            assert!(guard.is_held());
            guard.release().await.unwrap();
            // The one that was broken comes last.
            let moved = waiting.remove(broken);
            have_turns(waiting).await;
            moved.await.unwrap().release().await.unwrap();
        });
    }
}

/// A successor by whom and why, and a waiter without a slot that the place is gone. Each is told once.
#[test]
fn a_waiter_is_told_that_it_lost_its_place() {
    for (slots, expected) in [(2, "ops@desk broke it: out of turn"), (1, "gave it up")] {
        in_slots(slots, async |lab, hosts: [Host; 3]| {
            let ops = operator(lab);
            let guard = acquire(&hosts[0]).await;
            let before = waits(lab, &hosts[1]).await;
            let told = Arc::new(Mutex::new(Vec::new()));
            let tell = Arc::clone(&told);
            let lock = hosts[2].lock();
            let lock = lock.observed(move |waiting| {
                let lost = waiting.place_lost.as_ref().map(ToString::to_string);
                tell.lock().unwrap().push((waiting.place_id.clone(), lost));
            });
            let waiting = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
            // A place without a date is renewed soon.
            lab.wait(2 * SECOND).await;
            let seen = ops.inspect().await.queue[1].clone();
            let outcome = ops.locks.break_hold("a", &seen, "out of turn").await;
            assert_eq!(next_of(&outcome.unwrap()), Some(guard.ticket().get()));
            lab.wait(12 * SECOND).await;
            guard.release().await.unwrap();
            before.await.unwrap().release().await.unwrap();
            waiting.await.unwrap().unwrap().release().await.unwrap();
            let told = told.lock().unwrap().clone();
            let losses: Vec<_> = told.iter().filter_map(|(_, lost)| lost.clone()).collect();
            assert_eq!(losses.len(), 1, "{slots}: {told:?}");
            assert!(losses[0].contains(expected), "{told:?}");
            let at = told.iter().position(|(_, lost)| lost.is_some()).unwrap();
            // It had a place, has none, and has another.
            assert!(told[at].0.is_none() && told[at - 1].0.is_some());
            assert!(told[at + 1].0.is_some() && told[at + 1].0 != told[at - 1].0);
        });
    }
}

#[test]
fn a_caller_behind_a_hold_of_its_client_is_told_why_it_lost_its_place() {
    in_lab(async |lab, []| {
        let ops = operator(lab);
        let Behind {
            first,
            second,
            losses,
        } = behind_a_hold(lab).await;
        let seen = ops.inspect().await.holder.unwrap();
        let outcome = ops.locks.break_hold("a", &seen, "a deployment").await;
        assert_eq!(next_of(&outcome.unwrap()), None);
        let lost = first.lost().await.reason;
        assert_is!(lost, LossReason::Broken { .. });
        drop(first);
        second.await.unwrap().release().await.unwrap();
        let losses = losses.lock().unwrap().clone();
        assert_eq!(losses.len(), 1, "{losses:?}");
        let told = losses[0].to_string();
        assert!(told.contains("ops@desk broke it: a deployment"), "{told}");
    });
}

#[test]
fn a_waiter_that_has_the_lock_since_it_was_seen_keeps_it() {
    // From a slot, and from the queue behind the slots.
    for waiter in 0..2 {
        in_slots(1, async |lab, hosts: [Host; 3]| {
            let ops = operator(lab);
            let guard = acquire(&hosts[0]).await;
            let first = waits(lab, &hosts[1]).await;
            let second = waits(lab, &hosts[2]).await;
            let seen = ops.inspect().await.queue[waiter].clone();
            guard.release().await.unwrap();
            let mut holder = first.await.unwrap();
            if waiter == 1 {
                holder.release().await.unwrap();
                holder = second.await.unwrap();
            }
            let outcome = ops.locks.break_hold("a", &seen, "").await.unwrap();
            assert_eq!(outcome, BreakOutcome::Changed, "{waiter}");
            lab.wait(60 * SECOND).await;
            holder.release().await.unwrap();
        });
    }
}

/// A row is renewed, or its owner leaves, before the break.
#[test]
fn a_row_that_is_not_as_it_was_seen_is_left_alone() {
    in_slots(1, async |lab, hosts: [Host; 3]| {
        let ops = operator(lab);
        let guard = acquire(&hosts[0]).await;
        let _successor = waits(lab, &hosts[1]).await;
        let waiting = waits(lab, &hosts[2]).await;
        let seen = ops.inspect().await.queue[1].clone();
        lab.wait(31 * SECOND).await;
        let outcome = ops.locks.break_hold("a", &seen, "").await.unwrap();
        assert_eq!(outcome, BreakOutcome::Changed);
        let seen = ops.inspect().await.queue[1].clone();
        waiting.abort();
        lab.wait(2 * SECOND).await;
        let outcome = ops.locks.break_hold("a", &seen, "").await.unwrap();
        assert_eq!(outcome, BreakOutcome::Gone);
        assert!(guard.is_held());
    });
}

#[test]
fn a_lock_that_changes_hands_while_its_holder_is_asked_is_asked_again() {
    with_operator(async |lab, ops, [one, two]| {
        let guard = acquire(&one).await;
        let next = waits(lab, &two).await;
        ops.next_meets("UpdateItem", Fault::Delay(When::Before, SECOND));
        let locks = ops.locks.clone();
        let asking = tokio::spawn(async move { locks.ask_to_yield("a", "tea").await });
        // The lock is read, and the request is under way.
        lab.wait(SECOND / 2).await;
        guard.release().await.unwrap();
        let next = next.await.unwrap();
        assert_eq!(asking.await.unwrap().unwrap(), 1);
        assert_eq!(next.asked_to_yield().await.reason, "tea");
    });
}

#[test]
fn one_of_several_holders_is_broken_and_the_others_keep_theirs() {
    with_operator(async |lab, ops, [one, two, three]| {
        let of = |host: &Host| host.locks.semaphore("a", 2).unwrap();
        let stays = of(&one).acquire(RecordWait::NoWait).await.unwrap();
        let goes = of(&two).acquire(RecordWait::NoWait).await.unwrap();
        let waiting = of(&three);
        let waiting = tokio::spawn(async move { waiting.acquire(RecordWait::Infinite).await });
        // Until the holds have dates, they are renewed soon.
        lab.wait(2 * SECOND).await;
        let seen = ops.inspect().await;
        let all = seen.holder.iter().chain(&seen.sharers);
        let seen = all.clone().find(|one| one.ticket == goes.ticket()).unwrap();
        let outcome = ops.locks.break_hold("a", seen, "").await.unwrap();
        assert_eq!(next_of(&outcome), Some(stays.ticket().get()));
        let next = waiting.await.unwrap().unwrap();
        assert!(matches!(
            goes.lost().await.reason,
            LossReason::Broken { .. }
        ));
        lab.wait(31 * SECOND).await;
        assert!(stays.is_held() && next.is_held());
    });
}

fn requested(guard: &LockGuard) -> Option<String> {
    let request = guard.yield_requested()?;
    Some(format!("{}: {}", request.by, request.reason))
}

#[test]
fn a_holder_sees_within_a_heartbeat_that_it_is_asked_and_the_next_holder_is_not() {
    with_operator(async |lab, ops, [one, two]| {
        assert_eq!(ops.locks.ask_to_yield("a", "maintenance").await.unwrap(), 0);
        let guard = acquire(&one).await;
        let next = waits(lab, &two).await;
        assert_eq!(ops.locks.ask_to_yield("a", "maintenance").await.unwrap(), 1);
        assert_eq!(requested(&guard), None);
        let asked = Instant::now();
        let request = guard.asked_to_yield().await;
        assert!(asked.elapsed() <= 10 * SECOND, "{:?}", asked.elapsed());
        assert_eq!(
            (&*request.by, &*request.reason),
            ("ops@desk", "maintenance")
        );
        assert_eq!(requested(&guard).unwrap(), "ops@desk: maintenance");
        // A second request replaces the first.
        ops.locks.ask_to_yield("a", "please").await.unwrap();
        lab.wait(11 * SECOND).await;
        assert_eq!(requested(&guard).unwrap(), "ops@desk: please");
        assert!(guard.is_held());
        guard.release().await.unwrap();
        let next = next.await.unwrap();
        lab.wait(11 * SECOND).await;
        assert_eq!(requested(&next), None);
        assert!(next.is_held());
    });
}

#[test]
fn all_who_share_a_lock_are_asked_and_those_who_come_later_are_not() {
    in_lab(async |lab, []| {
        let ops = operator(lab);
        let hosts: Vec<_> = (0..3).map(|_| lab.host()).collect();
        let mut guards = Vec::new();
        for host in &hosts[..2] {
            guards.push(
                host.lock()
                    .acquire_shared(RecordWait::NoWait)
                    .await
                    .unwrap(),
            );
        }
        assert_eq!(ops.locks.ask_to_yield("a", "").await.unwrap(), 2);
        let late = hosts[2]
            .lock()
            .acquire_shared(RecordWait::NoWait)
            .await
            .unwrap();
        lab.wait(11 * SECOND).await;
        assert!(guards.iter().all(|guard| requested(guard).is_some()));
        assert_eq!(requested(&late), None);
    });
}

#[test]
fn a_reason_that_is_too_long_is_refused_and_nothing_is_sent() {
    with_operator(async |_, ops, [one]| {
        let _guard = acquire(&one).await;
        let seen = ops.inspect().await.holder.unwrap();
        ops.network.set_faults(cut_off());
        let long = "r".repeat(129);
        let refused = ops.locks.break_hold("a", &seen, &*long).await.unwrap_err();
        assert!(
            refused.to_string().contains("128 bytes at the most"),
            "{refused}"
        );
        let refused = ops.locks.ask_to_yield("a", long).await.unwrap_err();
        assert_is!(refused, Error::Invalid(_));
    });
}

/// A notice is for people. Whatever stands there, locks work.
#[test]
fn a_damaged_notice_is_none() {
    for value in [
        AttributeValue::S("x".to_owned()),
        AttributeValue::M(Default::default()),
        AttributeValue::M([("from".to_owned(), AttributeValue::S("x".to_owned()))].into()),
        AttributeValue::Null(true),
    ] {
        in_lab(async |lab, [one, two]| {
            let guard = acquire(&one).await;
            let update = lab.engine.client().update_item().table_name("locks");
            let update = update
                .key("pk", AttributeValue::S("a".to_owned()))
                .key("sk", AttributeValue::S("fairlock/#lock".to_owned()));
            let update = update
                .update_expression("SET asked = :it, broken = :it")
                .condition_expression("attribute_exists(pk)")
                .expression_attribute_values(":it", value.clone());
            update.send().await.unwrap();
            lab.wait(11 * SECOND).await;
            assert!(guard.is_held() && requested(&guard).is_none());
            let next = waits(lab, &two).await;
            guard.release().await.unwrap();
            next.await.unwrap().release().await.unwrap();
        });
    }
}
