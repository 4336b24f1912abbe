//! Requests whose answers never arrive. Each step finds out what became of its request, and no lock is lost or kept by mistake.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::embedded::{Fault, Gate, When};
use fairlock::{Clock, RecordWait};
use fairlock_testkit::ambiguous_endings::applied_unseen;
use fairlock_testkit::lab::{EPOCH, Lab, SECOND, acquire, in_lab, waits};
use fairlock_testkit::verbs::{meets, verb};
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

/// The lock was idle for so long that DynamoDB may delete its item at any moment, and deletes it at this one.
#[test]
fn an_enter_that_was_applied_unseen_to_an_item_that_was_then_deleted_is_made_again() {
    for fault in applied_unseen() {
        in_lab(async |lab, []| {
            lab.switch_ttl_on().await;
            let before = acquire(&lab.host()).await;
            let ticket = before.ticket();
            before.release().await.unwrap();
            lab.wait(31 * 24 * 3600 * SECOND).await;
            // Neither the first request nor the wall clock of this host can tell the time.
            let host = lab.host_with(|builder| builder.clock(Clock::of_tokio(EPOCH)));
            let late = fault.and(Fault::Delay(When::After, 3 * SECOND));
            let met = meets(&host.network, "enter known", 1, late);
            let waiting = waits(lab, &host).await;
            assert_eq!(met.load(Ordering::SeqCst), 1);
            assert_eq!(lab.engine.expire().await.unwrap(), 1, "the lock item");
            let guard = waiting.await.unwrap();
            assert!(guard.is_held() && guard.ticket() > ticket);
            lab.wait(60 * SECOND).await;
            assert!(guard.is_held());
            guard.release().await.unwrap();
            assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

/// In a queue that never empties, nothing lowers the join timeout that stands on the item.
#[test]
fn a_lost_draw_costs_no_join_timeout_of_a_client_that_has_gone() {
    in_lab(async |lab, []| {
        let works = |host: fairlock_testkit::lab::Host, turns: usize| {
            tokio::spawn(async move {
                for _ in 0..turns {
                    let guard = acquire(&host).await;
                    tokio::time::sleep(2 * SECOND).await;
                    guard.release().await.unwrap();
                }
            })
        };
        let one_slot = || lab.host_with(|builder| builder.successor_slots(1));
        for _ in 0..5 {
            works(one_slot(), 1_000);
        }
        lab.wait(20 * SECOND).await;
        let patient = lab.host_with(|builder| {
            builder
                .successor_slots(1)
                .testing(|it| it.join_timeout = Some(600 * SECOND))
        });
        works(patient, 1).await.unwrap();
        let unlucky = one_slot();
        let met = meets(&unlucky.network, "draw", 1, Fault::Lose(When::After));
        let began = Instant::now();
        works(unlucky, 1).await.unwrap();
        assert_eq!(met.load(Ordering::SeqCst), 1);
        // Its turn comes behind five others, and after one gap.
        assert!(began.elapsed() < 35 * SECOND, "{:?}", began.elapsed());
    });
}

/// How long a batch of `callers` callers waits for its first turn when the answer to its draw is lost.
async fn first_turn_after_a_lost_draw(callers: usize) -> Duration {
    let lab = Lab::new().await;
    let hosts = lab.hosts_with_slots(3, 1);
    let guard = acquire(&hosts[0]).await;
    let successor = waits(&lab, &hosts[1]).await;
    let met = Arc::new(AtomicUsize::new(0));
    let lost = Arc::clone(&met);
    let _ = hosts[2].network.clone().script(move |request| {
        let tickets = &request.body()["ExpressionAttributeValues"][":tickets"]["N"];
        let is_of_all = verb(request) == "draw" && tickets != "1";
        let is_first = is_of_all && lost.fetch_add(1, Ordering::SeqCst) == 0;
        is_first.then_some(Fault::Lose(When::After))
    });
    let started = Instant::now();
    let call = |_| {
        let lock = hosts[2].lock();
        tokio::spawn(async move {
            let turn = lock.acquire(RecordWait::Infinite).await.unwrap();
            let waited = started.elapsed();
            turn.release().await.unwrap();
            waited
        })
    };
    // The first call goes alone, and the others gather behind it.
    let calls: Vec<_> = (0..=callers).map(call).collect();
    lab.settle().await;
    guard.release().await.unwrap();
    successor.await.unwrap().release().await.unwrap();
    let mut waited = Vec::new();
    for call in calls {
        waited.push(call.await.unwrap());
    }
    assert_eq!(
        met.load(Ordering::SeqCst),
        2,
        "the draw was lost, and made again"
    );
    waited[1]
}

#[test]
fn a_lost_draw_costs_one_grace_however_many_tickets_it_was_for() {
    for callers in [2, 999, 1000, 1001, 3500] {
        virtual_time(async move {
            let waited = first_turn_after_a_lost_draw(callers).await;
            assert!(waited < 7 * SECOND, "{callers} callers: {waited:?}");
        });
    }
}

#[test]
fn an_enter_that_arrives_after_its_caller_gave_up_is_given_up_as_soon_as_it_is_seen() {
    in_lab(async |lab, [host]| {
        let late = Fault::Hang(When::Before).and(Fault::Duplicate { after: 20 * SECOND });
        meets(&host.network, "enter", 100, late);
        let lock = host.lock();
        let refused = lock.acquire(RecordWait::Timeout(3 * SECOND)).await;
        assert!(refused.is_err());
        meets(&host.network, "enter", 0, Fault::Throttle);
        // The late enters arrive, and hold the lock for no caller.
        lab.wait(20 * SECOND).await;
        let started = Instant::now();
        acquire(&host).await.release().await.unwrap();
        assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
    });
}

#[test]
fn each_slot_that_is_given_after_its_caller_gave_up_is_given_up_as_soon_as_it_is_seen() {
    in_lab(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let entered = AtomicUsize::new(0);
        let _ = b.network.clone().script(move |request| {
            let condition = request.body()["ConditionExpression"].as_str();
            let is_late = condition.is_some_and(|it| it.contains(":slots_taken"));
            let hangs = Fault::Hang(When::Before);
            is_late.then(|| match entered.fetch_add(1, Ordering::SeqCst) {
                0 => hangs.and(Fault::Duplicate { after: 10 * SECOND }),
                1 => hangs.and(Fault::Duplicate { after: 20 * SECOND }),
                _ => hangs,
            })
        });
        let lock = b.lock();
        let refused = lock.acquire(RecordWait::Timeout(6 * SECOND)).await;
        assert!(refused.is_err());
        // Two copies of one request arrive, at least ten seconds apart, and take a slot for no caller.
        let mut seen = 0;
        for _ in 0..20 {
            lab.wait(SECOND).await;
            seen += lock.inspect().await.unwrap().queue.len();
            assert!(lock.try_acquire().await.unwrap().is_none());
            lab.wait(SECOND / 2).await;
            let successors = lock.inspect().await.unwrap().queue;
            assert!(successors.is_empty(), "{successors:?}");
        }
        assert_eq!(seen, 2);
        guard.release().await.unwrap();
    });
}

/// No earlier request was applied, so this slot is valid.
#[test]
fn a_slot_that_was_asked_for_through_an_outage_is_not_given_up_for_it() {
    in_lab(async |lab, [a, b, c]| {
        let guard = acquire(&a).await;
        let (began, left) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let leaves = left.clone();
        let _ = b
            .network
            .clone()
            .script(move |request| match verb(request) {
                "enter" | "enter known" => {
                    (began.elapsed() < 45 * SECOND).then_some(Fault::Throttle)
                }
                "give up" => {
                    leaves.fetch_add(1, Ordering::SeqCst);
                    None
                }
                _ => None,
            });
        let first = waits(lab, &b).await;
        lab.wait(60 * SECOND).await;
        let second = waits(lab, &c).await;
        guard.release().await.unwrap();
        let guard = first.await.unwrap();
        assert!(!second.is_finished());
        guard.release().await.unwrap();
        second.await.unwrap().release().await.unwrap();
        assert_eq!(left.load(Ordering::SeqCst), 0);
    });
}

/// The answer to the first call comes after a whole lease, so its slot is given up. Another call of the same client stands behind it, and
/// learns of that from the table alone.
#[test]
fn a_successor_of_the_same_client_has_no_lock_by_what_no_answer_has_shown() {
    in_lab(async |lab, []| {
        let host =
            lab.host_with(|builder| builder.testing(|it| it.outage_timeout = Some(120 * SECOND)));
        let (started, asked) = (Instant::now(), AtomicUsize::new(0));
        let gate = Gate::closed();
        let held = gate.clone();
        let _ = host.network.clone().script(move |request| {
            let is_early = started.elapsed() < 30 * SECOND && !request.mentions("its own");
            match (verb(request), is_early) {
                ("enter", true) => match asked.fetch_add(1, Ordering::SeqCst) {
                    0 => Some(Fault::Lose(When::After)),
                    _ => Some(Fault::Lose(When::Before)),
                },
                ("release", _) => Some(Fault::Hold(When::Before, held.clone())),
                _ => None,
            }
        });
        let first = waits(lab, &host).await;
        // Late enough that it can observe the first for longer than its lease lasts.
        lab.wait(9 * SECOND).await;
        let successor = host.lock();
        let successor = successor.attributes([("of", "its own")]);
        let successor =
            tokio::spawn(async move { successor.acquire(RecordWait::Infinite).await.unwrap() });
        lab.wait(26 * SECOND).await;
        assert!(
            !successor.is_finished(),
            "the lock item still shows the first"
        );
        gate.open();
        let guard = successor.await.unwrap();
        assert!(guard.is_held());
        guard.release().await.unwrap();
        first.await.unwrap().release().await.unwrap();
    });
}
