//! Readers, and callers of a semaphore.

use super::running::{Running, home, run, until};

/// Ends when the other one has begun as well.
fn until_both(own: &str, other: &str) -> String {
    format!("touch {own}; until [ -e {other} ]; do sleep 0.01; done")
}

#[test]
fn readers_hold_the_lock_together_and_a_writer_does_not() {
    let home = home();
    let one = Running::start(home.path(), &["--shared"], &until_both("one", "two"));
    until("a reader", || home.path().join("one").exists());
    let refused = run(home.path(), &["--wait", "none"], &["true"]);
    refused.assert_refused(75, &["`a` was not granted"]);
    // The scripts end only if both run at one time.
    let two = run(
        home.path(),
        &["-s"],
        &["sh", "-c", &until_both("two", "one")],
    );
    two.assert_done();
    let (code, _, err) = one.end();
    assert_eq!(code, 0, "{err}");
    run(home.path(), &["--wait", "none"], &["true"]).assert_done();
}

#[test]
fn a_reader_waits_for_the_writer_before_it() {
    let home = home();
    let writer = Running::start(
        home.path(),
        &[],
        "touch held; until [ -e over ]; do sleep 0.01; done",
    );
    until("the writer", || home.path().join("held").exists());
    let refused = run(home.path(), &["--shared", "--wait", "none"], &["true"]);
    refused.assert_refused(75, &["`a` was not granted"]);
    std::fs::write(home.path().join("over"), "").unwrap();
    let (code, _, err) = writer.end();
    assert_eq!(code, 0, "{err}");
    run(home.path(), &["--shared"], &["true"]).assert_done();
}

#[test]
fn no_more_permits_are_held_than_there_are() {
    let home = home();
    let two = ["--permits", "3", "--take", "2"];
    let holder = Running::start(
        home.path(),
        &two,
        "touch held; until [ -e over ]; do sleep 0.01; done",
    );
    until("the holder", || home.path().join("held").exists());
    let shows = ["show", "--json", "--local", "locks.db", "a"];
    let shown = super::running::shown(home.path());
    assert_eq!(
        (&shown["permits"], &shown["holder"]["permits"]),
        (&3.into(), &2.into()),
        "{shows:?}: {shown}"
    );
    let ask = |flags: &[&str]| {
        run(
            home.path(),
            &[&["--wait", "none", "--permits", "3"], flags].concat(),
            &["true"],
        )
    };
    ask(&[]).assert_done();
    ask(&["--take", "1"]).assert_done();
    ask(&["--take", "2"]).assert_refused(75, &["`a` was not granted"]);
    std::fs::write(home.path().join("over"), "").unwrap();
    let (code, _, err) = holder.end();
    assert_eq!(code, 0, "{err}");
    ask(&["--take", "3"]).assert_done();
}

#[test]
fn numbers_of_permits_that_cannot_be_are_refused() {
    let home = home();
    let ask = |flags: &[&str]| run(home.path(), flags, &["touch", "ran"]);
    ask(&["--permits", "0"]).assert_refused(64, &["permits"]);
    ask(&["--permits", "1001"]).assert_refused(64, &["1001", "1000"]);
    ask(&["--permits", "3", "--take", "4"]).assert_refused(64, &["4", "1 to 3"]);
    ask(&["--permits", "3", "--take", "0"]).assert_refused(64, &["0", "1 to 3"]);
    // Another caller has said another number.
    run(home.path(), &["--permits", "3"], &["true"]).assert_done();
    let other = ask(&["--permits", "4"]);
    other.assert_refused(64, &["3 permits", "says 4", "name another lock"]);
    assert!(!home.path().join("ran").exists());
}
