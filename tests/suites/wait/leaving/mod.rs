//! Callers that stop waiting, clients that die, and how the queue moves on. No living caller waits for callers that left, or longer than a
//! lease for clients that died.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod denied;
mod memory;
mod panics;

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Fault, Faults, Gate, Latency, When};
use fairlock::{Clock, Error, HeldLocks, LossReason, RecordWait};
use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{EPOCH, Host, Lab, acquire, cut_off, waits};
use fairlock_testkit::verbs;
use fairlock_testkit::verbs::meets;
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
/// How long a client waits for an answer, by default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The default.
const LEASE: Duration = Duration::from_secs(30);
const MS: Duration = Duration::from_millis(1);

fn single(lab: &Lab) -> Host {
    lab.host_with(|builder| builder.successor_slots(1))
}

#[test]
fn all_who_died_at_one_moment_cost_one_lease_together() {
    let cells = [1, 4]
        .into_iter()
        .flat_map(|slots| [1, 4, 9, 17, 26].map(|phase| (slots, phase)))
        .flat_map(|(slots, phase)| [true, false].map(|dated| (slots, phase, dated)));
    // Every number of slots and every phase is in the sample, with dates and without.
    for (slots, phase, dated) in sampled(cells, 3) {
        virtual_time(died_together(slots, phase * SECOND, dated));
    }
}

/// A holder, its successors and the waiters behind them die at one moment, `phase` after they came to rest.
async fn died_together(slots: usize, phase: Duration, dated: bool) {
    let clock = Clock::of_tokio(EPOCH);
    let engine = Engine::memory().unwrap().with_clock(clock.clone());
    let lab = Lab::on(if dated { engine } else { engine.without_date() }, clock).await;
    let host = || lab.host_with(|builder| builder.successor_slots(slots));
    let hosts = lab.hosts_with_slots(8, slots);
    let guard = acquire(&hosts[0]).await;
    let mut dead = Vec::new();
    for host in &hosts[1..] {
        dead.push(waits(&lab, host).await);
    }
    let alive = host();
    let waiting = waits(&lab, &alive).await;
    lab.wait(phase).await;
    hosts
        .iter()
        .for_each(|host| host.network.set_faults(cut_off()));
    let died = Instant::now();
    let next = waiting.await.unwrap();
    let took = died.elapsed();
    assert!(
        took < LEASE + 4 * SECOND,
        "{slots} slots, {phase:?}, dated {dated}: {took:?}"
    );
    assert!(next.ticket() > guard.ticket());
    next.release().await.unwrap();
}

#[test]
fn a_waiter_that_was_passed_as_dead_draws_another_ticket_and_is_granted() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b, c, d) = (single(&lab), single(&lab), single(&lab), single(&lab));
        let guard = acquire(&a).await;
        let successor = waits(&lab, &b).await;
        let frozen = waits(&lab, &c).await;
        c.network.set_faults(cut_off());
        let behind = waits(&lab, &d).await;
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
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b, c) = (single(&lab), single(&lab), single(&lab));
        let guard = acquire(&a).await;
        let successor = waits(&lab, &b).await;
        let passed = waits(&lab, &c).await;
        let row = waiting_row(&lab).await;
        let client = lab.engine.client();
        let write = || {
            client
                .update_item()
                .table_name("locks")
                .key("pk", row["pk"].clone())
        };
        // Another client made its row void, so it retires. Before it has left, a write that fills slots, decided on an older snapshot,
        // arrives.
        make_void(&lab, &row).await;
        let gate = Gate::closed();
        let _met = meets(
            &c.network,
            "leave",
            1,
            Fault::Hold(When::Before, gate.clone()),
        );
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
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b, c, d) = (single(&lab), single(&lab), single(&lab), single(&lab));
        let guard = acquire(&a).await;
        let successor = waits(&lab, &b).await;
        let met = meets(
            &c.network,
            "join",
            5,
            Fault::Delay(When::Before, 20 * SECOND),
        );
        let slow = waits(&lab, &c).await;
        let behind = waits(&lab, &d).await;
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        behind.await.unwrap().release().await.unwrap();
        slow.await.unwrap().release().await.unwrap();
        assert_eq!(met.load(std::sync::atomic::Ordering::SeqCst), 5);
    });
}

