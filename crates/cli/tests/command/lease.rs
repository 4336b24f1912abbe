//! `fairlock lease`: what one process takes, and another extends and releases.

use std::path::Path;

use crate::command::{Said, fairlock, said};
use crate::inspect::schema::documented;
use crate::run::running::{home, is_free, run};

const WORDS: &str = "A lease,";

fn lease(home: &Path, verb: &str, rest: &[&str]) -> Said {
    let line = [&["lease", verb, "--local", "locks.db"], rest].concat();
    said(&mut fairlock(home, &line))
}

fn acquired(home: &Path, id: &str) -> String {
    let ended = lease(home, "acquire", &["--id", id, "--for", "5m", "a"]);
    let text = ended.assert_done();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn a_lease_goes_from_process_to_process_by_its_text() {
    let home = home();
    let text = acquired(home.path(), "build 7");
    assert!(!is_free(home.path()));
    // A step that is repeated finds its lease as it is.
    assert_eq!(acquired(home.path(), "build 7"), text);
    let extended = lease(home.path(), "extend", &["--for", "10m", "a", &text]);
    let extended = extended.assert_done().trim_end().to_owned();
    assert_ne!(extended, text);
    // The older text is one of the same lease.
    std::fs::write(home.path().join("lease"), format!("{text}\n")).unwrap();
    let input = std::fs::File::open(home.path().join("lease")).unwrap();
    let line = ["lease", "release", "--local", "locks.db", "a", "-"];
    assert_eq!(
        said(fairlock(home.path(), &line).stdin(input)).assert_done(),
        ""
    );
    assert!(is_free(home.path()));
    lease(home.path(), "release", &["a", &extended]).assert_refused(76, &["lock `a` was lost"]);
    lease(home.path(), "extend", &["--for", "5m", "a", &extended])
        .assert_refused(76, &["lock `a` was lost"]);
}

#[test]
fn a_lock_that_another_has_is_not_granted() {
    let home = home();
    acquired(home.path(), "build-7");
    let other = lease(
        home.path(),
        "acquire",
        &["--id", "build-8", "--for", "5m", "a"],
    );
    other.assert_refused(75, &["`a` was not granted", "fairlock show a"]);
    run(home.path(), &["--wait", "none"], &["true"]).assert_refused(75, &["`a` was not granted"]);
}

#[test]
fn what_is_no_lease_of_the_lock_is_refused_with_what_to_give() {
    let home = home();
    let text = acquired(home.path(), "build-7");
    for bad in [
        "",
        "lease",
        "build-7",
        &text[..text.len() - 2],
        &text.replace("lease ", "place "),
        &format!("{text}\n\nx"),
    ] {
        for verb in [&["release"][..], &["extend", "--for", "5m"]] {
            let refused = lease(home.path(), verb[0], &[&verb[1..], &["a", bad]].concat());
            let words = ["is no lease", "`fairlock lease acquire` printed"];
            match refused.err.contains("is a lease of lock") {
                // The name of the lock comes last, and may be anything.
                true => refused.assert_refused(64, &["and not of `a`"]),
                false => refused.assert_refused(64, &words),
            }
        }
    }
    let refused = lease(home.path(), "release", &["b", &text]);
    refused.assert_refused(64, &["this is a lease of lock `a`, and not of `b`"]);
    // No harm was done.
    assert_eq!(acquired(home.path(), "build-7"), text);
}

#[test]
fn names_and_times_that_cannot_be_are_refused() {
    let home = home();
    let long = "x".repeat(257);
    for (id, span, words) in [
        ("", "5m", "1 to 256 bytes"),
        (&long, "5m", "1 to 256 bytes"),
        ("x\ny", "5m", "without line breaks"),
        ("x", "999ms", "at least 1s"),
        ("x", "2days", "at most"),
    ] {
        let refused = lease(home.path(), "acquire", &["--id", id, "--for", span, "a"]);
        refused.assert_refused(64, &[words]);
    }
    assert!(is_free(home.path()));
}

#[test]
fn the_lease_that_has_the_lock_is_shown() {
    let home = home();
    let show = |rest: &[&str]| lease(home.path(), "show", &[rest, &["a"]].concat());
    let none = show(&[]);
    assert_eq!(
        (none.code, none.out.as_str()),
        (Some(1), "a: no such lease has it\n"),
        "{none:?}"
    );
    let text = acquired(home.path(), "build-7");
    let shown = show(&[]);
    let shown = shown.assert_done();
    assert!(
        shown.starts_with("a: held as build-7 with ticket 1") && shown.contains("4m "),
        "{shown}"
    );
    assert_eq!(
        show(&["--id", "build-7"]).assert_done().lines().next(),
        shown.lines().next()
    );
    assert_eq!(show(&["--id", "build-8"]).code, Some(1));
    let all = [
        show(&["--json"]),
        lease(
            home.path(),
            "acquire",
            &["--json", "--id", "build-7", "--for", "5m", "a"],
        ),
    ];
    for said in &all {
        let line = &documented(WORDS, said.assert_done())[0];
        assert_eq!(
            (&line["lock"], &line["id"], &line["lease"]),
            (&"a".into(), &"build-7".into(), &text.clone().into())
        );
    }
    let released = lease(home.path(), "release", &["--json", "a", &text]);
    documented(WORDS, released.assert_done());
    let none = show(&["--json"]);
    assert_eq!(none.code, Some(1));
    assert!(documented(WORDS, &none.out)[0]["lease"].is_null());
}

/// The names of a lock and of a lease may be anything, and neither breaks a line of a terminal.
#[test]
fn names_of_any_kind_are_shown_escaped_and_printed_as_they_are() {
    let home = home();
    let (lock, id) = ("a\u{1b}[2J b", "7 \u{9b}x");
    let taken = lease(home.path(), "acquire", &["--id", id, "--for", "5m", lock]);
    let text = taken.assert_done().trim_end_matches('\n').to_owned();
    let shown = lease(home.path(), "show", &[lock]);
    assert!(!shown.assert_done().contains('\u{1b}'), "{shown:?}");
    lease(home.path(), "release", &[lock, &text]).assert_done();
}

/// A holder stands before them: `fairlock hold` in the background would do as well, but a lease needs no process.
#[test]
fn a_lease_waits_for_its_turn_and_takes_permits_or_a_share() {
    let home = home();
    let take = |rest: &[&str]| lease(home.path(), "acquire", &[rest, &["--for", "5m"]].concat());
    let before = take(&["--id", "before", "a"]).assert_done().to_owned();
    let waits = ["--id", "after", "--for", "5m", "--wait", "50s", "a"];
    let line = [&["lease", "acquire", "--local", "locks.db"][..], &waits].concat();
    let waiting = fairlock(home.path(), &line)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    crate::run::running::until("a lease waits", || {
        let shown = said(&mut fairlock(
            home.path(),
            &["show", "--json", "--local", "locks.db", "a"],
        ));
        shown.out.contains("\"waiting\":1")
    });
    lease(home.path(), "release", &["a", before.trim_end()]).assert_done();
    let after = waiting.wait_with_output().unwrap();
    assert!(after.status.success(), "{after:?}");
    let after = String::from_utf8(after.stdout).unwrap();
    assert!(after.contains("after"), "{after}");
    lease(home.path(), "release", &["a", after.trim_end()]).assert_done();

    let semaphore = ["--permits", "3"];
    let two = take(&["--permits", "3", "--take", "2", "--id", "two", "s"]);
    let two = two.assert_done().trim_end().to_owned();
    take(&["--permits", "3", "--take", "2", "--id", "more", "s"])
        .assert_refused(75, &["`s` was not granted"]);
    take(&["--permits", "3", "--take", "4", "--id", "more", "s"]).assert_refused(64, &["permits"]);
    let extend = [&semaphore[..], &["--for", "10m", "s", &two]].concat();
    let two = lease(home.path(), "extend", &extend)
        .assert_done()
        .to_owned();
    let shown = lease(home.path(), "show", &[&semaphore[..], &["s"]].concat());
    assert!(shown.assert_done().contains("held as two"), "{shown:?}");
    let release = [&semaphore[..], &["s", two.trim_end()]].concat();
    lease(home.path(), "release", &release).assert_done();

    for id in ["one", "other"] {
        take(&["--shared", "--id", id, "r"]).assert_done();
    }
    take(&["--id", "writer", "r"]).assert_refused(75, &["`r` was not granted"]);
}
