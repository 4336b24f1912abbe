//! `fairlock data`: the bytes on a lock.

use std::fs::File;

use rustix::process::Signal;

use crate::command::{Said, said, shell, signalled};
use crate::home::{Home, local};
use crate::inspect::schema::documented;
use crate::running::Running;

/// Runs `fairlock data` at the file, with these bytes as its input.
fn data(home: &Home, line: &str, bytes: &[u8]) -> Said {
    home.write("input", bytes);
    let input = File::open(home.file("input")).unwrap();
    said(home.command(&format!("data {line} a")).stdin(input))
}

/// The bytes as `data get` prints them.
fn got(home: &Home) -> Vec<u8> {
    let output = home.command("data get a").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn bytes_come_back_as_they_were_left() {
    let home = Home::new();
    let none = ["lock `a` carries no data"];
    data(&home, "get", b"").assert_refused(1, &none);
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [&b"page 7\n"[..], &all, b"", &vec![7; 64 * 1024]] {
        assert_eq!(data(&home, "put", bytes).assert_done(), "");
        assert_eq!(got(&home), bytes);
        assert!(home.is_free());
    }
    // More than a lock carries is refused before anything is asked for.
    let refused = data(&home, "put", &vec![7; 64 * 1024 + 1]);
    refused.assert_refused(64, &["64 KB"]);
    assert_eq!(got(&home).len(), 64 * 1024);
    assert_eq!(data(&home, "clear", b"").assert_done(), "");
    data(&home, "get", b"").assert_refused(1, &none);
}

/// A service or a cron job may have no standard input, and the bytes would be lost for nothing.
#[test]
fn a_closed_input_leaves_the_bytes_and_an_empty_one_replaces_them() {
    let home = Home::new();
    data(&home, "put", b"before").assert_done();
    let put = |end: &str| {
        let line = format!("exec fairlock data put --local locks.db a {end}");
        said(&mut shell(home.path(), "sh", &line))
    };
    put("<&-").assert_refused(74, &["standard input", "closed", "`</dev/null`"]);
    assert_eq!(got(&home), b"before");
    // As some programs start a child that is to have no input.
    put("<>/dev/null").assert_refused(74, &["closed"]);
    assert_eq!(got(&home), b"before");
    put("</dev/null").assert_done();
    assert_eq!(got(&home), b"");
}

#[test]
fn the_lines_of_json_are_as_documented() {
    let home = Home::new();
    let words = "Data on a lock,";
    let none = data(&home, "get --json", b"");
    assert_eq!((none.code, &*none.err), (Some(1), ""), "{none:?}");
    assert!(documented(words, &none.out)[0]["base64"].is_null());
    let put = data(&home, "put --json", b"\0\xff");
    let got = data(&home, "get --json", b"");
    assert_eq!(put.assert_done(), got.assert_done());
    let got = &documented(words, &got.out)[0];
    assert_eq!(
        (&got["lock"], &got["base64"]),
        (&"a".into(), &"AP8=".into())
    );
    let cleared = data(&home, "clear --json", b"");
    assert!(documented(words, cleared.assert_done())[0]["ticket"].is_null());
}

#[test]
fn it_waits_for_the_holder_and_no_longer_than_was_asked_or_until_a_signal() {
    let home = Home::new();
    let holder = home.held("");
    for verb in ["put", "clear"] {
        let refused = data(&home, &format!("{verb} --wait none"), b"x");
        refused.assert_refused(75, &["`a` was not granted"]);
    }
    let interrupted = home.start("data clear --lease 10m --wait infinite a");
    home.until_successor();
    interrupted.signal(Signal::TERM);
    interrupted.end().assert_ended(128 + 15, &[]);
    assert!(!home.has_a_successor());
    home.write("bytes", "at last");
    let mut waits = signalled(home.path(), &local("data put a"));
    waits.stdin(File::open(home.file("bytes")).unwrap());
    let waits = Running::spawn(&mut waits, home.path());
    home.until_successor();
    home.go();
    waits
        .end()
        .assert_ended(0, &["you are next", "granted with ticket"]);
    assert_eq!(got(&home), b"at last");
    holder.end().assert_ended(0, &[]);
}

#[test]
fn a_command_that_holds_the_lock_does_not_wait_for_itself() {
    let home = Home::new();
    for (flag, words) in [
        ("", "held by the command in which this runs"),
        ("--nested", "`a` was not granted"),
    ] {
        let put = format!("fairlock data put --wait none {flag} --local locks.db a");
        let ran = home.sh("", &format!("echo x | {put}; echo $?"));
        ran.assert_said(0, "75\n");
        ran.assert_ended(0, &[words]);
    }
}