#[test]
fn throttling_slows_waiters_down_and_starves_no_heartbeat() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..5).map(|_| lab.host()).collect();
        let guard = acquire(&hosts[0]).await;
        let mut waiting = Vec::new();
        for host in &hosts[1..] {
            waiting.push(waits(&lab, host).await);
        }
        let half = Faults {
            throttles: 0.5,
            ..Faults::default()
        };
        hosts.iter().for_each(|host| host.network.set_faults(half));
        lab.wait(300 * SECOND).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        for next in waiting {
            next.await.unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn a_wrong_endpoint_ends_a_call_when_its_time_is_over_or_that_of_an_outage() {
    virtual_time(async {
        let lab = Lab::new().await;
        for (host, wait, time) in [
            (lab.host(), RecordWait::NoWait, 1),
            (lab.host(), RecordWait::Timeout(20 * SECOND), 20),
            (
                lab.host_with(|builder| builder.testing(|it| it.outage_timeout = Some(5 * SECOND))),
                RecordWait::Infinite,
                5,
            ),
        ] {
            host.network.set_faults(cut_off());
            let started = Instant::now();
            let lock = host.locks.fair_lock("a").unwrap();
            let Err(Error::Unavailable { verb: "enter", .. }) = lock.acquire(wait).await else {
                panic!("{wait:?}")
            };
            let took = started.elapsed();
            // Whatever may have been applied is undone before the error is returned, within one request time-out.
            let most = time * SECOND + REQUEST_TIMEOUT;
            assert!(took <= most, "{wait:?}: {took:?}");
            assert!(took > (time - 1) * SECOND, "{wait:?}: {took:?}");
        }
    });
}

#[test]
fn a_missing_table_is_said_at_once() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host_with(|builder| builder.table("elsewhere"));
        let refused = host
            .locks
            .fair_lock("a")
            .unwrap()
            .acquire(RecordWait::default())
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, Error::Refused { table, .. } if table == "elsewhere"),
            "{refused}"
        );
        assert_eq!(host.network.counts().requests(), 1);
    });
}

#[test]
fn shutdown_keeps_held_locks_tells_waiters_and_is_bounded() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        let guard = acquire(&a).await;
        let lock = a.locks.fair_lock("a").unwrap();
        let (waited, report) = tokio::join!(lock.acquire(RecordWait::Infinite), async {
            lab.settle().await;
            a.locks.shutdown(HeldLocks::Keep, 5 * SECOND).await
        });
        assert!(matches!(waited, Err(Error::ShutDown(_))));
        assert_eq!(report.held, [("a".to_owned(), guard.ticket())]);
        assert!(report.unfinished.is_empty(), "{report:?}");
        assert!(matches!(
            lock.acquire(RecordWait::NoWait).await,
            Err(Error::ShutDown(_))
        ));
        lab.wait(100 * SECOND).await;
        assert!(
            guard.is_held(),
            "a kept lock is renewed until its guard goes"
        );
        guard.release().await.unwrap();
        acquire(&b).await.release().await.unwrap();
    });
}

#[test]
fn shutdown_releases_held_locks_when_asked_to_each_by_itself_and_says_what_it_could_not() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
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
        let _ = a.network.clone().script(|request| {
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
fn a_timeout_bounds_the_call_by_one_request_timeout_more_even_when_nothing_answers() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        let _guard = acquire(&a).await;
        for faults in [
            Faults {
                hangs_before: 1.0,
                ..Faults::default()
            },
            Faults {
                hangs_after: 1.0,
                ..Faults::default()
            },
            Faults {
                round_trip: Latency::Constant(SECOND),
                ..Faults::default()
            },
        ] {
            b.network.set_faults(faults);
            let started = Instant::now();
            let lock = b.locks.fair_lock("a").unwrap();
            assert!(lock.acquire(RecordWait::Timeout(5 * SECOND)).await.is_err());
            assert!(
                started.elapsed() <= 7 * SECOND + 10 * MS,
                "{:?}",
                started.elapsed()
            );
        }
    });
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, not the client's"
)]
fn a_leave_that_is_refused_for_a_second_costs_no_lease() {
    for is_successor in [true, false] {
        virtual_time(async {
            let lab = Lab::new().await;
            let hosts = lab.hosts_with_slots(4, 1);
            let guard = acquire(&hosts[0]).await;
            let between = match is_successor {
                true => None,
                false => Some(waits(&lab, &hosts[1]).await),
            };
            let lock = hosts[2].locks.fair_lock("a").unwrap();
            let leaving = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
            lab.wait(SECOND).await;
            let behind = waits(&lab, &hosts[3]).await;
            let until = Instant::now() + SECOND;
            let _ = hosts[2].network.clone().script(move |_| {
                (Instant::now() < until).then_some(Fault::Refuse("ResourceNotFoundException"))
            });
            let refused = leaving.await.unwrap();
            assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
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

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "callers' tasks, not the client's"
)]
fn a_queue_of_eighty_who_die_together_costs_one_lease() {
    let cells = [(true, 1), (true, 4), (false, 1), (false, 4)];
    for (dates, slots) in sampled(cells.into_iter(), 3) {
        virtual_time(async move {
            let clock = Clock::of_tokio(EPOCH);
            let engine = Engine::memory().unwrap().with_clock(clock.clone());
            let engine = if dates { engine } else { engine.without_date() };
            let lab = Lab::on(engine, clock).await;
            let dead = lab.host_with(|builder| builder.successor_slots(slots));
            for _ in 0..80 {
                let lock = dead.locks.fair_lock("a").unwrap();
                tokio::spawn(
                    async move { std::mem::forget(lock.acquire(RecordWait::Infinite).await) },
                );
                lab.wait(50 * MS).await;
            }
            let alive = waits(
                &lab,
                &lab.host_with(|builder| builder.successor_slots(slots)),
            )
            .await;
            lab.wait(5 * SECOND).await;
            dead.network.set_faults(cut_off());
            let started = Instant::now();
            let guard = alive.await.unwrap();
            let took = started.elapsed();
            assert!(
                took < LEASE + 4 * SECOND,
                "dates {dates}, {slots} slots: {took:?}"
            );
            drop(guard);
        });
    }
}
