//! What a caller of a fair lock sees: turns, waits, refusals, and what is left behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, Latency, When};
use fairlock::{Error, RecordWait};

use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{Host, Lab, MS, SECOND, acquire, cut_off, in_lab, in_slots, waits};
use fairlock_testkit::virtual_time;
use futures::future::join_all;

#[test]
fn no_wait_on_a_held_lock_is_one_request_and_leaves_nothing() {
    in_lab(async |lab, [holder, other]| {
        let guard = holder.lock().acquire(RecordWait::NoWait).await.unwrap();
        // By then, the holder's entry says when it was renewed.
        lab.wait(2 * SECOND).await;
        let refused = other.lock().acquire(RecordWait::NoWait).await.unwrap_err();
        assert_eq!(other.network.counts().requests(), 1);
        let Error::NotGranted {
            lock,
            holder: Some(who),
            position: None,
            ..
        } = &refused
        else {
            panic!("{refused}")
        };
        assert_eq!(
            (lock.as_str(), who.owner.as_str(), who.ticket),
            ("a", "host-0", guard.ticket())
        );
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        assert!(other.try_acquire().await.is_none());
        guard.release().await.unwrap();
        assert!(other.try_acquire().await.is_some());
    });
}

#[test]
fn no_wait_on_a_lock_whose_holder_has_no_date_yet_is_two_requests_once() {
    in_lab(async |lab, [maker, holder, first, second]| {
        acquire(&maker).await.release().await.unwrap();
        let guard = acquire(&holder).await;
        for (host, requests) in [(&first, 2), (&first, 3), (&second, 1)] {
            assert!(host.try_acquire().await.is_none());
            assert_eq!(host.network.counts().requests(), requests);
        }
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        guard.release().await.unwrap();
    });
}

/// With turns of 50 ms, over a network that takes no time.
async fn writes_a_turn(lab: Lab, workers: usize) -> f64 {
    writes_with(lab, workers, 10, 50 * MS, Latency::default()).await
}

