//! `fairlock lease`: what one process takes, and another extends and releases.
#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for a real process beside its server"
)]

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use fairlock_testkit::real_time;
use fairlock_testkit::wire::served_engine::ServedEngine;
use serde_json::Value;

use crate::command::{Said, fairlock, said};
use crate::inspect::schema::documented;
use crate::run::running::{home, is_free, run, shown, until};

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
    let input = File::open(home.path().join("lease")).unwrap();
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

fn show(home: &Path, rest: &[&str]) -> Said {
    lease(home, "show", rest)
}

/// Of a semaphore whose number of permits the command is not told, and of a lock that is shared.
#[test]
fn all_leases_of_a_lock_are_shown() {
    let home = home();
    let take = |id: &str, rest: &[&str]| {
        let line = [&["--id", id, "--for", "5m"], rest].concat();
        lease(home.path(), "acquire", &line)
            .assert_done()
            .trim_end()
            .to_owned()
    };
    let texts = ["one", "two"].map(|id| take(id, &["--permits", "3", "s"]));
    let shown = show(home.path(), &["s"]);
    for id in ["one", "two"] {
        let line = format!("s: held as {id} with ticket ");
        assert!(shown.assert_done().contains(&line), "{shown:?}");
    }
    for flags in [&[][..], &["--permits", "3"]] {
        let json = show(home.path(), &[&["--json"], flags, &["s"]].concat());
        let lines = documented(WORDS, json.assert_done());
        let mut found: Vec<_> = lines
            .iter()
            .map(|line| line["lease"].as_str().unwrap())
            .collect();
        found.sort_by_key(|text| text.ends_with("twos"));
        assert_eq!(found, texts);
    }
    let two = show(home.path(), &["--id", "two", "s"]);
    assert_eq!(two.assert_done().lines().count(), 2, "{two:?}");
    show(home.path(), &["--permits", "4", "s"])
        .assert_refused(64, &["has 3 permits, and --permits says 4"]);
    for id in ["reads", "reads too"] {
        take(id, &["--shared", "r"]);
    }
    assert_eq!(show(home.path(), &["r"]).assert_done().lines().count(), 4);
}

#[test]
fn a_caller_in_the_way_of_which_is_a_lease_is_told_its_name() {
    let home = home();
    acquired(home.path(), "build-7");
    run(home.path(), &["--wait", "none"], &["true"]).assert_refused(75, &["lease \"build-7\" of "]);
    run(home.path(), &["--quiet", "--wait", "200ms"], &["true"])
        .assert_refused(75, &["lease \"build-7\" of "]);
    let waited = run(home.path(), &["--wait", "200ms"], &["true"]);
    assert!(waited.err.contains("lease `build-7` of "), "{waited:?}");
    let line = ["delete", "--local", "locks.db", "a"];
    said(&mut fairlock(home.path(), &line)).assert_refused(75, &["as build-7 has it"]);
    let line = ["break", "--local", "locks.db", "--yes", "a"];
    let broken = said(&mut fairlock(home.path(), &line));
    assert!(broken.err.contains("as build-7: it is free"), "{broken:?}");
}

/// No process keeps it, so none could give way.
#[test]
fn a_lease_is_not_asked_to_give_way_and_its_neighbour_is() {
    let home = home();
    let ask = || {
        let line = ["ask", "--local", "locks.db", "a"];
        said(&mut fairlock(home.path(), &line))
    };
    let text = acquired(home.path(), "build-7");
    let words = [
        "lock `a`",
        "lease `build-7`",
        "no process keeps",
        "`fairlock lease show --json a --local locks.db`",
    ];
    ask().assert_refused(75, &words);
    lease(home.path(), "release", &["a", &text]).assert_done();
    let shared = ["--shared", "--id", "reads", "--for", "5m", "a"];
    lease(home.path(), "acquire", &shared).assert_done();
    let script = "fairlock ask --local locks.db a";
    let asked = run(home.path(), &["--shared"], &["sh", "-c", script]);
    let words =
        "asked its holder, which the next heartbeat tells; no process heeds it for lease `reads`\n";
    assert!(asked.err.contains(words), "{asked:?}");
}

#[test]
fn an_extension_that_would_end_earlier_leaves_the_end_and_says_so() {
    let home = home();
    let text = acquired(home.path(), "build-7");
    let mut last = text.clone();
    for _ in 0..3 {
        let same = lease(home.path(), "extend", &["--for", "1m", "a", &last]);
        assert_eq!(same.code, Some(0), "{same:?}");
        assert!(
            same.err.contains("lease `build-7` lasts until "),
            "{same:?}"
        );
        assert!(same.err.contains("was not made shorter"), "{same:?}");
        let end = |text: &str| text.split(' ').nth(3).unwrap().parse::<u64>().unwrap();
        assert!(end(&same.out) >= end(&last), "{same:?} after {last}");
        last = same.out.trim_end().to_owned();
    }
    lease(home.path(), "extend", &["--for", "10m", "a", &last]).assert_done();
}

