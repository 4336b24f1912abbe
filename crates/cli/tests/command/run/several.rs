//! A command that holds several locks: all of them, or none.

use rustix::process::Signal;
use serde_json::Value;

use crate::command::Said;
use crate::home::Home;
use crate::running::until;

/// The lease is longer than a test may take, so that nothing in it is freed by one.
const LONG: &str = "--lease 10m";

fn try_lock(home: &Home, lock: &str) -> Said {
    home.run(&format!("run --wait none -q {lock} -- true"))
}

#[test]
fn the_command_finds_the_tickets_of_all_its_locks() {
    let home = Home::new();
    let script = "echo $FAIRLOCK_LOCK $FAIRLOCK_TICKET; echo \"$FAIRLOCK_TICKETS\"";
    for (flags, names) in [
        ("--also 'c d' --also a --also b", &["a", "b", "c d"][..]),
        // One lock has the same variable.
        ("", &["a"]),
    ] {
        let ran = home.sh(flags, script);
        let (first, all) = ran.assert_done().split_once('\n').unwrap();
        let all: Value = serde_json::from_str(all).unwrap();
        let found: Vec<_> = all.as_object().unwrap().keys().collect();
        assert_eq!(found, names);
        assert_eq!(first, format!("a {}", all["a"]));
    }
}

#[test]
fn all_are_held_or_none() {
    let home = Home::new();
    let holder = home.held(LONG);
    for names in ["0 --also a", "a --also 0"] {
        let refused = home.run(&format!("run --wait none {names} -- touch ran"));
        refused.assert_refused(75, &["`a` was not granted"]);
        try_lock(&home, "0").assert_done();
    }
    assert!(!home.has("ran"));
    home.go();
    holder.end().assert_ended(0, &[]);
    // While the command runs, every one of them is held.
    let script = "for lock in 0 a; do env -u FAIRLOCK_HELD fairlock run -q --local locks.db -n $lock -- true; echo $?; done";
    home.sh("--also 0", script).assert_said(0, "75\n75\n");
    for lock in ["0", "a"] {
        try_lock(&home, lock).assert_done();
    }
    // The command would wait for itself.
    let ran = home.sh(
        "--also 0",
        "fairlock run --local locks.db new --also 0 -- true",
    );
    ran.assert_ended(75, &["lock `0` is held by the command in which this runs"]);
}

/// The supervisor knows the places of all of them, also that of a lock which is held while another is waited for.
#[test]
fn a_killed_command_leaves_none_of_them_behind() {
    let home = Home::new();
    let holder = home.held(LONG);
    let flags = format!("{LONG} --also 0");
    let waits = home.start_sh(&flags, "touch ran");
    // It has 0, and waits for a.
    home.until_successor();
    try_lock(&home, "0").assert_refused(75, &["`0` was not granted"]);
    waits.signal(Signal::KILL);
    waits.end().assert_ended(128 + 9, &[]);
    let is_free = |lock| try_lock(&home, lock).code == Some(0);
    until("the end of its hold", || is_free("0"));
    home.until_waiting(0);
    assert!(!home.has("ran"));
    home.go();
    holder.end().assert_ended(0, &[]);
    // And one that holds both.
    let holds = home.start_sh(&flags, "echo $$ > both; sleep 60");
    holds.pid_in("both");
    holds.signal(Signal::KILL);
    holds.end();
    for lock in ["0", "a"] {
        until("a free lock", || is_free(lock));
    }
}

/// If one of them is lost, the command is ended, and the others are released.
#[test]
fn the_command_ends_with_the_first_that_is_lost() {
    let home = Home::new();
    let running = home.held("--lease 6s --also 0");
    let broken = home.run("break --yes --reason 'for a test' 0");
    assert_eq!(broken.code, Some(0), "{broken:?}");
    let words = ["lock `0` was lost while ticket ", "for a test"];
    running.end().assert_ended(76, &words);
    try_lock(&home, "a").assert_done();
}

#[test]
fn too_many_are_refused() {
    let home = Home::new();
    let flags = |count| {
        (0..count)
            .map(|number| format!("--also={number} "))
            .collect::<String>()
    };
    let refused = home.run(&format!("run {} a -- touch ran", flags(40)));
    refused.assert_refused(64, &["--also", "32"]);
    home.run(&format!("run {} a -- true", flags(31)))
        .assert_done();
    assert!(!home.has("ran"));
}
