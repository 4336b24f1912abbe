//! `--max-hold`, `--min-hold` and `--safety-margin`.

use std::time::Instant;

use rustix::process::Signal;

use crate::home::Home;
use crate::running::until;

#[test]
fn a_command_that_holds_the_lock_for_too_long_is_ended_and_the_next_one_runs() {
    let home = Home::new();
    let slow = home.held("--max-hold 2s");
    // Its lease is 30 s.
    home.run("run --quiet --wait 20s a -- true").assert_done();
    slow.end()
        .assert_ended(76, &["as long as --max-hold 2s allows"]);
}

#[test]
fn a_command_that_is_done_early_keeps_the_lock_from_others_and_does_not_wait_itself() {
    let home = Home::new();
    let begun = Instant::now();
    home.run("run --min-hold 5m a -- true").assert_done();
    let took = begun.elapsed().as_secs();
    // No timing of its own: five minutes are more than the bound of any test.
    assert!(took < 250, "{took}");
    let second = home.run("run --wait none -E 0 a -- touch again");
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(!home.has("again"));
    let lease = home.shown()["holder"]["lease_ms"].as_u64();
    assert!(lease.is_none_or(|lease| lease > 200_000), "{lease:?}");
}

/// The process that had it is gone.
#[test]
fn what_was_given_back_early_is_told_as_such_and_by_nobody_as_held() {
    let home = Home::new();
    home.run("run --min-hold 10m --owner alice a -- true")
        .assert_done();
    let until = home.shown()["holder"]["kept_until"].clone();
    let until = until.as_str().unwrap().replace('T', " ");
    let until = format!("until {}", &until[..16]);
    home.run("show a")
        .assert_shows(&["a: given back by alice with ticket ", "kept ", &until]);
    home.run("ls").assert_shows(&["kept for 9m"]);
    assert_eq!(home.run("show --exit-code a").code, Some(1));
    for (line, words) in [
        ("ask a", "nobody would heed"),
        ("delete a", "nothing was deleted"),
    ] {
        home.run(line)
            .assert_refused(75, &["alice gave it back", &until, words]);
    }
    let none = home.run("run --wait none a -- true");
    none.assert_refused(75, &["kept until", "alice gave ticket"]);
    home.run("break --yes a");
    home.run("run --wait none a -- true").assert_done();
}

/// As by the kernel, where memory is short. The time began with the turn, and the supervisor keeps the rest of it.
#[test]
fn a_lock_that_is_to_be_kept_for_a_time_is_kept_though_fairlock_is_killed() {
    for flags in ["", "--shared", "--also b"] {
        let home = Home::new();
        let killed = |least: &str| {
            let running = home.held(&format!("--lease 6s --min-hold {least} {flags}"));
            running.signal(Signal::KILL);
            let is_given_back = || !home.shown()["holder"]["kept_until"].is_null();
            until("the lock to be given back", is_given_back);
            running.end();
            home.remove("held");
        };
        killed("10m");
        let none = home.run("run --wait none a -- true");
        none.assert_refused(75, &["kept until"]);
        for lock in ["a", "b"] {
            home.run(&format!("break --yes {lock}"));
        }
        killed("4s");
        home.run("run --quiet --wait 50s a -- true").assert_done();
    }
}

#[test]
fn a_command_with_a_safety_margin_believes_for_less_and_hands_over_at_once_when_it_is_done() {
    let home = Home::new();
    let slow = home.held("--lease 5m --safety-margin 4m");
    assert_eq!(home.shown()["holder"]["lease_ms"].as_u64(), Some(300_000));
    home.go();
    slow.end().assert_ended(0, &[]);
    home.run("run --quiet --wait 20s a -- true").assert_done();
}
