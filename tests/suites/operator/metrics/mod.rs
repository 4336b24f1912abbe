//! What is counted of calls, holds, takeovers and requests; that the page, the dashboard and the alerts name what is counted.

mod page;
mod scrape;

use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{Error, HeldLocks, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::datagram_network::Post;
use fairlock_testkit::lab::{Host, SECOND, acquire, cut_off, waits};
use futures::future::join_all;
use scrape::scrape;

async fn not_granted(host: &Host, wait: RecordWait) {
    let refused = host.lock().acquire(wait).await.unwrap_err();
    assert_is!(refused, Error::NotGranted { .. });
}

#[test]
fn a_contended_turn_is_counted_once_by_each_process_that_has_a_part_in_it() {
    let scrape = scrape(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        lab.wait(9 * SECOND).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        lab.settle().await;
    });
    scrape.assert(
        "fairlock_wait_seconds_count",
        "outcome",
        &[("granted", 2.0)],
    );
    scrape.assert(
        "fairlock_hold_seconds_count",
        "outcome",
        &[("released", 2.0)],
    );
    let releases = [("handed_off", 1.0), ("idle", 1.0)];
    scrape.assert("fairlock_releases_total", "outcome", &releases);
    // The second has waited, and the first has held, for the second of `waits` and nine more.
    for sum in ["fairlock_wait_seconds_sum", "fairlock_hold_seconds_sum"] {
        let seconds = scrape.sum(sum, &[]);
        assert!((10.0..12.0).contains(&seconds), "{sum}: {seconds}");
    }
    assert_eq!(scrape.sum("fairlock_queue_length_count", &[]), 1.0);
    assert_eq!(scrape.sum("fairlock_queue_length_sum", &[]), 1.0);
    for now in ["fairlock_waiting_calls", "fairlock_holds"] {
        assert!(scrape.types[now] == "gauge", "{now}");
        assert_eq!(scrape.sum(now, &[]), 0.0, "{now}");
    }
    scrape.assert("fairlock_losses_total", "reason", &[]);
    scrape.assert("fairlock_evictions_total", "place", &[]);
    scrape.assert("fairlock_retries_total", "step", &[]);
}

#[test]
fn a_call_is_counted_by_how_it_ended_also_if_it_is_dropped_and_no_call_waits_afterwards() {
    let scrape = scrape(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        lab.wait(2 * SECOND).await;
        not_granted(&b, RecordWait::NoWait).await;
        not_granted(&b, RecordWait::Timeout(3 * SECOND)).await;
        let lock = b.lock();
        let waiting = lock.acquire(RecordWait::Infinite);
        lab.drops(SECOND, waiting).await;
        let queue = lock.clone().max_waiters(1);
        let waiting = waits(lab, &b).await;
        let full = queue.acquire(RecordWait::Infinite).await.unwrap_err();
        assert_is!(full, Error::QueueFull { .. });
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        b.network.set_faults(cut_off());
        lock.acquire(RecordWait::Timeout(SECOND)).await.unwrap_err();
        b.locks.shutdown(HeldLocks::Release, SECOND).await;
        lock.acquire(RecordWait::Infinite).await.unwrap_err();
        // Checked before the call waits.
        lock.acquire(RecordWait::Timeout(Duration::ZERO))
            .await
            .unwrap_err();
    });
    let outcomes = [
        ("granted", 2.0),
        ("busy", 1.0),
        ("timed_out", 1.0),
        ("dropped", 1.0),
        ("queue_full", 1.0),
        ("unavailable", 1.0),
        ("shut_down", 1.0),
    ];
    scrape.assert("fairlock_wait_seconds_count", "outcome", &outcomes);
    assert_eq!(scrape.sum("fairlock_waiting_calls", &[]), 0.0);
}

