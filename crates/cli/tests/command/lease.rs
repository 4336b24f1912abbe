//! `fairlock lease`: what one process takes, and another extends and releases.

use std::fs::File;
use std::process::Stdio;

use fairlock_testkit::real_time;
use fairlock_testkit::wire::served_engine::ServedEngine;

use crate::command::{Said, said};
use crate::home::Home;
use crate::inspect::schema::documented;
use crate::served::Cloud;

const WORDS: &str = "A lease,";

fn acquire(home: &Home, flags: &str) -> Said {
    home.run(&format!("lease acquire --for 5m {flags}"))
}

/// The text of a lease that is granted.
fn acquired(home: &Home, flags: &str) -> String {
    text(&acquire(home, flags))
}

#[track_caller]
fn text(said: &Said) -> String {
    let text = said.assert_done();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn a_lease_goes_from_process_to_process_by_its_text() {
    let home = Home::new();
    let taken = acquired(&home, "--id 'build 7' a");
    assert!(!home.is_free());
    // A step that is repeated finds its lease as it is.
    assert_eq!(acquired(&home, "--id 'build 7' a"), taken);
    let extended = text(&home.run(&format!("lease extend --for 10m a '{taken}'")));
    assert_ne!(extended, taken);
    // The older text is one of the same lease.
    home.write("lease", format!("{taken}\n"));
    let mut release = home.command("lease release a -");
    let input = File::open(home.file("lease")).unwrap();
    assert_eq!(said(release.stdin(input)).assert_done(), "");
    assert!(home.is_free());
    for verb in ["release", "extend --for 5m"] {
        let lost = home.run(&format!("lease {verb} a '{extended}'"));
        lost.assert_refused(76, &["lock `a` was lost"]);
    }
}

#[test]
fn what_is_no_lease_of_the_lock_is_refused_with_what_to_give() {
    let home = Home::new();
    let text = acquired(&home, "--id build-7 a");
    for bad in [
        "",
        "lease",
        "build-7",
        &text[..text.len() - 2],
        &text.replace("lease ", "place "),
        &format!("{text}\n\nx"),
    ] {
        for verb in ["release", "extend --for 5m"] {
            let refused = home.run(&format!("lease {verb} a '{bad}'"));
            match refused.err.contains("is a lease of lock") {
                // The name of the lock comes last, and may be anything.
                true => refused.assert_refused(64, &["and not of `a`"]),
                false => {
                    refused.assert_refused(64, &["is no lease", "`fairlock lease acquire` printed"])
                }
            }
        }
    }
    let refused = home.run(&format!("lease release b '{text}'"));
    refused.assert_refused(64, &["this is a lease of lock `a`, and not of `b`"]);
    // No harm was done.
    assert_eq!(acquired(&home, "--id build-7 a"), text);
}

#[test]
fn names_and_times_that_cannot_be_are_refused() {
    let home = Home::new();
    for (flags, words) in [
        ("--id '' --for 5m", "1 to 256 bytes"),
        (
            &*format!("--id {} --for 5m", "x".repeat(257)),
            "1 to 256 bytes",
        ),
        ("--id 'x\ny' --for 5m", "without line breaks"),
        ("--id x --for 999ms", "at least 1s"),
        ("--id x --for 2days", "at most"),
    ] {
        let refused = home.run(&format!("lease acquire {flags} a"));
        refused.assert_refused(64, &[words]);
    }
    assert!(home.is_free());
}

#[test]
fn the_lease_that_has_the_lock_is_shown() {
    let home = Home::new();
    home.run("lease show a")
        .assert_said(1, "a: no such lease has it\n");
    let text = acquired(&home, "--id build-7 a");
    let shown = home.run("lease show a");
    shown.assert_shows(&["a: held as build-7 with ticket 1", "4m "]);
    let named = home.run("lease show --id build-7 a");
    assert_eq!(named.assert_done().lines().next(), shown.out.lines().next());
    assert_eq!(home.run("lease show --id build-8 a").code, Some(1));
    for line in ["show", "acquire --id build-7 --for 5m"] {
        let said = home.run(&format!("lease {line} --json a"));
        let line = &documented(WORDS, said.assert_done())[0];
        let told = ["lock", "id", "lease"].map(|field| line[field].as_str().unwrap());
        assert_eq!(told, ["a", "build-7", &text]);
    }
    let released = home.run(&format!("lease release --json a '{text}'"));
    documented(WORDS, released.assert_done());
    let none = home.run("lease show --json a");
    assert_eq!(none.code, Some(1));
    assert!(documented(WORDS, &none.out)[0]["lease"].is_null());
}

/// Of a semaphore whose number of permits the command is not told, and of a lock that is shared.
#[test]
fn all_leases_of_a_lock_are_shown() {
    let home = Home::new();
    let texts = ["one", "two"].map(|id| acquired(&home, &format!("--id {id} --permits 3 s")));
    let shown = home.run("lease show s");
    shown.assert_shows(&["s: held as one with ticket ", "s: held as two with ticket "]);
    for flags in ["", "--permits 3"] {
        let json = home.run(&format!("lease show --json {flags} s"));
        let lines = documented(WORDS, json.assert_done());
        let found = lines.iter().map(|line| line["lease"].as_str().unwrap());
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|text| text.ends_with("twos"));
        assert_eq!(found, texts);
    }
    let two = home.run("lease show --id two s");
    assert_eq!(two.assert_done().lines().count(), 2, "{two:?}");
    let refused = home.run("lease show --permits 4 s");
    refused.assert_refused(64, &["has 3 permits, and --permits says 4"]);
    for id in ["reads", "'reads too'"] {
        acquired(&home, &format!("--id {id} --shared r"));
    }
    assert_eq!(home.run("lease show r").assert_done().lines().count(), 4);
    acquire(&home, "--id writer r").assert_refused(75, &["`r` was not granted"]);
}

