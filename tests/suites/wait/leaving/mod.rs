//! Callers that stop waiting, clients that die, and how the queue moves on. No living caller waits for callers that left, or longer than a
//! lease for clients that died.

mod denied;
mod memory;
mod panics;

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Fault, Faults, When};
use fairlock::{Clock, Error, HeldLocks, LossReason, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{
    EPOCH, Host, Lab, MS, SECOND, acquire, acquires, cut_all, cut_off, in_lab, in_slots, waits,
};
use fairlock_testkit::verbs;
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

/// The default.
const LEASE: Duration = Duration::from_secs(30);

fn single(lab: &Lab) -> Host {
    lab.host_with(|builder| builder.successor_slots(1))
}

#[test]
fn all_who_died_at_one_moment_cost_one_lease_together() {
    let cells = [1, 4]
        .into_iter()
        .flat_map(|slots| [1, 4, 9, 17, 26].map(|phase| (slots, phase)))
        .flat_map(|(slots, phase)| [true, false].map(|dated| (slots, phase, dated)));
    // Both numbers of slots are in the sample, with dates and without.
    for (slots, phase, dated) in sampled(cells, 7) {
        virtual_time(died_together((8, 8, SECOND), slots, phase * SECOND, dated));
    }
    let crowds = [(1, true), (4, true), (1, false), (4, false)];
    for (slots, dated) in sampled(crowds.into_iter(), 4) {
        virtual_time(died_together((80, 1, 50 * MS), slots, 5 * SECOND, dated));
    }
}

/// A holder, its successors and the waiters behind them, `callers` of some hosts that came `apart`, die at one moment, `phase` after they
/// came to rest.
async fn died_together(
    (callers, hosts, apart): (usize, usize, Duration),
    slots: usize,
    phase: Duration,
    dated: bool,
) {
    let clock = Clock::of_tokio(EPOCH);
    let engine = Engine::memory().unwrap().with_clock(clock.clone());
    let lab = Lab::on(if dated { engine } else { engine.without_date() }, clock).await;
    let hosts = lab.hosts_with_slots(hosts, slots);
    let guard = acquire(&hosts[0]).await;
    let mut dead = Vec::new();
    for caller in 1..callers {
        dead.push(acquires(&hosts[caller % hosts.len()], RecordWait::Infinite));
        lab.wait(apart).await;
    }
    let alive = lab.host_with(|builder| builder.successor_slots(slots));
    let waiting = waits(&lab, &alive).await;
    lab.wait(phase).await;
    cut_all(&hosts);
    let died = Instant::now();
    let next = waiting.await.unwrap();
    let took = died.elapsed();
    assert!(
        took < LEASE + 4 * SECOND,
        "{callers}, {slots} slots, {phase:?}, dated {dated}: {took:?}"
    );
    assert!(next.ticket() > guard.ticket());
    next.release().await.unwrap();
}

#[test]
fn a_waiter_that_was_passed_as_dead_draws_another_ticket_and_is_granted() {
    in_lab(async |lab, []| {
        let (a, b, c, d) = (single(lab), single(lab), single(lab), single(lab));
        let guard = acquire(&a).await;
        let successor = waits(lab, &b).await;
        let frozen = waits(lab, &c).await;
        c.network.set_faults(cut_off());
        let behind = waits(lab, &d).await;
        lab.wait(60 * SECOND).await;
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        let passed = behind.await.unwrap();
        c.network.set_faults(Faults::default());
        let ticket = passed.ticket();
        lab.wait(5 * SECOND).await;
        passed.release().await.unwrap();
        let late = frozen.await.unwrap();
        assert!(late.ticket() > ticket);
        late.release().await.unwrap();
    });
}

/// The row that waits in the queue of lock `a`.
async fn waiting_row(lab: &Lab) -> HashMap<String, AttributeValue> {
    let query = lab.engine.client().query().table_name("locks");
    let query = query.key_condition_expression("pk = :pk AND begins_with(sk, :row)");
    let query = query.expression_attribute_values(":pk", AttributeValue::S("a".into()));
    let query = query.expression_attribute_values(":row", AttributeValue::S("fairlock/0".into()));
    query.send().await.unwrap().items.unwrap().remove(0)
}

/// As another client does that takes the waiter for dead.
async fn make_void(lab: &Lab, row: &HashMap<String, AttributeValue>) {
    let void = lab.engine.client().update_item().table_name("locks");
    let void = void
        .key("pk", row["pk"].clone())
        .key("sk", row["sk"].clone());
    let void = void.update_expression("SET #state = :void");
    let void = void.expression_attribute_names("#state", "state");
    let void = void.expression_attribute_values(":void", AttributeValue::S("void".into()));
    void.send().await.unwrap();
}

#[test]
fn a_waiter_that_retires_and_finds_that_it_had_a_slot_keeps_its_place() {
    in_lab(async |lab, []| {
        let (a, b, c) = (single(lab), single(lab), single(lab));
        let guard = acquire(&a).await;
        let successor = waits(lab, &b).await;
        let passed = waits(lab, &c).await;
        let row = waiting_row(lab).await;
        let client = lab.engine.client();
        let write = || {
            client
                .update_item()
                .table_name("locks")
                .key("pk", row["pk"].clone())
        };
        // Another client made its row void, so it retires. Before it has left, a write that fills slots, decided on an older snapshot,
        // arrives.
        make_void(lab, &row).await;
        let gate = c.held("leave", 1, When::Before);
        gate.reached(1).await;
        let entry = row["entry"].clone();
        let ticket = entry.as_m().unwrap()["ticket"].clone();
        let slot = write().key("sk", AttributeValue::S("fairlock/#lock".into()));
        let slot =
            slot.update_expression("SET watermark = :ticket, slots = list_append(slots, :found)");
        let slot = slot.expression_attribute_values(":ticket", ticket.clone());
        slot.expression_attribute_values(":found", AttributeValue::L(vec![entry]))
            .send()
            .await
            .unwrap();
        gate.open();
        lab.settle().await;
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        let kept = passed.await.unwrap();
        assert_eq!(kept.ticket().to_string(), *ticket.as_n().unwrap());
        kept.release().await.unwrap();
        lab.settle().await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    });
}

#[test]
fn a_client_too_slow_for_the_grace_draws_again_and_gets_through() {
    in_lab(async |lab, []| {
        let (a, b, c, d) = (single(lab), single(lab), single(lab), single(lab));
        let guard = acquire(&a).await;
        let successor = waits(lab, &b).await;
        let met = c.meets("join", 5, Fault::Delay(When::Before, 20 * SECOND));
        let slow = waits(lab, &c).await;
        let behind = waits(lab, &d).await;
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        behind.await.unwrap().release().await.unwrap();
        slow.await.unwrap().release().await.unwrap();
        assert_eq!(met.load(std::sync::atomic::Ordering::SeqCst), 5);
    });
}

#[test]
fn shutdown_releases_held_locks_when_asked_to_each_by_itself_and_says_what_it_could_not() {
    in_lab(async |_, [a, b]| {
        let mut guards = Vec::new();
        for name in ["a", "b", "c"] {
            guards.push(
                a.locks
                    .fair_lock(name)
                    .unwrap()
                    .acquire(RecordWait::NoWait)
                    .await
                    .unwrap(),
            );
        }
        a.script(|request| {
            let stuck = verbs::verb(request) == "release" && request.key("pk") == Some("b");
            stuck.then_some(Fault::Hang(When::Before))
        });
        let started = Instant::now();
        let report = a.locks.shutdown(HeldLocks::Release, 3 * SECOND).await;
        assert!(started.elapsed() <= 3 * SECOND + 10 * MS);
        let undone = report.unfinished;
        assert!(
            undone.len() == 1 && undone[0].contains("releasing lock `b`"),
            "{undone:?}"
        );
        assert_eq!(guards[0].lost().await.reason, LossReason::ShutDown);
        for (name, free) in [("a", true), ("b", false), ("c", true)] {
            let lock = b.locks.fair_lock(name).unwrap();
            assert_eq!(lock.try_acquire().await.unwrap().is_some(), free, "{name}");
        }
    });
}

#[test]
fn a_leave_that_is_refused_for_a_second_costs_no_lease() {
    for is_successor in [true, false] {
        in_slots(1, async |lab, hosts: [Host; 4]| {
            let guard = acquire(&hosts[0]).await;
            let between = match is_successor {
                true => None,
                false => Some(waits(lab, &hosts[1]).await),
            };
            let leaving = acquires(&hosts[2], RecordWait::Infinite);
            lab.wait(SECOND).await;
            let behind = waits(lab, &hosts[3]).await;
            let until = Instant::now() + SECOND;
            hosts[2].script(move |_| {
                (Instant::now() < until).then_some(Fault::Refuse("ResourceNotFoundException"))
            });
            assert_is!(leaving.await.unwrap(), Err(Error::Refused { .. }));
            lab.wait(3 * SECOND).await;
            let started = Instant::now();
            guard.release().await.unwrap();
            if let Some(between) = between {
                between.await.unwrap().release().await.unwrap();
            }
            behind.await.unwrap().release().await.unwrap();
            assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
        });
    }
}