/// Workers take their turns. No two overlap, tickets are granted in order, and one item is left. Returns the writes per turn, including
/// refused ones, deletions and heartbeats.
async fn writes_with(
    lab: Lab,
    workers: usize,
    turns: usize,
    hold: Duration,
    round_trip: Latency,
) -> f64 {
    let (lab, inside) = (Arc::new(lab), Arc::new(AtomicUsize::new(0)));
    let granted = Arc::new(Mutex::new(Vec::new()));
    let hosts: Vec<_> = (0..workers).map(|_| lab.host()).collect();
    for host in &hosts {
        host.network.set_faults(Faults {
            round_trip,
            ..Faults::default()
        });
    }
    let work = hosts.iter().map(|host| {
        let (lab, inside, granted) = (lab.clone(), inside.clone(), granted.clone());
        let lock = host.lock();
        async move {
            for _ in 0..turns {
                let guard = lock.acquire(RecordWait::default()).await.unwrap();
                assert_eq!(
                    inside.fetch_add(1, Ordering::SeqCst),
                    0,
                    "two inside at once"
                );
                granted.lock().unwrap().push(guard.ticket());
                lab.wait(hold).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }
    });
    join_all(work).await;
    let granted = granted.lock().unwrap().clone();
    assert_eq!(granted.len(), turns * workers);
    assert!(granted.is_sorted_by(|a, b| a < b), "{granted:?}");
    lab.settle().await;
    assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    let writes: u64 = hosts
        .iter()
        .map(|host| host.network.counts().writes())
        .sum();
    writes as f64 / granted.len() as f64
}

#[test]
fn eight_workers_have_the_lock_in_ticket_order_for_six_writes_a_turn_at_most() {
    virtual_time(async {
        let writes = writes_a_turn(Lab::new().await, 8).await;
        assert!(writes <= 6.0, "{writes} writes a turn");
    });
}

/// Two processes ask again at once, over some network. No order of their requests makes them wait in the queue for each other again and
/// again.
#[test]
fn two_workers_need_three_writes_a_turn_at_most_however_short_the_hold_and_long_the_way() {
    let holds = [0, 5, 20, 50].into_iter();
    let cells = holds.flat_map(|hold| [1, 3, 10, 20, 50].map(|way| (hold * MS, way)));
    // Every hold and every way is in the sample.
    for (hold, way) in sampled(cells, 3) {
        virtual_time(async {
            let (median, p99) = (way * MS, way * 2 * MS);
            let round_trip = Latency::HeavyTailed { median, p99 };
            let writes = writes_with(Lab::new().await, 2, 50, hold, round_trip).await;
            assert!(writes <= 3.0, "{hold:?}, {way} ms: {writes} writes a turn");
        });
    }
}

#[test]
fn a_handoff_inside_a_process_wakes_the_next_at_once() {
    in_lab(async |lab, [host]| {
        for hold in [1, 20, 300] {
            let guard = acquire(&host).await;
            let lock = host.lock();
            let next = tokio::spawn(async move {
                let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
                (tokio::time::Instant::now(), guard)
            });
            lab.wait(hold * SECOND + 7 * MS).await;
            guard.release().await.unwrap();
            let released = tokio::time::Instant::now();
            let (granted, guard) = next.await.unwrap();
            assert!(
                granted - released <= 2 * MS,
                "after {hold} s: {:?}",
                granted - released
            );
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn a_waiter_whose_beat_is_late_is_waited_for() {
    in_slots(1, async |lab, hosts: [Host; 4]| {
        let guard = acquire(&hosts[0]).await;
        let successor = waits(lab, &hosts[1]).await;
        let late = waits(lab, &hosts[2]).await;
        let behind = waits(lab, &hosts[3]).await;
        lab.wait(11 * SECOND).await;
        hosts[2].network.set_faults(cut_off());
        lab.wait(19 * SECOND).await;
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        lab.wait(2 * SECOND).await;
        hosts[2].network.set_faults(Faults::default());
        let first = late.await.unwrap();
        let ticket = first.ticket();
        first.release().await.unwrap();
        assert!(behind.await.unwrap().ticket() > ticket);
    });
}

#[test]
fn polls_keep_their_bounds() {
    in_lab(async |lab, []| {
        let (host, successor) = (
            lab.host(),
            lab.host_with(|builder| {
                builder.testing(|it| it.poll_interval = Some((100 * MS, SECOND)))
            }),
        );
        let _guard = acquire(&host).await;
        let sent = Arc::new(Mutex::new(Vec::new()));
        let at = Arc::clone(&sent);
        successor.script(move |_| {
            at.lock().unwrap().push(tokio::time::Instant::now());
            None
        });
        let _waiting = waits(lab, &successor).await;
        lab.wait(200 * SECOND).await;
        let sent = sent.lock().unwrap();
        let longest = sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest <= SECOND + MS, "{longest:?}");
    });
}

#[test]
fn who_released_into_a_queue_skips_the_enter_that_must_fail() {
    in_lab(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        let entered = a.meets(
            "enter",
            usize::MAX,
            Fault::Delay(When::Before, Duration::ZERO),
        );
        guard.release().await.unwrap();
        let again = waits(lab, &a).await;
        waiting.await.unwrap().release().await.unwrap();
        again.await.unwrap().release().await.unwrap();
        assert_eq!(entered.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn the_error_of_a_caller_in_another_task_of_the_holders_process_blames_neither_of_them() {
    in_lab(async |_, [host, other]| {
        let lock = host.lock();
        let _guard = lock.acquire(RecordWait::default()).await.unwrap();
        let told = |error: Error| error.to_string();
        let refused = lock.acquire(RecordWait::NoWait).await.map_err(told);
        let refused = refused.unwrap_err();
        assert!(
            refused.contains("in another task or in this one"),
            "{refused}"
        );
        // Several callers hold shares or permits at once: a caller never waits for itself, but for more permits.
        let semaphore = |host: &Host| host.locks.semaphore("s", 2).unwrap();
        let _permit = semaphore(&host).acquire_many(2, RecordWait::NoWait).await;
        let some = other.locks.semaphore("t", 2).unwrap();
        let _other = some.acquire(RecordWait::NoWait).await.unwrap();
        let shared = host.locks.fair_lock("r").unwrap();
        let _reader = shared.acquire_shared(RecordWait::NoWait).await.unwrap();
        for (error, is_shared) in [
            (
                semaphore(&host)
                    .acquire(RecordWait::NoWait)
                    .await
                    .unwrap_err(),
                false,
            ),
            (
                some.acquire_many(2, RecordWait::NoWait).await.unwrap_err(),
                true,
            ),
            (shared.acquire(RecordWait::NoWait).await.unwrap_err(), true),
        ] {
            let Error::NotGranted {
                holder: Some(holder),
                ..
            } = &error
            else {
                panic!("{error}")
            };
            assert_eq!(holder.is_shared, is_shared, "{error}");
            let told = error.to_string();
            assert_eq!(
                told.contains("too few of its permits are free"),
                is_shared,
                "{told}"
            );
            assert_eq!(told.contains("re-entrant"), !is_shared, "{told}");
        }
    });
}

#[test]
fn a_dead_holder_is_taken_over_after_one_lease_by_one_who_waits() {
    in_lab(async |_, [a, b]| {
        let guard = acquire(&a).await;
        a.network.set_faults(cut_off());
        let started = tokio::time::Instant::now();
        let next = acquire(&b).await;
        assert!(started.elapsed() < 35 * SECOND, "{:?}", started.elapsed());
        assert!(next.ticket() > guard.ticket());
        assert!(!guard.is_held());
        assert!(guard.release().await.is_err());
    });
}

#[test]
fn a_dead_holder_is_taken_over_by_one_who_does_not_wait() {
    in_lab(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        // Long enough for the first renewal, which tells the time.
        lab.wait(2 * SECOND).await;
        a.network.set_faults(cut_off());
        lab.wait(33 * SECOND).await;
        let lock = b.lock();
        assert!(
            lock.try_acquire().await.unwrap().is_none(),
            "within the allowance"
        );
        lab.wait(4 * SECOND).await;
        let next = lock.try_acquire().await.unwrap().unwrap();
        assert!(next.ticket() > guard.ticket());
    });
}
