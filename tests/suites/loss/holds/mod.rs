//! A hold from its grant to its end: how long its owner may believe in it, how it is lost, and what its owner learns.

mod fleets;
mod given_up;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use fairlock::embedded::{Fault, Faults, Network, When};
use fairlock::{Error, LockClient, LossReason, RecordWait, Ticket};
use fairlock_testkit::assert_is;
use fairlock_testkit::captured_log::said_in_lab;
use fairlock_testkit::effort::sized;
use fairlock_testkit::lab::{
    EPOCH, Host, Lab, MS, SECOND, acquire, away, cut_all, cut_off, has_turn, in_lab, loss, silent,
    waits,
};
use fairlock_testkit::verbs;
use fairlock_testkit::virtual_time;
use futures::{FutureExt, poll};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Level;

/// The default lease without its margin.
const BELIEVED: Duration = Duration::from_millis(29_400);

#[test]
fn a_holder_whose_table_is_deleted_is_told_so_and_its_log_too() {
    let lines = said_in_lab(Level::WARN, async |lab, [host]| {
        let guard = acquire(&host).await;
        let delete = lab.engine.client().delete_table().table_name("locks");
        delete.send().await.unwrap();
        let lost = guard.lost().await;
        assert!(lost.to_string().contains("ResourceNotFound"), "{lost}");
    });
    let is_told = lines.iter().any(|line| line.contains("ResourceNotFound"));
    assert!(is_told, "{lines:?}");
}

#[test]
fn the_lease_counts_from_before_the_request_and_not_from_the_answer() {
    in_lab(async |lab, [host]| {
        acquire(&host).await.release().await.unwrap();
        host.network.set_faults(away(SECOND));
        let started = Instant::now();
        let guard = acquire(&host).await;
        assert_eq!(guard.remaining(), BELIEVED - started.elapsed());
        for _ in 0..600 {
            lab.wait(100 * MS).await;
            assert!(
                guard.remaining() <= BELIEVED - SECOND,
                "{:?}",
                guard.remaining()
            );
        }
    });
}

#[test]
fn a_cut_off_holder_is_told_at_its_local_deadline_before_anybody_else_has_the_lock() {
    for fault in [
        Fault::Lose(When::Before),
        Fault::Close(When::Before),
        Fault::Hang(When::Before),
        Fault::Hang(When::After),
        Fault::Throttle,
    ] {
        in_lab(async |lab, [a, b]| {
            let guard = acquire(&a).await;
            let waiting = waits(lab, &b).await;
            a.meets("renew hold", usize::MAX, fault);
            let cut = Instant::now();
            let LossReason::Unreachable { cause } = guard.lost().await.reason else {
                panic!("it is out of reach");
            };
            assert!(cause.starts_with("`renew` "), "{cause}");
            assert!(cut.elapsed() <= BELIEVED, "{:?}", cut.elapsed());
            assert!(!guard.is_held() && guard.remaining().is_zero());
            assert!(
                !waiting.is_finished(),
                "two believe that they hold the lock"
            );
            let next = waiting.await.unwrap();
            assert!(next.ticket() > guard.ticket());
            let released = loss(guard.release().await);
            assert!(matches!(released, LossReason::Unreachable { .. }));
            assert!(next.is_held(), "the late release released the next holder");
        });
    }
}

#[test]
fn an_evicted_holder_learns_by_whom() {
    in_lab(async |lab, []| {
        let (a, b) = (
            lab.host_with(|builder| builder.clock(slow(&lab_clock()))),
            lab.host(),
        );
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        a.meets("renew hold", usize::MAX, Fault::Throttle);
        let next = waiting.await.unwrap();
        a.meets("renew hold", 0, Fault::Throttle);
        let loss = guard.lost().await.reason;
        let told = loss.to_string();
        let LossReason::Evicted { by: Some(by) } = loss else {
            panic!("{told}");
        };
        assert_eq!((by.ticket, by.is_this_process), (next.ticket(), true));
        for word in [by.owner.as_str(), &by.ticket.to_string()] {
            assert!(told.contains(word), "{told}");
        }
    });
}

/// A clock that takes twice as long for a lease, which the margin does not cover.
fn slow(clock: &fairlock::Clock) -> fairlock::Clock {
    clock.clone().at_rate(0.5)
}

fn lab_clock() -> fairlock::Clock {
    fairlock::Clock::of_tokio(EPOCH)
}

/// While a client is quiet, it advances the last time that it learned by its own clock, and errs on the late side.
#[test]
fn tickets_grow_over_an_item_that_was_made_after_a_silence_and_deleted_at_once() {
    virtual_time(async {
        for quiet in [0, 60, 120, 290, 1_000] {
            let lab = Lab::new().await;
            let (a, b) = (lab.host(), lab.host());
            let other = a.locks.fair_lock("another").unwrap();
            for _ in 0..3 {
                other.try_acquire().await.unwrap();
            }
            lab.wait(quiet * SECOND).await;
            let first = acquire(&a).await.ticket();
            lab.wait(SECOND).await;
            lab.delete_lock_item("a").await;
            let next = acquire(&b).await.ticket();
            assert!(first < next, "{quiet} s: {first}, {next}");
        }
    });
}