#[test]
fn a_caller_in_the_way_of_which_is_a_lease_is_told_its_name() {
    let home = Home::new();
    acquired(&home, "--id build-7 a");
    let other = acquire(&home, "--id build-8 a");
    other.assert_refused(75, &["`a` was not granted", "fairlock show a"]);
    for flags in ["--wait none", "--quiet --wait 200ms"] {
        let refused = home.run(&format!("run {flags} a -- true"));
        refused.assert_refused(75, &["`a` was not granted", "lease \"build-7\" of "]);
    }
    let waited = home.run("run --wait 200ms a -- true");
    assert!(waited.err.contains("lease `build-7` of "), "{waited:?}");
    home.run("delete a")
        .assert_refused(75, &["as build-7 has it"]);
    home.run("break --yes a")
        .assert_ended(0, &["as build-7: it is free"]);
}

/// No process keeps it, so none could give way.
#[test]
fn a_lease_is_not_asked_to_give_way_and_its_neighbour_is() {
    let home = Home::new();
    let text = acquired(&home, "--id build-7 a");
    let way = "`fairlock lease show --json a --local locks.db`";
    let words = ["lock `a`", "lease `build-7`", "no process keeps", way];
    home.run("ask a").assert_refused(75, &words);
    home.run(&format!("lease release a '{text}'")).assert_done();
    acquired(&home, "--shared --id reads a");
    let asked = home.sh("--shared", "fairlock ask --local locks.db a");
    let words =
        "asked its holder, which the next heartbeat tells; no process heeds it for lease `reads`\n";
    assert!(asked.err.contains(words), "{asked:?}");
}

#[test]
fn an_extension_that_would_end_earlier_leaves_the_end_and_says_so() {
    let home = Home::new();
    let mut last = acquired(&home, "--id build-7 a");
    for _ in 0..3 {
        let same = home.run(&format!("lease extend --for 1m a '{last}'"));
        same.assert_ended(0, &["lease `build-7` lasts until ", "was not made shorter"]);
        let end = |text: &str| text.split(' ').nth(3).unwrap().parse::<u64>().unwrap();
        assert!(end(&same.out) >= end(&last), "{same:?} after {last}");
        last = same.out.trim_end().to_owned();
    }
    home.run(&format!("lease extend --for 10m a '{last}'"))
        .assert_done();
}

/// A pipe whose reader has gone.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Nothing reads the text. Another process that asked under the same name may have found the lease all the same, so it stays.
#[test]
fn a_lease_whose_text_cannot_be_written_stays_and_its_name_finds_it() {
    let home = Home::new();
    let unwritten = |flags: &str, output: Stdio| {
        let mut command = home.command(&format!("lease acquire --for 5m {flags}"));
        said(command.stdout(output))
    };
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for flags in [
        "--id x a",
        "--json --id x b",
        "--wait 5s --id x c",
        "--permits 2 --id x s",
        "--shared --id x r",
    ] {
        let lock = flags.rsplit(' ').next().unwrap();
        let kept = unwritten(flags, full().into());
        let shows = format!("`fairlock lease show --json --id x {lock} --local locks.db`");
        kept.assert_refused(74, &["cannot write the output", &shows]);
        let again = acquire(&home, flags);
        let found = home.json(&format!("lease show --json --id x {lock}"));
        let text = found["lease"].as_str().unwrap();
        assert!(again.assert_done().contains(text), "{again:?} {found}");
    }
    let kept = unwritten("--id x d", unread());
    kept.assert_refused(74, &["cannot write the output"]);
    assert_eq!(home.run("lease show d").code, Some(0));
}

