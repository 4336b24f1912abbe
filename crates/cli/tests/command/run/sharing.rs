//! Readers, and callers of a semaphore.

use crate::home::Home;

/// Ends when the other one has begun as well.
fn until_both(own: &str, other: &str) -> String {
    format!("echo $$ > {own}; until [ -e {other} ]; do sleep 0.01; done")
}

#[test]
fn readers_hold_the_lock_together_and_a_writer_holds_it_alone() {
    let home = Home::new();
    let one = home.start_sh("--shared", &until_both("one", "two"));
    one.pid_in("one");
    let refused = home.run("run --wait none a -- true");
    refused.assert_refused(75, &["`a` was not granted"]);
    // The scripts end only if both run at one time.
    home.sh("-s", &until_both("two", "one")).assert_done();
    one.end().assert_ended(0, &[]);
    let writer = home.held("--wait none");
    let refused = home.run("run --shared --wait none a -- true");
    refused.assert_refused(75, &["`a` was not granted"]);
    home.go();
    writer.end().assert_ended(0, &[]);
    home.run("run --shared a -- true").assert_done();
}

#[test]
fn no_more_permits_are_held_than_there_are() {
    let home = Home::new();
    let holder = home.held("--permits 3 --take 2");
    let shown = home.shown();
    let permits = (&shown["permits"], &shown["holder"]["permits"]);
    assert_eq!(permits, (&3.into(), &2.into()), "{shown}");
    let ask = |flags| home.run(&format!("run --wait none --permits 3 {flags} a -- true"));
    ask("").assert_done();
    ask("--take 1").assert_done();
    ask("--take 2").assert_refused(75, &["`a` was not granted"]);
    home.go();
    holder.end().assert_ended(0, &[]);
    ask("--take 3").assert_done();
}
