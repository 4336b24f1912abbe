//! Processes that end in every way, and one that stands still: what they leave to others, and what they learn.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; processes live in real time"
)]

mod ending;
mod home;
mod pause;
mod scope;

use fairlock::RecordWait;
use fairlock_testkit::effort::sized;
use fairlock_testkit::real_time;
use home::{Home, LEASE};

/// How often each ending is tried. What it leaves depends on which thread comes first.
fn times() -> usize {
    sized(3, 8)
}

/// Whatever was reported before the process ended has also been done.
fn leaves_nothing(role: &str) {
    real_time(async {
        let home = Home::new().await;
        for time in 0..times() {
            let lock = format!("{role}-{time}");
            let guard = home.acquire(&lock).await;
            let successor = home.waits(&lock).await;
            let ended = home.ends(role, &lock).await;
            home.assert_waits_for_nobody_but(&lock, 1).await;
            assert!(ended.is_silent(), "{ended:?}");
            guard.release().await.unwrap();
            successor.await.unwrap().release().await.unwrap();
            home.assert_is_free(&lock).await;
        }
    });
}

#[test]
fn a_process_that_ends_with_a_time_out_has_left_the_queue() {
    leaves_nothing("times_out");
}

#[test]
fn a_process_that_ends_for_it_does_not_wait_has_left_nothing() {
    leaves_nothing("does_not_wait");
}

#[test]
fn a_process_that_ends_for_the_queue_is_full_has_left_nothing() {
    leaves_nothing("meets_a_full_queue");
}

#[test]
fn a_process_that_ends_with_a_time_out_behind_the_holder_alone_has_given_its_slot_up() {
    real_time(async {
        let home = Home::new().await;
        for time in 0..times() {
            let lock = format!("slot-{time}");
            let guard = home.acquire(&lock).await;
            let ended = home.ends("times_out", &lock).await;
            home.assert_waits_for_nobody_but(&lock, 0).await;
            assert!(ended.is_silent(), "{ended:?}");
            guard.release().await.unwrap();
            home.assert_is_free(&lock).await;
        }
    });
}

/// Background work may or may not be done before the process ends. If it is not, the process says so.
fn leaves_nothing_unsaid(role: &str, is_held: bool) {
    real_time(async {
        let home = Home::new().await;
        for time in 0..times() {
            let lock = format!("{role}-{time}");
            let guard = match is_held {
                true => Some(home.acquire(&lock).await),
                false => None,
            };
            let ended = home.ends(role, &lock).await;
            let is_left = home.is_left_by_others(&lock).await;
            assert!(!is_left || ended.warns_of(&lock), "{ended:?}");
            drop(guard);
        }
    });
}

#[test]
fn a_process_that_ends_with_a_guard_by_an_error_says_which_lock_it_leaves() {
    leaves_nothing_unsaid("fails_with_a_guard", false);
}

#[test]
fn a_process_that_ends_just_after_it_dropped_a_guard_says_which_lock_it_leaves() {
    leaves_nothing_unsaid("drops_a_guard", false);
}

#[test]
fn a_process_that_ends_just_after_it_dropped_a_wait_says_which_lock_it_leaves() {
    leaves_nothing_unsaid("drops_a_wait", true);
}

#[test]
fn a_process_that_ends_just_after_it_dropped_a_scope_says_which_lock_it_leaves() {
    leaves_nothing_unsaid("scope_is_dropped", false);
}

#[test]
fn a_process_that_ends_just_after_it_dropped_a_scope_that_waits_says_which_queue_it_leaves() {
    leaves_nothing_unsaid("scope_is_dropped_in_a_wait", true);
}

#[test]
fn a_process_that_has_released_or_shut_down_warns_of_nothing() {
    real_time(async {
        let home = Home::new().await;
        for role in ["releases", "shuts_down"] {
            for time in 0..times() {
                let lock = format!("{role}-{time}");
                let ended = home.ends(role, &lock).await;
                home.assert_is_free(&lock).await;
                assert!(ended.is_silent(), "{ended:?}");
            }
        }
    });
}

/// No destructor runs there, so the hold ends with the lease.
#[test]
fn a_process_that_exits_at_once_leaves_its_lock_to_the_lease() {
    real_time(async {
        let home = Home::new().await;
        let ended = home.ends("exits", "exits").await;
        assert!(home.is_left_by_others("exits").await, "{ended:?}");
        let next = home.acquire("exits").await;
        next.release().await.unwrap();
        home.assert_is_free("exits").await;
    });
}

#[test]
fn a_scope_leaves_nothing_however_its_work_and_the_process_end() {
    real_time(async {
        let home = Home::new().await;
        for role in scope::ROLES {
            for time in 0..times().div_ceil(2) {
                let lock = format!("{role}-{time}");
                let ended = home.ends(role, &lock).await;
                home.assert_is_free(&lock).await;
                assert!(ended.is_silent(), "{ended:?}");
                assert_eq!(ended.has_panicked(), role.ends_with("panics"), "{ended:?}");
            }
        }
    });
}

#[test]
fn a_scope_leaves_the_queue_of_those_who_wait_in_it() {
    leaves_nothing("scope_of_a_wait");
}

#[test]
fn a_process_that_stood_still_for_its_lease_finds_its_lock_lost_before_it_does_anything() {
    real_time(async {
        let home = Home::new().await;
        for time in 0..sized(1, 3) {
            let lock = format!("stopped-{time}");
            let stopped = pause::Stopped::as_holder(&home, &lock).await;
            // It is granted the lock only after the lease has ended.
            let next = home.acquire(&lock).await;
            let told = stopped.goes_on().await;
            assert_eq!(told, pause::LOST, "lease {LEASE:?}");
            assert!(next.is_held());
            next.release().await.unwrap();
            home.assert_is_free(&lock).await;
        }
    });
}

#[test]
fn whoever_waits_for_a_process_that_ended_by_its_contract_waits_for_no_lease() {
    real_time(async {
        let home = Home::new().await;
        drop(home.ends("releases", "next").await);
        let lock = home.lock("next");
        let guard = lock.acquire(RecordWait::NoWait).await.unwrap();
        guard.release().await.unwrap();
    });
}