/// The first of two processes under one name is granted the lease, and the second finds it. The first cannot write its text.
#[test]
fn a_lease_that_one_process_cannot_print_stays_for_another_one_that_found_it() {
    let home = Home::new();
    let before = acquired(&home, "--id before a");
    let line = "lease acquire --for 5m --wait 50s --id x a";
    let mut first = home.command(line);
    let mut first = first
        .stdout(unread())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    home.until_waiting(1);
    let second = home.start(line);
    home.until_waiting(2);
    home.run(&format!("lease release a '{before}'"))
        .assert_done();
    assert_eq!(first.wait().unwrap().code(), Some(74));
    let second = second.end();
    second.assert_ended(0, &[]);
    let text = second.out.trim_end();
    home.run(&format!("lease extend --for 5m a '{text}'"))
        .assert_done();
}

/// The names of a lock and of a lease may be anything, and neither breaks a line of a terminal.
#[test]
fn names_of_any_kind_are_shown_escaped_and_printed_as_they_are() {
    let home = Home::new();
    let (lock, id) = ("a\u{1b}[2J b", "7 \u{9b}x");
    let taken = acquire(&home, &format!("--id '{id}' '{lock}'"));
    let text = taken.assert_done().trim_end_matches('\n').to_owned();
    let shown = home.run(&format!("lease show '{lock}'"));
    assert!(!shown.assert_done().contains('\u{1b}'), "{shown:?}");
    home.run(&format!("lease release '{lock}' '{text}'"))
        .assert_done();
}

/// A holder stands before them: `fairlock hold` in the background would do as well, but a lease needs no process.
#[test]
fn a_lease_waits_for_its_turn_and_takes_permits() {
    let home = Home::new();
    let before = acquired(&home, "--id before a");
    let waiting = home.start("lease acquire --id after --for 5m --wait 50s a");
    home.until_waiting(1);
    home.run(&format!("lease release a '{before}'"))
        .assert_done();
    let after = waiting.end();
    after.assert_ended(
        0,
        &["lease `before` of ", "you are next", "granted with ticket"],
    );
    assert!(after.out.contains("after"), "{after:?}");
    let text = after.out.trim_end();
    home.run(&format!("lease release a '{text}'")).assert_done();

    let two = acquired(&home, "--permits 3 --take 2 --id two s");
    let more = acquire(&home, "--permits 3 --take 2 --id more s");
    more.assert_refused(75, &["`s` was not granted"]);
    acquire(&home, "--permits 3 --take 4 --id more s").assert_refused(64, &["permits"]);
    let two = text_of(&home, &format!("extend --for 10m s '{two}'"));
    home.run("lease show --permits 3 s")
        .assert_shows(&["held as two"]);
    text_of(&home, &format!("release s '{two}'"));
}

/// What a command for a lock of three permits prints.
fn text_of(home: &Home, line: &str) -> String {
    let (verb, rest) = line.split_once(' ').unwrap();
    let said = home.run(&format!("lease {verb} --permits 3 {rest}"));
    said.assert_done().trim_end().to_owned()
}

#[test]
fn a_command_that_holds_the_lock_does_not_wait_for_a_lease_of_it() {
    let home = Home::new();
    for (flags, words) in [
        ("--wait 100s", "would wait for itself"),
        ("", "`a` was not granted"),
        ("--wait 100ms --nested", "`a` was not granted"),
    ] {
        let take = "fairlock lease acquire --local locks.db --id x --for 5m";
        let ran = home.sh("", &format!("{take} {flags} a; echo $?"));
        ran.assert_said(0, "75\n");
        assert!(ran.err.contains(words), "{ran:?}");
    }
}

/// As DynamoDB Local: its answers have no `Date`.
#[test]
fn an_engine_without_dates_has_leases_if_this_hosts_clock_is_trusted() {
    real_time(async {
        let cloud = Cloud::at(ServedEngine::dateless().await).await;
        let refused = cloud.run("lease acquire --id x --for 5m a").await;
        refused.assert_refused(69, &["have no `Date`", "--trust-own-clock"]);
        let trusted = async |line: String| cloud.run(&format!("{line} --trust-own-clock")).await;
        let text = text(&trusted("lease acquire --id x --for 5m a".into()).await);
        trusted(format!("lease extend --for 10m a '{text}'"))
            .await
            .assert_done();
        let released = cloud.run(&format!("lease release a '{text}'")).await;
        released.assert_done();
        // Its supervisor has the same flags.
        let ran = cloud.run("run --trust-own-clock a -- true").await;
        ran.assert_done();
        let checked = trusted("table check".into()).await;
        let words = "keep the clocks of their hosts in step";
        assert!(checked.out.contains(words), "{checked:?}");
    });
}
