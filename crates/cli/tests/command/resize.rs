//! `fairlock resize`: more or fewer permits while callers hold some.

use serde_json::Value;

use crate::command::{Said, fairlock, said};
use crate::inspect::schema::assert_a_documented_lock;
use crate::run::running::home;

/// Runs a script of the command while it holds two of five permits of `s`.
fn while_two_are_held(script: &str) -> Said {
    let home = home();
    let script = script.replace("fairlock", env!("CARGO_BIN_EXE_fairlock"));
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
        &script,
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
    let said = while_two_are_held("fairlock resize --local locks.db s 101");
    said.assert_refused(
        64,
        &["101 permits were asked for, where there are 1 to 100"],
    );
}
