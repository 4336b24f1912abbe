//! A command that holds several locks: all of them, or none.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::running::{Running, has_a_successor, home, run, until};
use crate::command::{Said, fairlock, said};

/// Longer than the test may take, so that nothing in it is freed by a lease.
const LEASE: [&str; 2] = ["--lease", "10m"];

fn try_lock(home: &Path, lock: &str) -> Said {
    let line = [
        "run", "--local", "locks.db", "--wait", "none", "-q", lock, "--", "true",
    ];
    said(&mut fairlock(home, &line))
}

#[test]
fn the_command_finds_the_tickets_of_all_its_locks() {
    let home = home();
    let script = "echo $FAIRLOCK_LOCK $FAIRLOCK_TICKET; echo \"$FAIRLOCK_TICKETS\"";
    let also = ["--also", "c d", "--also", "a", "--also", "b"];
    let ran = run(home.path(), &also, &["sh", "-c", script]);
    let [first, all] = ran.assert_done().lines().collect::<Vec<_>>()[..] else {
        panic!("{ran:?}")
    };
    let all: Value = serde_json::from_str(all).unwrap();
    let names: Vec<_> = all
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(names, ["a", "b", "c d"]);
    assert_eq!(first, format!("a {}", all["a"]));
    // One lock has the same variable.
    let one = run(
        home.path(),
        &[],
        &["sh", "-c", "echo $FAIRLOCK_TICKETS/$FAIRLOCK_TICKET"],
    );
    let (all, ticket) = one.assert_done().trim_end().split_once('/').unwrap();
    assert_eq!(all, format!("{{\"a\":{ticket}}}"));
}

#[test]
fn all_are_held_or_none() {
    let home = home();
    let holder = Running::start(
        home.path(),
        &LEASE,
        "touch held; until [ -e over ]; do sleep 0.01; done",
    );
    until("the holder of a", || home.path().join("held").exists());
    for names in [["0", "a"], ["a", "0"]] {
        let line = [
            &[
                "run", "--local", "locks.db", "--wait", "none", names[0], "--also", names[1],
            ],
            &["--", "touch", "ran"][..],
        ];
        let refused = said(&mut fairlock(home.path(), &line.concat()));
        refused.assert_refused(75, &["`a` was not granted"]);
        try_lock(home.path(), "0").assert_done();
    }
    assert!(!home.path().join("ran").exists());
    // While the command runs, every one of them is held.
    std::fs::write(home.path().join("over"), "").unwrap();
    assert_eq!(holder.end().0, 0);
    let script = "for lock in 0 a; do env -u FAIRLOCK_HELD fairlock run -q --local locks.db -n $lock -- true; echo $?; done";
    let ran = run(home.path(), &["--also", "0"], &["sh", "-c", script]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "75\n75\n"),
        "{ran:?}"
    );
    for lock in ["0", "a"] {
        try_lock(home.path(), lock).assert_done();
    }
}

/// The command would wait for itself.
#[test]
fn none_of_them_may_be_held_around_the_command() {
    let home = home();
    let script = "fairlock run --local locks.db new --also 0 -- true";
    let ran = run(home.path(), &["--also", "0"], &["sh", "-c", script]);
    assert_eq!(ran.code, Some(75), "{ran:?}");
    assert!(
        ran.err
            .contains("lock `0` is held by the command in which this runs"),
        "{ran:?}"
    );
}

/// The supervisor knows the places of all of them, also that of a lock which is held while another is waited for.
#[test]
fn a_killed_command_leaves_none_of_them_behind() {
    let home = home();
    let holder = Running::start(
        home.path(),
        &LEASE,
        "touch held; until [ -e over ]; do sleep 0.01; done",
    );
    until("the holder of a", || home.path().join("held").exists());
    let flags = [&LEASE[..], &["--also", "0"]].concat();
    let waits = Running::start(home.path(), &flags, "touch ran");
    // It has 0, and waits for a.
    until("the wait for a", || has_a_successor(home.path()));
    try_lock(home.path(), "0").assert_refused(75, &["`0` was not granted"]);
    waits.signal(Signal::KILL);
    assert_eq!(waits.end().0, 128 + 9);
    until("the end of its hold", || {
        try_lock(home.path(), "0").code == Some(0)
    });
    until("the end of its wait", || !has_a_successor(home.path()));
    std::fs::write(home.path().join("over"), "").unwrap();
    assert_eq!(holder.end().0, 0);
    // And one that holds both.
    let holds = Running::start(home.path(), &flags, "touch both; sleep 60");
    until("the holder of both", || home.path().join("both").exists());
    holds.signal(Signal::KILL);
    holds.end();
    for lock in ["0", "a"] {
        until("a free lock", || {
            try_lock(home.path(), lock).code == Some(0)
        });
    }
    assert!(!home.path().join("ran").exists());
}

/// If one of them is lost, the command is ended, and the others are released.
#[test]
fn the_command_ends_with_the_first_that_is_lost() {
    let home = home();
    let flags = ["--lease", "3s", "--also", "0"];
    let running = Running::start(home.path(), &flags, "touch held; sleep 60");
    until("the holder", || home.path().join("held").exists());
    let line = [
        "break",
        "--yes",
        "--reason",
        "for a test",
        "--local",
        "locks.db",
        "0",
    ];
    let broken = said(&mut fairlock(home.path(), &line));
    assert_eq!(broken.code, Some(0), "{broken:?}");
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
    assert!(
        err.contains("lock `0` was lost while ticket ") && err.contains("for a test"),
        "{err}"
    );
    try_lock(home.path(), "a").assert_done();
}

#[test]
fn too_many_are_refused() {
    let home = home();
    let names: Vec<_> = (0..40).map(|number| format!("--also={number}")).collect();
    let flags: Vec<_> = names.iter().map(String::as_str).collect();
    run(home.path(), &flags, &["touch", "ran"]).assert_refused(64, &["--also", "32"]);
    let most = run(home.path(), &flags[..31], &["true"]);
    most.assert_done();
    assert!(!home.path().join("ran").exists());
}
