//! Processes that end in every way, and one that stands still: what they leave to others, and what they learn.

mod ending;
mod home;
mod pause;
mod scope;

use fairlock_testkit::effort::sized;
use fairlock_testkit::lab::have_turns;
use fairlock_testkit::real_time;
use home::{Home, LEASE};

/// How often each ending is tried. What it leaves depends on which thread comes first.
fn times() -> usize {
    sized(3, 8)
}

/// Each role, and each time that it is tried.
fn each<T: Copy>(roles: &[T]) -> impl Iterator<Item = (T, usize)> {
    let tried = |role: &T| {
        (0..times()).map({
            let role = *role;
            move |time| (role, time)
        })
    };
    roles.iter().flat_map(tried)
}

/// Whatever was reported before the process ended has also been done.
#[test]
fn a_process_that_ends_with_a_refusal_or_leaves_the_scope_of_a_wait_leaves_nothing() {
    real_time(async {
        let home = Home::new().await;
        // Behind a successor, or with a slot behind the holder alone.
        let roles = [
            ("times_out", 1),
            ("times_out", 0),
            ("does_not_wait", 1),
            ("meets_a_full_queue", 1),
            ("scope_of_a_wait", 1),
        ];
        for ((role, successors), time) in each(&roles) {
            let lock = format!("{role}-{successors}-{time}");
            let guard = home.acquire(&lock).await;
            let mut waiting = Vec::new();
            for _ in 0..successors {
                waiting.push(home.waits(&lock).await);
            }
            let ended = home.ends(role, &lock).await;
            home.assert_waits_for_nobody_but(&lock, successors).await;
            assert!(ended.is_silent(), "{role}: {ended:?}");
            guard.release().await.unwrap();
            have_turns(waiting).await;
            home.assert_is_free(&lock).await;
        }
    });
}

/// Background work may or may not be done before the process ends. If it is not, the process says so.
#[test]
fn a_process_that_ends_just_after_it_dropped_something_says_which_lock_it_leaves() {
    real_time(async {
        let home = Home::new().await;
        let roles = [
            ("fails_with_a_guard", false),
            ("drops_a_guard", false),
            ("drops_a_wait", true),
            ("scope_is_dropped", false),
            ("scope_is_dropped_in_a_wait", true),
        ];
        for ((role, is_held), time) in each(&roles) {
            let lock = format!("{role}-{time}");
            let guard = match is_held {
                true => Some(home.acquire(&lock).await),
                false => None,
            };
            let ended = home.ends(role, &lock).await;
            let is_left = home.is_left_by_others(&lock).await;
            assert!(!is_left || ended.warns_of(&lock), "{role}: {ended:?}");
            drop(guard);
        }
    });
}

#[test]
fn a_process_that_has_released_or_shut_down_warns_of_nothing() {
    real_time(async {
        let home = Home::new().await;
        for (role, time) in each(&["releases", "shuts_down"]) {
            let lock = format!("{role}-{time}");
            let ended = home.ends(role, &lock).await;
            home.assert_is_free(&lock).await;
            assert!(ended.is_silent(), "{role}: {ended:?}");
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
