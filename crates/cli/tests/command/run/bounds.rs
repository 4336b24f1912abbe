//! `--max-hold`, `--min-hold` and `--safety-margin`.

use std::time::Instant;

use rustix::process::Signal;

use super::running::{FILE, Running, home, run, shown, until};
use crate::command::{fairlock, said};

#[test]
fn a_command_that_holds_the_lock_for_too_long_is_ended_and_the_next_one_runs() {
    let home = home();
    let flags = ["--max-hold", "2s"];
    let slow = Running::start(home.path(), &flags, "touch begun; sleep 1000; touch over");
    until("the command", || home.path().join("begun").exists());
    // Its lease is 30 s.
    let next = run(home.path(), &["--quiet", "--wait", "20s"], &["true"]);
    next.assert_done();
    let (code, _, err) = slow.end();
    assert_eq!(code, 76, "{err}");
    assert!(err.contains("as long as --max-hold 2s allows"), "{err}");
    assert!(!home.path().join("over").exists());
}

#[test]
fn a_command_that_is_done_early_keeps_the_lock_from_others_and_does_not_wait_itself() {
    let home = home();
    let begun = Instant::now();
    let done = run(home.path(), &["--min-hold", "5m"], &["true"]);
    done.assert_done();
    let took = begun.elapsed().as_secs();
    // No timing of its own: five minutes are more than the bound of any test.
    assert!(took < 250, "{took}");
    let second = run(
        home.path(),
        &["--wait", "none", "-E", "0"],
        &["touch", "again"],
    );
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(!home.path().join("again").exists());
    let lease = shown(home.path())["holder"]["lease_ms"].as_u64();
    assert!(lease.is_none_or(|lease| lease > 200_000), "{lease:?}");
}

/// The process that had it is gone.
#[test]
fn what_was_given_back_early_is_told_as_such_and_by_nobody_as_held() {
    let home = home();
    let flags = ["--min-hold", "10m", "--owner", "alice"];
    run(home.path(), &flags, &["true"]).assert_done();
    let until = shown(home.path())["holder"]["kept_until"].clone();
    let until = until.as_str().expect("a time").replace('T', " ");
    let until = format!("until {}", &until[..16]);
    let at = |line: &[&str]| said(&mut fairlock(home.path(), &[line, &FILE, &["a"]].concat()));
    let shown = at(&["show"]);
    let words = ["a: given back by alice with ticket ", "kept ", &until];
    for word in words {
        assert!(shown.assert_done().contains(word), "no {word}: {shown:?}");
    }
    let listed = said(&mut fairlock(home.path(), &[&["ls"][..], &FILE].concat()));
    assert!(listed.assert_done().contains("kept for 9m"), "{listed:?}");
    assert_eq!(at(&["show", "--exit-code"]).code, Some(1));
    at(&["ask"]).assert_refused(75, &["alice gave it back", &until, "nobody would heed"]);
    at(&["delete"]).assert_refused(75, &["alice gave it back", &until, "nothing was deleted"]);
    let none = run(home.path(), &["--wait", "none"], &["true"]);
    none.assert_refused(75, &["kept until", "alice gave ticket"]);
    at(&["break", "--yes"]);
    run(home.path(), &["--wait", "none"], &["true"]).assert_done();
}

/// As by the kernel, where memory is short. The time began with the turn, and the supervisor keeps the rest of it.
#[test]
fn a_lock_that_is_to_be_kept_for_a_time_is_kept_though_fairlock_is_killed() {
    let home = home();
    for flags in [&[][..], &["--shared"], &["--also", "b"]] {
        let killed = |least: &str| {
            let flags = [&["--lease", "2s", "--min-hold", least], flags].concat();
            let running = Running::start(home.path(), &flags, "touch begun; sleep 1000");
            until("the command", || home.path().join("begun").exists());
            running.signal(Signal::KILL);
            let is_given_back = || !shown(home.path())["holder"]["kept_until"].is_null();
            until("the lock to be given back", is_given_back);
            running.end();
            std::fs::remove_file(home.path().join("begun")).expect("a file");
        };
        killed("10m");
        let none = run(home.path(), &["--wait", "none"], &["true"]);
        none.assert_refused(75, &["kept until"]);
        for lock in ["a", "b"] {
            let at = [&["break", "--yes"], &FILE[..], &[lock]].concat();
            said(&mut fairlock(home.path(), &at));
        }
        killed("4s");
        let next = run(home.path(), &["--quiet", "--wait", "50s"], &["true"]);
        next.assert_done();
    }
}

#[test]
fn bounds_that_cross_are_refused_before_the_command_runs() {
    let home = home();
    let flags = ["--max-hold", "1s", "--min-hold", "2s"];
    let refused = run(home.path(), &flags, &["touch", "ran"]);
    refused.assert_refused(64, &["max_hold"]);
    assert!(!home.path().join("ran").exists());
}

#[test]
fn a_command_with_a_safety_margin_believes_for_less_and_hands_over_at_once_when_it_is_done() {
    let home = home();
    let flags = ["--lease", "5m", "--safety-margin", "4m"];
    let slow = Running::start(
        home.path(),
        &flags,
        "touch begun; until [ -e done ]; do sleep 0.05; done",
    );
    until("the command", || home.path().join("begun").exists());
    let lease = shown(home.path())["holder"]["lease_ms"].as_u64();
    assert_eq!(lease, Some(300_000));
    std::fs::write(home.path().join("done"), "").expect("a file");
    let (code, _, err) = slow.end();
    assert_eq!(code, 0, "{err}");
    let next = run(home.path(), &["--quiet", "--wait", "20s"], &["true"]);
    next.assert_done();
}

#[test]
fn a_margin_that_leaves_no_lease_is_refused_before_the_command_runs() {
    let home = home();
    for margin in ["30s", "1h", "29950ms"] {
        let refused = run(home.path(), &["--safety-margin", margin], &["touch", "ran"]);
        refused.assert_refused(64, &["--lease"]);
    }
    assert!(!home.path().join("ran").exists());
}
