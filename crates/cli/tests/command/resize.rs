//! `fairlock resize`: more or fewer permits while callers hold some.

use std::fs::File;

use serde_json::Value;

use crate::command::{Said, fairlock, said};
use crate::home::{Home, local};
use crate::inspect::schema::assert_a_documented_lock;

/// Runs a script of the command while it holds two of five permits of `s`.
fn while_two_are_held(script: &str) -> Said {
    let home = Home::new();
    let mut line = local("run --permits 5 --take 2 s -- sh -c");
    line.push(script.replace("AT", "--local locks.db"));
    said(&mut fairlock(home.path(), &line))
}

#[test]
fn more_and_fewer_permits_are_told_and_shown() {
    let said = while_two_are_held(
        "fairlock resize AT s 8 && fairlock resize AT s 1 && fairlock resize AT s 1 && fairlock show AT --json s",
    );
    let lock: Value = serde_json::from_str(&said.out).unwrap();
    assert_a_documented_lock(&lock);
    assert_eq!((&lock["permits"], &lock["resized"]), (&5.into(), &1.into()));
    let words = [
        "lock `s`: 8 permits in place of 5; 2 are held\n",
        "lock `s`: 1 permit in place of 8; 2 are held, and none is given out until fewer are\n",
        "lock `s`: has 1 permit already; 2 are held, and none is given out until fewer are\n",
    ];
    said.assert_ended(0, &words);
}

#[test]
fn people_are_told_of_permits_that_are_free_and_of_more_than_there_are() {
    let shows = "fairlock show AT s && fairlock resize AT s 1 && fairlock show AT s";
    let said = while_two_are_held(shows);
    assert_eq!(said.code, Some(0), "{said:?}");
    let (before, after) = said.out.split_once("left\n").unwrap();
    assert!(before.contains(", 2 of 5 permits\n"), "{said:?}");
    assert!(
        after.contains(", 2 permits\n") && !after.contains("2 of 1"),
        "{said:?}"
    );
    let line = "  1 permit in place of 5: 2 are held, and none is given out until fewer are\n";
    assert!(after.contains(line), "{said:?}");
    let home = Home::new();
    home.run("run --permits 5 s -- true").assert_done();
    assert_eq!(home.run("show s").out, "s: free, with 5 permits\n");
    assert_eq!(home.run("resize s 1").code, Some(0));
    assert_eq!(
        home.run("show s").out,
        "s: free, with 1 permit in place of 5\n"
    );
    home.run("run a -- true").assert_done();
    assert_eq!(home.run("show a").out, "a: free\n");
}

/// Both numbers are named, and what to say in place of the wrong one.
#[test]
fn another_number_of_permits_is_a_wrong_command_line() {
    let home = Home::new();
    home.run("run --permits 5 s -- true").assert_done();
    home.run("run a -- true").assert_done();
    for line in [
        "run --permits 3 s -- true",
        "lease acquire --id x --for 5m --permits 3 s",
    ] {
        let refused = home.run(line);
        let says = "has 5 permits, and --permits says 3: say --permits 5";
        let words = [says, "let `fairlock resize` change", "name another lock"];
        refused.assert_refused(64, &words);
        assert!(!refused.err.contains("Repairing"), "{refused:?}");
    }
    let words = "has 5 permits, and without --permits it would have 64: say --permits 5";
    home.run("run s -- true").assert_refused(64, &[words]);
    let words = "has 64 permits, as a lock that is used without --permits, and --permits says 3: leave --permits out";
    home.run("run --permits 3 a -- true")
        .assert_refused(64, &[words]);
    let nothing = File::open("/dev/null").unwrap();
    let put = said(home.command("data put s").stdin(nothing));
    let words =
        "a lock of 5 permits, and this command is for locks that are used without --permits";
    put.assert_refused(64, &[words, "name another lock"]);
    home.run("run --permits 5 s -- true").assert_done();
}

/// The command in which another runs may have a part of the permits only.
#[test]
fn a_turn_at_a_semaphore_in_another_is_told_what_is_held() {
    let said = while_two_are_held("fairlock run -n AT --permits 5 s -- true");
    let words = "the command in which this runs has a share of it, with ticket";
    said.assert_refused(75, &["lock `s`", words, "--nested"]);
    assert!(!said.err.contains("is held by"), "{said:?}");
    while_two_are_held("fairlock run -n --nested AT --permits 5 s -- true").assert_done();
}

#[test]
fn a_lock_that_was_never_used_and_numbers_that_cannot_be_are_refused() {
    let home = Home::new();
    home.run("resize s 8")
        .assert_refused(75, &["lock `s`", "not used yet"]);
    let words = "0 permits were asked for, where there are 1 to 1000";
    home.run("resize s 0").assert_refused(64, &[words]);
    home.run("resize s 1001").assert_refused(64, &["1 to 1000"]);
    for no_number in ["many", "-1", "''"] {
        let refused = home.run(&format!("resize s {no_number}"));
        assert_eq!(refused.code, Some(64), "{refused:?}");
    }
    let said = while_two_are_held("fairlock resize AT s 81");
    said.assert_refused(64, &["81 permits were asked for, where there are 1 to 80"]);
}
