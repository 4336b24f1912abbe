//! `fairlock data`: the bytes on a lock.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{Said, fairlock, path, said};
use crate::inspect::schema::documented;
use crate::run::running::{Running, has_a_successor, home, is_free, run, until};

/// Runs `fairlock data` at the file, with these bytes as its input.
fn data(home: &Path, line: &[&str], bytes: &[u8]) -> Said {
    std::fs::write(home.join("input"), bytes).unwrap();
    let input = std::fs::File::open(home.join("input")).unwrap();
    let line = [&["data"], line, &["--local", "locks.db", "a"]].concat();
    said(fairlock(home, &line).stdin(input))
}

/// The bytes as `data get` prints them.
fn got(home: &Path) -> Vec<u8> {
    let output = fairlock(home, &["data", "get", "--local", "locks.db", "a"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn bytes_come_back_as_they_were_left() {
    let home = home();
    data(home.path(), &["get"], b"").assert_refused(1, &["lock `a` carries no data"]);
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [&b"page 7\n"[..], &all, b"", &vec![7; 64 * 1024]] {
        assert_eq!(data(home.path(), &["put"], bytes).assert_done(), "");
        assert_eq!(got(home.path()), bytes);
        assert!(is_free(home.path()));
    }
    assert_eq!(data(home.path(), &["clear"], b"").assert_done(), "");
    data(home.path(), &["get"], b"").assert_refused(1, &["lock `a` carries no data"]);
}

#[test]
fn more_bytes_than_a_lock_carries_are_refused_before_anything_is_asked_for() {
    let home = home();
    data(home.path(), &["put"], b"before").assert_done();
    let refused = data(home.path(), &["put"], &vec![7; 64 * 1024 + 1]);
    refused.assert_refused(64, &["64 KB"]);
    assert_eq!(got(home.path()), b"before");
}

/// A service or a cron job may have no standard input, and the bytes would be lost for nothing.
#[test]
fn a_closed_input_leaves_the_bytes_and_an_empty_one_replaces_them() {
    let home = home();
    data(home.path(), &["put"], b"before").assert_done();
    let put = |end: &str| {
        let line = format!("exec fairlock data put --local locks.db a {end}");
        let mut sh = std::process::Command::new("sh");
        sh.args(["-c", &line]).env("PATH", path());
        said(sh.current_dir(home.path()))
    };
    put("<&-").assert_refused(74, &["standard input", "closed", "`</dev/null`"]);
    assert_eq!(got(home.path()), b"before");
    // As some programs start a child that is to have no input.
    put("<>/dev/null").assert_refused(74, &["closed"]);
    assert_eq!(got(home.path()), b"before");
    put("</dev/null").assert_done();
    assert_eq!(got(home.path()), b"");
}

#[test]
fn the_lines_of_json_are_as_documented() {
    let home = home();
    let words = "Data on a lock,";
    let none = data(home.path(), &["get", "--json"], b"");
    assert_eq!((none.code, none.err.as_str()), (Some(1), ""), "{none:?}");
    assert!(documented(words, &none.out)[0]["base64"].is_null());
    let put = data(home.path(), &["put", "--json"], b"\0\xff");
    let got = data(home.path(), &["get", "--json"], b"");
    assert_eq!(put.assert_done(), got.assert_done());
    let got = documented(words, &got.out);
    assert_eq!(
        (&got[0]["lock"], &got[0]["base64"]),
        (&"a".into(), &"AP8=".into())
    );
    let cleared = data(home.path(), &["clear", "--json"], b"");
    assert!(documented(words, cleared.assert_done())[0]["ticket"].is_null());
}

#[test]
fn it_waits_for_the_holder_and_no_longer_than_was_asked() {
    let home = home();
    let holder = Running::start(
        home.path(),
        &[],
        "touch held; until [ -e over ]; do sleep 0.01; done",
    );
    until("the holder", || home.path().join("held").exists());
    for verb in ["put", "clear"] {
        let refused = data(home.path(), &[verb, "--wait", "none"], b"x");
        refused.assert_refused(75, &["`a` was not granted"]);
    }
    let line = ["data", "put", "--local", "locks.db", "a"];
    let mut waits = fairlock(home.path(), &line);
    std::fs::write(home.path().join("bytes"), "at last").unwrap();
    let input = std::fs::File::open(home.path().join("bytes")).unwrap();
    let waits = waits
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a waiter", || has_a_successor(home.path()));
    std::fs::write(home.path().join("over"), "").unwrap();
    let ended = waits.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let told = String::from_utf8_lossy(&ended.stderr);
    for words in ["you are next", "granted with ticket"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(got(home.path()), b"at last");
    assert_eq!(holder.end().0, 0);
}

#[test]
fn a_signal_ends_the_wait_and_leaves_no_place() {
    let home = home();
    let holder = Running::start(
        home.path(),
        &[],
        "touch held; until [ -e over ]; do sleep 0.01; done",
    );
    until("the holder", || home.path().join("held").exists());
    let mut waits = std::process::Command::new("env");
    waits.args([
        "--default-signal",
        env!("CARGO_BIN_EXE_fairlock"),
        "data",
        "clear",
        "--lease",
        "10m",
    ]);
    waits
        .args(["--wait", "infinite", "--local", "locks.db", "a"])
        .current_dir(home.path());
    let mut waits = waits.env_remove("FAIRLOCK_HELD").spawn().unwrap();
    until("a waiter", || has_a_successor(home.path()));
    kill_process(Pid::from_child(&waits), Signal::TERM).unwrap();
    assert_eq!(waits.wait().unwrap().code(), Some(128 + 15));
    assert!(!has_a_successor(home.path()));
    std::fs::write(home.path().join("over"), "").unwrap();
    assert_eq!(holder.end().0, 0);
}

#[test]
fn a_command_that_holds_the_lock_does_not_wait_for_itself() {
    let home = home();
    let in_turn = |flag: &str| {
        let script =
            format!("echo x | fairlock data put --wait none {flag} --local locks.db a; echo $?");
        run(home.path(), &[], &["sh", "-c", &script])
    };
    let ran = in_turn("");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "75\n"), "{ran:?}");
    assert!(
        ran.err.contains("held by the command in which this runs"),
        "{ran:?}"
    );
    let ran = in_turn("--nested");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "75\n"), "{ran:?}");
    assert!(ran.err.contains("`a` was not granted"), "{ran:?}");
}
