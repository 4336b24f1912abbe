//! Callers that go away.

use std::collections::BTreeSet;

use fairlock::embedded::{Fault, When};
use fairlock::{Error, RecordWait};
use fastrand::Rng;
use tokio::time::{Instant, sleep};

use super::dinner::bad_weather;
use super::{LEASE, REQUEST, acquire, several};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{Host, Lab, SECOND, away, in_lab};
use fairlock_testkit::virtual_time;

/// Whether none of the locks has a holder or a waiter, and each has one item at most.
async fn is_clean(lab: &Lab, locks: &[&str]) -> bool {
    for lock in locks {
        let items = lab.items(lock).await;
        let has_rows = items.iter().any(|item| item != "fairlock/#lock");
        if has_rows || !lab.is_free(lock).await {
            return false;
        }
    }
    true
}

#[test]
fn whoever_goes_away_at_whatever_moment_leaves_nothing() {
    let mut had = BTreeSet::new();
    for seed in 0..150 {
        had.insert(virtual_time(goes_away(seed)));
    }
    assert_eq!(
        had.len(),
        5,
        "from before the first to after the last: {had:?}"
    );
}

/// Returns how many of four locks the caller held when it went away.
async fn goes_away(seed: u64) -> usize {
    let (lab, mut rng) = (Lab::new().await, Rng::with_seed(seed));
    let mut names = ["a", "b", "c", "d"];
    let (host, other) = (lab.host(), lab.host());
    let held = [acquire(&other, "b").await, acquire(&other, "c").await];
    host.network.set_faults(bad_weather());
    rng.shuffle(&mut names);
    let all = several(&host, &names);
    let mut acquiring = Box::pin(all.acquire(RecordWait::Infinite));
    let turns = async {
        for guard in held {
            sleep(2 * SECOND).await;
            guard.release().await.unwrap();
        }
        std::future::pending().await
    };
    // The caller goes away early more often than late, because the requests follow each other there.
    let span = (6 * SECOND).mul_f64(rng.f64().powi(3));
    let through = tokio::select! {
        biased;
        guard = &mut acquiring => Some(guard.unwrap()),
        () = sleep(span) => None,
        () = turns => None,
    };
    let had = held_by("host-0", &other, &names).await;
    drop((acquiring, through));
    lab.wait(LEASE / 2).await;
    assert!(is_clean(&lab, &names).await, "seed {seed}, after {span:?}");
    had
}

async fn held_by(owner: &str, onlooker: &Host, locks: &[&str]) -> usize {
    let mut held = 0;
    for lock in locks {
        let state = onlooker.locks.fair_lock(lock).unwrap().inspect().await;
        let holder = state.unwrap().holder;
        held += usize::from(holder.is_some_and(|holder| holder.owner == owner));
    }
    held
}

#[test]
fn an_error_is_told_when_nothing_of_the_call_is_held_or_waits_any_more() {
    in_lab(async |lab, [host, other]| {
        let c = acquire(&other, "c").await;
        host.network.set_faults(away(SECOND / 50));
        let all = several(&host, &["a", "b", "c"]);
        for wait in [RecordWait::NoWait, RecordWait::Timeout(SECOND)] {
            let refused = all.acquire(wait).await.unwrap_err();
            // At this very moment, because the process may end right after the error.
            assert_eq!(held_by("host-0", &other, &["a", "b"]).await, 0, "{wait:?}");
            let queue = other.locks.fair_lock("c").unwrap().inspect().await.unwrap();
            assert_eq!(queue.waiting, 0, "{wait:?}");
            assert_is!(refused, Error::NotGranted { lock, .. } if lock == "c");
        }
        c.release().await.unwrap();
        assert!(is_clean(lab, &["a", "b", "c"]).await);
    });
}

#[test]
fn an_error_waits_for_no_release_for_longer_than_one_request_time_out() {
    in_lab(async |lab, [host, other]| {
        let b = acquire(&other, "b").await;
        for (wait, most) in [
            (RecordWait::NoWait, REQUEST),
            (RecordWait::Timeout(5 * SECOND), 5 * SECOND + REQUEST),
        ] {
            host.meets("release", 1, Fault::Hang(When::Before));
            let started = Instant::now();
            let refused = several(&host, &["a", "b"]).acquire(wait).await;
            assert!(matches!(refused, Err(Error::NotGranted { .. })));
            let took = started.elapsed();
            assert!(took <= most + SECOND / 10, "{wait:?}: {took:?}");
            // A background task tries again.
            lab.wait(2 * REQUEST).await;
            assert!(lab.is_free("a").await, "{wait:?}");
        }
        b.release().await.unwrap();
    });
}

#[test]
fn what_is_left_would_be_seen() {
    in_lab(async |lab, [host]| {
        assert!(is_clean(lab, &["a", "b"]).await);
        let both = several(&host, &["a", "b"]);
        std::mem::forget(both.acquire(RecordWait::NoWait).await.unwrap());
        assert!(!is_clean(lab, &["a", "b"]).await);
    });
}