#[test]
fn a_hung_renewal_of_one_lock_lets_no_other_lapse() {
    in_lab(async |lab, [host]| {
        host.script(|request| {
            let hangs = verbs::verb(request) == "renew hold" && request.key("pk") == Some("b");
            hangs.then_some(Fault::Hang(When::Before))
        });
        let mut guards = Vec::new();
        for name in ["b", "a", "c"] {
            let lock = host.locks.fair_lock(name).unwrap();
            guards.push(lock.acquire(RecordWait::NoWait).await.unwrap());
        }
        lab.wait(100 * SECOND).await;
        assert_eq!(
            [0, 1, 2].map(|n: usize| guards[n].is_held()),
            [false, true, true]
        );
    });
}

#[test]
fn lost_is_told_to_every_future_of_the_hold_and_never_after_a_release() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let released = guard.lost();
        guard.release().await.unwrap();
        let told =
            tokio::select! { biased; _ = released => true, () = lab.wait(100 * SECOND) => false };
        assert!(!told);
        let guard = acquire(&host).await;
        let (first, second) = (guard.lost(), guard.lost());
        host.network.set_faults(cut_off());
        assert_eq!(
            (first.await, second.await),
            (guard.lost().await, guard.lost().await)
        );
        let lost = guard.lost().await;
        assert_eq!((lost.lock.as_str(), lost.ticket), ("a", guard.ticket()));
        assert_is!(lost.reason, LossReason::Unreachable { .. });
    });
}

#[test]
fn renewals_and_a_release_that_are_refused_are_tried_until_the_policy_is_mended() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let denied = Fault::Refuse("AccessDeniedException");
        let met = host.meets("renew hold", 4, denied.clone());
        lab.wait(100 * SECOND).await;
        assert_eq!(met.load(Ordering::SeqCst), 4);
        assert!(guard.is_held());
        host.meets("release", 3, denied);
        guard.release().await.unwrap();
        assert!(lab.host().try_acquire().await.is_some());
    });
}

#[test]
fn a_long_lease_stays_dated_and_its_dead_holder_can_be_taken_by_one_who_does_not_wait() {
    in_lab(async |lab, []| {
        let long = |lab: &Lab| lab.host_with(|builder| builder.lease_duration(1_200 * SECOND));
        let (a, b) = (long(lab), long(lab));
        let _guard = acquire(&a).await;
        lab.wait(3_000 * SECOND).await;
        a.network.set_faults(cut_off());
        lab.wait(1_300 * SECOND).await;
        let taken = b.try_acquire().await;
        assert!(taken.is_some());
    });
}

/// Its first read shows by DynamoDB's clock how long the lease has been over.
#[test]
fn a_newcomer_that_waits_passes_holders_that_expired_long_ago_at_once() {
    in_lab(async |lab, hosts: [Host; 4]| {
        let _holder = acquire(&hosts[0]).await;
        let _next = waits(lab, &hosts[1]).await;
        let _last = waits(lab, &hosts[2]).await;
        lab.wait(30 * SECOND).await;
        cut_all(&hosts[..3]);
        lab.wait(600 * SECOND).await;
        let begun = Instant::now();
        let guard = acquire(&hosts[3]).await;
        // Three places are removed, one after the other, and no lease is waited out.
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
        guard.release().await.unwrap();
    });
}

#[test]
fn the_callers_own_time_outs_and_retries_do_not_count() {
    in_lab(async |lab, []| {
        let slow = away(300 * MS);
        let network = Network::to(&lab.engine).faults(slow);
        let hurried = TimeoutConfig::builder()
            .operation_timeout(MS)
            .read_timeout(MS);
        let config = network
            .client()
            .config()
            .to_builder()
            .timeout_config(hurried.build());
        let client = aws_sdk_dynamodb::Client::from_conf(config.build());
        let locks = LockClient::builder(client)
            .table("locks")
            .clock(lab.clock.clone())
            .build();
        let lock = locks.unwrap().fair_lock("a").unwrap();
        has_turn(lock.acquire(RecordWait::NoWait)).await;
        // The first enter of a client never creates a lock.
        assert_eq!(network.counts().requests(), 3);
    });
}

#[test]
fn a_release_is_tried_until_the_lease_ends() {
    in_lab(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        a.network.set_faults(cut_off());
        let started = Instant::now();
        let mended = async {
            lab.wait(10 * SECOND).await;
            a.network.set_faults(Faults::default());
        };
        let (released, ()) = tokio::join!(guard.release(), mended);
        released.unwrap();
        assert!(started.elapsed() < 14 * SECOND);
        let guard = acquire(&b).await;
        b.network.set_faults(cut_off());
        let started = Instant::now();
        assert!(matches!(
            guard.release().await,
            Err(Error::Unavailable { .. })
        ));
        assert!(
            started.elapsed() < BELIEVED + 5 * SECOND,
            "{:?}",
            started.elapsed()
        );
    });
}