/// Nothing reads the text. Another process that asked under the same name may have found the lease all the same, so it stays.
#[test]
fn a_lease_whose_text_cannot_be_written_stays_and_its_name_finds_it() {
    let home = home();
    fn line<'a>(flags: &[&'a str]) -> Vec<&'a str> {
        let always = ["lease", "acquire", "--local", "locks.db", "--for", "5m"];
        [&always[..], flags].concat()
    }
    let unwritten = |flags: &[&str], output: Stdio| {
        let ended = fairlock(home.path(), &line(flags))
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn();
        let ended = ended.unwrap().wait_with_output().unwrap();
        Said {
            code: ended.status.code(),
            out: String::new(),
            err: String::from_utf8(ended.stderr).unwrap(),
        }
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    for flags in [
        &["--id", "x", "a"][..],
        &["--json", "--id", "x", "b"],
        &["--wait", "5s", "--id", "x", "c"],
        &["--permits", "2", "--id", "x", "s"],
        &["--shared", "--id", "x", "r"],
    ] {
        let lock = flags.last().unwrap();
        let kept = unwritten(flags, full());
        let shows = format!("`fairlock lease show --json --id x {lock} --local locks.db`");
        kept.assert_refused(74, &["cannot write the output", &shows]);
        let again = lease(home.path(), "acquire", &[&["--for", "5m"], flags].concat());
        let found = lease(home.path(), "show", &["--json", "--id", "x", lock]);
        let found: Value = serde_json::from_str(found.assert_done()).unwrap();
        let text = found["lease"].as_str().unwrap();
        assert!(again.assert_done().contains(text), "{again:?} {found}");
    }
    // A pipe whose reader has gone.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let kept = unwritten(&["--id", "x", "d"], writer.into());
    kept.assert_refused(74, &["cannot write the output"]);
    assert_eq!(show(home.path(), &["d"]).code, Some(0));
}

/// The first of two processes under one name is granted the lease, and the second finds it. The first cannot write its text.
#[test]
fn a_lease_that_one_process_cannot_print_stays_for_another_one_that_found_it() {
    let home = home();
    let before = acquired(home.path(), "before");
    let waits = |output: Stdio| {
        let line = ["lease", "acquire", "--local", "locks.db", "--for", "5m"];
        let line = [&line[..], &["--wait", "50s", "--id", "x", "a"]].concat();
        let waiting = fairlock(home.path(), &line)
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn();
        waiting.unwrap()
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let queue = |length: usize| {
        let is_there = || shown(home.path())["queue"].as_array().unwrap().len() == length;
        until("the queue is longer", is_there);
    };
    let first = waits(writer.into());
    queue(1);
    let second = waits(Stdio::piped());
    queue(2);
    lease(home.path(), "release", &["a", &before]).assert_done();
    let (first, second) = (first.wait_with_output(), second.wait_with_output());
    assert_eq!(first.unwrap().status.code(), Some(74));
    let second = second.unwrap();
    assert_eq!(second.status.code(), Some(0), "{second:?}");
    let text = String::from_utf8(second.stdout).unwrap();
    lease(
        home.path(),
        "extend",
        &["--for", "5m", "a", text.trim_end()],
    )
    .assert_done();
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
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a lease waits", || {
        let shown = said(&mut fairlock(
            home.path(),
            &["show", "--json", "--local", "locks.db", "a"],
        ));
        shown.out.contains("\"waiting\":1")
    });
    lease(home.path(), "release", &["a", before.trim_end()]).assert_done();
    let after = waiting.wait_with_output().unwrap();
    assert!(after.status.success(), "{after:?}");
    let told = String::from_utf8_lossy(&after.stderr);
    for words in ["lease `before` of ", "you are next", "granted with ticket"] {
        assert!(told.contains(words), "{words}: {told}");
    }
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

#[test]
fn a_command_that_holds_the_lock_does_not_wait_for_a_lease_of_it() {
    let home = home();
    let in_turn = |flags: &str| {
        let take = "fairlock lease acquire --local locks.db --id x --for 5m";
        let script = format!("{take} {flags} a; echo $?");
        let ran = run(home.path(), &[], &["sh", "-c", &script]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "75\n"), "{ran:?}");
        ran.err
    };
    let told = in_turn("--wait 100s");
    assert!(told.contains("would wait for itself"), "{told}");
    for flags in ["", "--wait 100ms --nested"] {
        let told = in_turn(flags);
        assert!(told.contains("`a` was not granted"), "{told}");
    }
}

/// As DynamoDB Local: its answers have no `Date`.
#[test]
fn an_engine_without_dates_has_leases_if_this_hosts_clock_is_trusted() {
    let home = home();
    real_time(async {
        let place = ServedEngine::dateless().await;
        let url = place.url().await;
        let ended = tokio::task::spawn_blocking(move || {
            let run = |line: &[&str]| {
                let mut command = fairlock(home.path(), line);
                command.envs([
                    ("AWS_REGION", "eu-west-1"),
                    ("AWS_ACCESS_KEY_ID", "test"),
                    ("AWS_SECRET_ACCESS_KEY", "test"),
                    ("FAIRLOCK_TABLE", "locks"),
                    ("FAIRLOCK_ENDPOINT_URL", &url),
                ]);
                said(&mut command)
            };
            let acquire = ["lease", "acquire", "--id", "x", "--for", "5m", "a"];
            run(&acquire).assert_refused(69, &["have no `Date`", "--trust-own-clock"]);
            let trusted = [&acquire[..], &["--trust-own-clock"]].concat();
            let text = run(&trusted).assert_done().trim_end().to_owned();
            let extend = [
                "lease",
                "extend",
                "--for",
                "10m",
                "a",
                &text,
                "--trust-own-clock",
            ];
            run(&extend).assert_done();
            run(&["lease", "release", "a", &text]).assert_done();
            // Its supervisor has the same flags.
            run(&["run", "--trust-own-clock", "a", "--", "true"]).assert_done();
            let checked = run(&["table", "check", "--trust-own-clock"]);
            assert!(
                checked
                    .out
                    .contains("keep the clocks of their hosts in step"),
                "{checked:?}"
            );
        });
        ended.await.unwrap();
    });
}