#[test]
fn callers_of_one_client_hand_off_without_a_request_and_each_has_a_wait_and_a_hold() {
    let scrape = scrape(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        // The first of `b` sets out alone. The others gather behind it, in a batch.
        let call = async || acquire(&b).await.release().await.unwrap();
        let calls = join_all((0..4).map(|_| call()));
        let release = async {
            lab.settle().await;
            guard.release().await.unwrap();
        };
        tokio::join!(calls, release);
        lab.settle().await;
    });
    scrape.assert(
        "fairlock_wait_seconds_count",
        "outcome",
        &[("granted", 5.0)],
    );
    scrape.assert(
        "fairlock_hold_seconds_count",
        "outcome",
        &[("released", 5.0)],
    );
    let releases = [("handed_off", 2.0), ("passed_on", 2.0), ("idle", 1.0)];
    scrape.assert("fairlock_releases_total", "outcome", &releases);
    assert_eq!(scrape.sum("fairlock_holds", &[]), 0.0);
}

#[test]
fn a_lost_hold_is_counted_by_its_reason_and_the_takeover_by_the_client_that_took_over() {
    let scrape = scrape(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        a.network.set_faults(cut_off());
        guard.lost().await;
        let next = waiting.await.unwrap();
        a.network.set_faults(Faults::default());
        // The loss is known, so its release finds nothing.
        guard.release().await.unwrap_err();
        lab.delete_lock_item("a").await;
        next.lost().await;
        drop(next);
        let last = acquire(&b).await;
        b.locks.shutdown(HeldLocks::Release, SECOND).await;
        drop(last);
        lab.settle().await;
    });
    let reasons = [("unreachable", 1.0), ("deleted", 1.0), ("shut_down", 1.0)];
    scrape.assert("fairlock_losses_total", "reason", &reasons);
    scrape.assert("fairlock_evictions_total", "place", &[("holder", 1.0)]);
    scrape.assert("fairlock_hold_seconds_count", "outcome", &[("lost", 3.0)]);
    assert_eq!(scrape.sum("fairlock_holds", &[]), 0.0);
}

#[test]
fn a_counter_that_alerts_stand_on_is_zero_before_anything_happens() {
    let scrape = scrape(async |lab, []| {
        acquire(&lab.host()).await.release().await.unwrap();
    });
    let zeros = |name: &str| {
        let samples = scrape.samples.iter().filter(|it| it.name == name);
        samples.count()
    };
    assert_eq!(zeros("fairlock_losses_total"), 8);
    assert_eq!(zeros("fairlock_evictions_total"), 4);
    for outcome in ["throttled", "unanswered", "refused"] {
        let is_there = scrape
            .samples
            .iter()
            .any(|it| it.name == "fairlock_requests_total" && it.labels["outcome"] == outcome);
        assert!(is_there, "{outcome}");
        let labels = [("outcome", outcome)];
        assert_eq!(scrape.sum("fairlock_requests_total", &labels), 0.0);
    }
}

#[test]
fn every_request_is_counted_once_with_its_outcome_and_what_dynamodb_charged() {
    let (mut sent, mut reads, mut writes) = (0, 0, 0);
    let scrape = scrape(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        not_granted(&lab.host(), RecordWait::NoWait).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        lab.settle().await;
        for host in [&a, &b] {
            let counts = host.network.counts();
            sent += counts.requests();
            reads += counts.reads();
            writes += counts.writes();
        }
        // The third host.
        sent += 1;
        writes += 1;
    });
    let of = |outcome| scrape.sum("fairlock_requests_total", &[("outcome", outcome)]);
    assert_eq!(scrape.sum("fairlock_requests_total", &[]), sent as f64);
    assert_eq!(of("ok") + of("condition_failed"), sent as f64);
    assert!(of("condition_failed") >= 1.0);
    assert_eq!(
        scrape.sum("fairlock_request_seconds_count", &[]),
        sent as f64
    );
    // Items are small here: each answered read is a unit, and each write that applied.
    let units = |kind| scrape.sum("fairlock_capacity_units_total", &[("kind", kind)]);
    assert_eq!(units("read"), reads as f64);
    assert_eq!(units("write"), writes as f64 - of("condition_failed"));
    let entered = [("step", "enter"), ("outcome", "ok")];
    assert_eq!(scrape.sum("fairlock_requests_total", &entered), 2.0);
}