#[test]
fn a_grant_whose_lease_is_already_over_is_given_up_and_never_returned() {
    in_lab(async |lab, [a, b, c]| {
        let guard = acquire(&a).await;
        let first = guard.ticket().get();
        let successor = waits(lab, &b).await;
        // The successor cannot renew, and learns of its promotion only after its lease has ended.
        let blocked = |host: &Host| host.network.set_faults(silent());
        blocked(&b);
        lab.wait(25 * SECOND).await;
        guard.release().await.unwrap();
        lab.wait(5 * SECOND).await;
        b.network.set_faults(Faults::default());
        let guard = successor.await.unwrap();
        assert!(
            guard.ticket().get() > first + 1,
            "the successor's own ticket was given up"
        );
        assert!(
            guard.is_held() && guard.remaining() > 15 * SECOND,
            "{:?}",
            guard.remaining()
        );
        guard.release().await.unwrap();
        acquire(&c).await.release().await.unwrap();
    });
}

#[test]
fn a_successor_promoted_with_little_left_renews_before_its_guard_is_returned() {
    in_lab(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let successor = waits(lab, &b).await;
        b.network.set_faults(cut_off());
        lab.wait(20 * SECOND).await;
        guard.release().await.unwrap();
        b.network.set_faults(Faults::default());
        let guard = successor.await.unwrap();
        assert!(guard.remaining() > 15 * SECOND, "{:?}", guard.remaining());
        guard.release().await.unwrap();
    });
}

/// Far back, the waiter's row has a lease of minutes. The queue before it leaves at once, and another client gives it a slot. So it
/// requests the plain lease there, and holds the lock when that request arrives. Not getting that lease takes nothing from it: it holds the
/// lock for as long as its entry says.
#[test]
fn a_waiter_from_far_back_that_is_promoted_while_it_asks_for_a_shorter_lease_keeps_the_lock() {
    in_lab(async |lab, []| {
        let host = |number: u32| {
            // Only the last two poll as they do by default in a brief run. The polls before them are not what this test is about.
            let (shortest, longest) = match number {
                28.. => (2 * MS, SECOND),
                _ => sized((10 * SECOND, 10 * SECOND), (2 * MS, SECOND)),
            };
            lab.host_with(|builder| {
                builder
                    .successor_slots(2)
                    .testing(|it| it.poll_interval = Some((shortest, longest)))
            })
        };
        let hosts: Vec<_> = (0..30).map(host).collect();
        let (first, [others @ .., far, newcomer]) = hosts.split_first().unwrap() else {
            panic!("thirty");
        };
        let mut guard = acquire(first).await;
        let mut queue = VecDeque::new();
        for host in others {
            queue.push_back(waits(lab, host).await);
        }
        let far_back = waits(lab, far).await;
        for _ in 0..9 {
            lab.wait(60 * SECOND).await;
            guard.release().await.unwrap();
            guard = queue.pop_front().unwrap().await.unwrap();
        }
        let renewed = far.meets("renew row", usize::MAX, Fault::Delay(When::Before, MS));
        while renewed.load(Ordering::SeqCst) == 0 {
            lab.wait(SECOND).await;
        }
        lab.wait(25 * SECOND).await;
        queue.iter().for_each(JoinHandle::abort);
        lab.settle().await;
        let behind = waits(lab, newcomer).await;
        let asks = far.meets("renew slot", 1, Fault::Delay(When::Before, SECOND));
        while asks.load(Ordering::SeqCst) == 0 {
            lab.wait(100 * MS).await;
        }
        behind.abort();
        let ticket = guard.ticket().get();
        guard.release().await.unwrap();
        // This is its own ticket: it did not ask again.
        assert_eq!(far_back.await.unwrap().ticket().get(), ticket + 19);
    });
}

#[test]
fn a_hold_that_ended_before_its_caller_came_for_it_is_asked_for_again_while_there_is_time() {
    let lease = 10 * SECOND;
    for (wait, is_in_time) in [
        // Its attempts end before a lease does.
        (RecordWait::NoWait, false),
        (RecordWait::Timeout(lease / 2), false),
        (RecordWait::Timeout(2 * lease), true),
        (RecordWait::Infinite, true),
    ] {
        in_lab(async |lab, []| {
            let host = lab.host_with(|builder| builder.lease_duration(lease));
            let lock = host.locks.fair_lock("job").unwrap();
            let mut acquiring = pin!(lock.acquire(wait));
            assert!(poll!(&mut acquiring).is_pending());
            lab.settle().await;
            assert!(!lab.is_free("job").await);
            // The process stands still, and its caller runs first afterwards.
            let _ = tokio::time::advance(lease).now_or_never();
            match acquiring.await {
                Ok(guard) => {
                    assert!(is_in_time && guard.is_held(), "{wait:?}");
                    assert!(guard.ticket() > Ticket::new(1), "{wait:?}");
                    guard.release().await.unwrap();
                }
                Err(Error::NotGranted { untaken, .. }) => {
                    assert!(!is_in_time && !untaken, "{wait:?}");
                }
                Err(other) => panic!("{wait:?}: {other}"),
            }
            lab.wait(SECOND).await;
            assert!(lab.is_free("job").await, "{wait:?}");
        });
    }
}
