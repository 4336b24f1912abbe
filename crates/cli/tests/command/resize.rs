//! `fairlock resize`: more or fewer permits while callers hold some.

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Said, fairlock, said};
use crate::inspect::schema::assert_a_documented_lock;
use crate::run::running::home;

/// Runs a script of the command while it holds two of five permits of `s`.
fn while_two_are_held(script: &str) -> Said {
    let home = home();
    let line = [
        "run",
        "--local",
        "locks.db",
        "--permits",
        "5",
        "--take",
        "2",
        "s",
        "--",
        "sh",
        "-c",
        script,
    ];
    said(&mut fairlock(home.path(), &line))
}

#[test]
fn more_and_fewer_permits_are_told_and_shown() {
    let said = while_two_are_held(
        "fairlock resize --local locks.db s 8 && fairlock resize --local locks.db s 1 \
         && fairlock resize --local locks.db s 1 && fairlock show --local locks.db --json s",
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    let lock: Value = serde_json::from_str(&said.out).unwrap();
    assert_a_documented_lock(&lock);
    assert_eq!((&lock["permits"], &lock["resized"]), (&5.into(), &1.into()));
    for line in [
        "lock `s`: 8 permits in place of 5; 2 are held\n",
        "lock `s`: 1 permit in place of 8; 2 are held, and none is given out until fewer are\n",
        "lock `s`: has 1 permit already; 2 are held, and none is given out until fewer are\n",
    ] {
        assert!(said.err.contains(line), "{}", said.err);
    }
}

#[test]
fn people_are_told_of_permits_that_are_free_and_of_more_than_there_are() {
    let said = while_two_are_held(
        "fairlock show --local locks.db s && fairlock resize --local locks.db s 1 && fairlock show --local locks.db s",
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    let (before, after) = said.out.split_once("left\n").unwrap();
    assert!(before.contains(", 2 of 5 permits\n"), "{said:?}");
    assert!(
        after.contains(", 2 permits\n") && !after.contains("2 of 1"),
        "{said:?}"
    );
    let line = "  1 permit in place of 5: 2 are held, and none is given out until fewer are\n";
    assert!(after.contains(line), "{said:?}");
    let home = home();
    let show = || said_of(&home, &["show", "--local", "locks.db", "s"]).out;
    let take = [
        "run",
        "--local",
        "locks.db",
        "--permits",
        "5",
        "s",
        "--",
        "true",
    ];
    said_of(&home, &take).assert_done();
    assert_eq!(show(), "s: free, with 5 permits\n");
    assert_eq!(
        said_of(&home, &["resize", "--local", "locks.db", "s", "1"]).code,
        Some(0)
    );
    assert_eq!(show(), "s: free, with 1 permit in place of 5\n");
    said_of(&home, &["run", "--local", "locks.db", "a", "--", "true"]).assert_done();
    assert_eq!(
        said_of(&home, &["show", "--local", "locks.db", "a"]).out,
        "a: free\n"
    );
}

/// Both numbers are named, and what to say in place of the wrong one.
#[test]
fn another_number_of_permits_is_a_wrong_command_line() {
    let home = home();
    let run = |flags: &[&str], lock: &str| {
        said_of(
            &home,
            &[
                &["run", "--local", "locks.db"],
                flags,
                &[lock, "--", "true"],
            ]
            .concat(),
        )
    };
    run(&["--permits", "5"], "s").assert_done();
    run(&[], "a").assert_done();
    let lease = [
        "lease",
        "acquire",
        "--local",
        "locks.db",
        "--id",
        "x",
        "--for",
        "5m",
        "--permits",
        "3",
        "s",
    ];
    for refused in [run(&["--permits", "3"], "s"), said_of(&home, &lease)] {
        refused.assert_refused(
            64,
            &[
                "has 5 permits, and --permits says 3: say --permits 5",
                "let `fairlock resize` change",
            ],
        );
        assert!(!refused.err.contains("Repairing"), "{refused:?}");
    }
    let words = "has 5 permits, and without --permits it would have 64: say --permits 5";
    run(&[], "s").assert_refused(64, &[words]);
    let words = "has 64 permits, as a lock that is used without --permits, and --permits says 3: leave --permits out";
    run(&["--permits", "3"], "a").assert_refused(64, &[words]);
    let put = said(
        fairlock(home.path(), &["data", "put", "--local", "locks.db", "s"])
            .stdin(std::fs::File::open("/dev/null").unwrap()),
    );
    let words =
        "a lock of 5 permits, and this command is for locks that are used without --permits";
    put.assert_refused(64, &[words, "name another lock"]);
    run(&["--permits", "5"], "s").assert_done();
}

/// The command in which another runs may have a part of the permits only.
#[test]
fn a_turn_at_a_semaphore_in_another_is_told_what_is_held() {
    let said = while_two_are_held("fairlock run -n --local locks.db --permits 5 s -- true");
    let words = "the command in which this runs has a share of it, with ticket";
    said.assert_refused(75, &["lock `s`", words, "--nested"]);
    assert!(!said.err.contains("is held by"), "{said:?}");
    while_two_are_held("fairlock run -n --nested --local locks.db --permits 5 s -- true")
        .assert_done();
}

fn said_of(home: &TempDir, line: &[&str]) -> Said {
    said(&mut fairlock(home.path(), line))
}

#[test]
fn a_lock_that_was_never_used_and_numbers_that_cannot_be_are_refused() {
    let home = home();
    let resize = |permits: &str| {
        let line = ["resize", "--local", "locks.db", "s", permits];
        said(&mut fairlock(home.path(), &line))
    };
    resize("8").assert_refused(75, &["lock `s`", "not used yet"]);
    resize("0").assert_refused(64, &["0 permits were asked for, where there are 1 to 1000"]);
    resize("1001").assert_refused(64, &["1 to 1000"]);
    for no_number in ["many", "-1", ""] {
        assert_eq!(resize(no_number).code, Some(64), "{no_number}");
    }
    let said = while_two_are_held("fairlock resize --local locks.db s 81");
    said.assert_refused(64, &["81 permits were asked for, where there are 1 to 80"]);
}