#[test]
fn throttling_outages_and_refusals_have_outcomes_of_their_own_and_what_is_sent_again_is_a_retry() {
    for (fault, outcome, retries) in [
        (Fault::Throttle, "throttled", 1.0),
        (Fault::Lose(When::After), "unanswered", 1.0),
        (Fault::Hang(When::Before), "unanswered", 1.0),
        (Fault::Refuse("AccessDeniedException"), "refused", 0.0),
        (
            Fault::Refuse("TransactionConflictException"),
            "conflict",
            1.0,
        ),
    ] {
        let scrape = scrape(async |lab, [host]| {
            let guard = acquire(&host).await;
            let _ = host.meets("renew hold", 1, fault.clone());
            lab.wait(25 * SECOND).await;
            guard.release().await.unwrap();
        });
        let labels = [("step", "renew"), ("outcome", outcome)];
        assert_eq!(
            scrape.sum("fairlock_requests_total", &labels),
            1.0,
            "{fault:?}"
        );
        let retried = scrape.sum("fairlock_retries_total", &[("step", "renew")]);
        assert_eq!(retried, retries, "{fault:?}");
        // The renewal that was sent again, or later, is late. At least one more is in time.
        let renewals = scrape.sum("fairlock_heartbeat_lag_seconds_count", &[]);
        let lag = scrape.sum("fairlock_heartbeat_lag_seconds_sum", &[]);
        assert!(
            renewals >= 2.0 && lag > 0.0,
            "{fault:?}: {lag} of {renewals}"
        );
    }
}

#[test]
fn a_request_whose_answer_is_not_waited_for_is_counted_as_dropped() {
    let scrape = scrape(async |lab, [host]| {
        let guard = acquire(&host).await;
        let _ = host.meets("renew hold", 1, Fault::Hang(When::Before));
        // The renewal is on its way.
        lab.wait(11 * SECOND).await;
        guard.release().await.unwrap();
    });
    let labels = [("step", "renew"), ("outcome", "dropped")];
    assert_eq!(scrape.sum("fairlock_requests_total", &labels), 1.0);
}

#[test]
fn a_client_that_only_sweeps_has_takeovers_from_zero_on() {
    let scrape = scrape(async |lab, []| {
        lab.host();
    });
    let of_takeovers = scrape.samples.iter();
    let of_takeovers = of_takeovers.filter(|it| it.name == "fairlock_evictions_total");
    assert_eq!(of_takeovers.count(), 4);
}

#[test]
fn notifications_are_counted_as_the_client_counts_them() {
    let mut counts = [0; 3];
    let scrape = scrape(async |lab, []| {
        let post = Post::seeded(1);
        let host = || lab.host_with(|builder| builder.notifier(post.notifier()));
        let (a, b) = (host(), host());
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        post.storm(3);
        lab.settle().await;
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        lab.settle().await;
        for host in [&a, &b] {
            let told = host.locks.notification_counts().unwrap();
            (0..3).for_each(|event| counts[event] += told[event]);
        }
    });
    assert!(counts[0] > 0, "nothing was sent");
    for (event, count) in ["sent", "received", "dropped"].into_iter().zip(counts) {
        let labels = [("event", event)];
        let counted = scrape.sum("fairlock_notifications_total", &labels);
        assert_eq!(counted, count as f64, "{event}");
    }
}

#[test]
fn a_lock_is_a_label_only_if_the_client_is_told_how_to_name_it_and_a_panic_there_ends_nothing() {
    type Labels = fn(&str) -> String;
    let labelled = |label: Option<Labels>| {
        scrape(async |lab, []| {
            let host = lab.host_with(|builder| match label {
                Some(label) => builder.lock_label(label),
                None => builder,
            });
            for lock in ["account/7", "account/42"] {
                let lock = host.locks.fair_lock(lock).unwrap();
                let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
                guard.release().await.unwrap();
            }
        })
    };
    let first = |lock: &str| lock.split('/').next().unwrap().to_owned();
    let name = "fairlock_hold_seconds_count";
    labelled(None).assert(name, "lock", &[("", 2.0)]);
    labelled(Some(first)).assert(name, "lock", &[("account", 2.0)]);
    let names = [("account/7", 1.0), ("account/42", 1.0)];
    labelled(Some(str::to_owned)).assert(name, "lock", &names);
    labelled(Some(|_| unreachable!("planted"))).assert(name, "lock", &[("", 2.0)]);
}
