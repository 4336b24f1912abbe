//! Listeners are notified of what happens to a hold, and of danger by the clock alone. No listener misses the end.

use std::pin::pin;
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{HoldEvent, LossReason};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{MS, SECOND, acquire, cut_off, in_lab};
use futures::{FutureExt, Stream, StreamExt};
use tokio::time::Instant;

/// The default lease without its margin and without its last third.
const WELL: Duration = Duration::from_millis(19_400);

/// The name of an event, without its details.
fn name(event: HoldEvent) -> &'static str {
    match event {
        HoldEvent::Granted => "granted",
        HoldEvent::InDanger { .. } => "in danger",
        HoldEvent::Recovered => "recovered",
        HoldEvent::Lost(_) => "lost",
        HoldEvent::Released => "released",
        _ => "unknown",
    }
}

async fn names(events: impl Stream<Item = HoldEvent>) -> Vec<&'static str> {
    events.map(name).collect().await
}

/// What is reported without waiting.
fn now(events: &mut (impl Stream<Item = HoldEvent> + Unpin)) -> Option<Option<HoldEvent>> {
    events.next().now_or_never()
}

#[test]
fn a_hold_is_granted_and_released_or_dropped_and_nothing_comes_after_that() {
    for drops in [true, false] {
        in_lab(async |lab, [host]| {
            let guard = acquire(&host).await;
            let mut events = pin!(guard.events());
            assert_eq!(now(&mut events), Some(Some(HoldEvent::Granted)));
            lab.wait(300 * SECOND).await;
            assert_eq!(now(&mut events), None);
            match drops {
                true => drop(guard),
                false => guard.release().await.unwrap(),
            }
            assert_eq!(now(&mut events), Some(Some(HoldEvent::Released)));
            assert_eq!(
                [now(&mut events), now(&mut events)],
                [Some(None), Some(None)]
            );
        });
    }
}

#[test]
fn danger_is_told_when_a_third_of_the_lease_is_left_though_no_renewal_is_answered_then() {
    for fault in [
        Fault::Lose(When::Before),
        Fault::Close(When::Before),
        Fault::Hang(When::Before),
        Fault::Hang(When::After),
    ] {
        in_lab(async |lab, []| {
            // Renewals are sent at 10 s, and once more after a time-out that ends when danger has long begun.
            let host = lab.host_with(|builder| builder.request_timeout(9_500 * MS));
            // The lock exists already, so the first request takes it.
            acquire(&lab.host()).await.release().await.unwrap();
            let guard = acquire(&host).await;
            let mut events = pin!(guard.events());
            assert_eq!(events.next().await, Some(HoldEvent::Granted));
            // The first renewal adds the date.
            lab.wait(2 * SECOND).await;
            let renewed = Instant::now() - SECOND;
            let first = Fault::Throttle;
            host.meets("renew hold", 1, first);
            lab.wait(9_010 * MS).await;
            host.meets("renew hold", usize::MAX, fault);
            let Some(HoldEvent::InDanger { remaining }) = events.next().await else {
                panic!("it is not in danger")
            };
            let elapsed = renewed.elapsed();
            assert!(elapsed >= WELL && elapsed < WELL + 10 * MS, "{elapsed:?}");
            assert!(
                remaining <= 10 * SECOND && remaining > 9_990 * MS,
                "{remaining:?}"
            );
            assert!(guard.in_danger() && guard.is_held());
        });
    }
}

#[test]
fn a_hold_that_was_in_danger_recovers_or_is_lost_and_each_is_told_once() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let events = guard.events();
        for _ in 0..3 {
            lab.wait(12 * SECOND).await;
            host.network.set_faults(cut_off());
            lab.wait(22 * SECOND).await;
            assert!(guard.in_danger());
            host.network.set_faults(Faults::default());
            lab.wait(3 * SECOND).await;
            assert!(!guard.in_danger());
        }
        let listener = guard.events();
        let told = async {
            let mut told = Vec::new();
            let mut events = pin!(events);
            while let Some(event) = events.next().await {
                told.push(name(event));
            }
            told
        };
        host.network.set_faults(cut_off());
        let (told, other) = tokio::join!(told, names(listener));
        // The first listener was not polled during the first three dangers.
        assert_eq!(told, ["granted", "in danger", "lost"]);
        assert_eq!(told, other);
    });
}

#[test]
fn every_change_is_told_to_everybody_who_listens_all_along() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let listeners = [guard.events(), guard.events(), guard.events()].map(names);
        let story = async {
            for _ in 0..2 {
                host.network.set_faults(cut_off());
                lab.wait(25 * SECOND).await;
                host.network.set_faults(Faults::default());
                lab.wait(12 * SECOND).await;
            }
            guard.release().await.unwrap();
        };
        let (told, ()) = tokio::join!(futures::future::join_all(listeners), story);
        let expected = [
            "granted",
            "in danger",
            "recovered",
            "in danger",
            "recovered",
            "released",
        ];
        assert!(told.iter().all(|told| *told == expected), "{told:?}");
    });
}

#[test]
fn who_begins_late_or_does_not_listen_for_a_while_is_told_how_it_stands_and_never_misses_the_end() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let idle = guard.events();
        host.network.set_faults(cut_off());
        lab.wait(22 * SECOND).await;
        let mut late = pin!(guard.events());
        assert_eq!(now(&mut late), Some(Some(HoldEvent::Granted)));
        let danger = now(&mut late).flatten();
        assert_is!(danger, Some(HoldEvent::InDanger { .. }));
        let reason = guard.lost().await.reason;
        assert_is!(reason, LossReason::Unreachable { .. });
        lab.wait(3_600 * SECOND).await;
        let after = guard.events();
        drop(guard);
        let lost = Some(HoldEvent::Lost(reason));
        assert_eq!(now(&mut late), Some(lost.clone()));
        for events in [idle, after] {
            let events: Vec<_> = events.collect().await;
            assert_eq!(events.first(), Some(&HoldEvent::Granted));
            assert_eq!((events.len(), events.last()), (2, lost.as_ref()));
        }
    });
}

#[test]
fn whoever_stops_waiting_for_the_next_event_gets_it_by_waiting_again() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let mut events = pin!(guard.events());
        let mut told = Vec::new();
        for step in 0..600 {
            match step {
                0 => host.network.set_faults(cut_off()),
                250 => host.network.set_faults(Faults::default()),
                _ => {}
            }
            tokio::select! {
                biased;
                Some(event) = events.next() => told.push(name(event)),
                () = lab.wait(100 * MS) => {}
            }
        }
        assert_eq!(told, ["granted", "in danger", "recovered"]);
        guard.release().await.unwrap();
    });
}
