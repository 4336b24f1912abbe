//! The wait for the lock, and what the user is told of it.

use std::io::Write;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::command::{rows, said};
use crate::home::Home;
use crate::running::{child_of, until};

#[test]
fn a_held_lock_is_told_with_its_holder_and_what_to_do_and_the_code_is_the_callers() {
    let home = Home::new();
    let running = home.held("--owner 'the nightly job'");
    for (flags, code) in [
        ("--wait none", 75),
        ("--quiet --wait 200ms", 75),
        ("--wait none --conflict-exit-code 0", 0),
        ("--wait none -E 33", 33),
    ] {
        let ended = home.run(&format!("run {flags} a -- touch ran"));
        let show = "fairlock show a --local locks.db";
        ended.assert_refused(code, &["`a`", "the nightly job", show]);
    }
    // A wait that is interrupted leaves the queue.
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let waiting = home.start("run --wait infinite a -- touch ran");
        home.until_waiting(1);
        waiting.signal(signal);
        waiting.end().assert_ended(code, &[]);
        assert_eq!(home.shown()["waiting"], 0);
    }
    assert!(!home.has("ran"));
    running.signal(Signal::TERM);
    running.end().assert_ended(143, &[]);
}

/// A notified successor hardly polls. A command without `--notify` takes part in the same queue.
#[test]
fn who_waits_has_the_turn_when_the_one_before_is_done_in_the_order_of_coming() {
    for all_flags in [
        ["", "", "", ""],
        ["--notify", "--notify=127.0.0.1", "", "--notify"],
    ] {
        let home = Home::new();
        let first = home.held(all_flags[0]);
        let mut waiting = Vec::new();
        for (at, flags) in all_flags[1..].iter().enumerate() {
            let flags = format!("--quiet --wait infinite {flags}");
            waiting.push(home.start_sh(&flags, &format!("echo {at} >> order")));
            home.until_waiting(at + 1);
        }
        home.go();
        first.end().assert_ended(0, &[]);
        for running in waiting {
            running.end().assert_done();
        }
        assert_eq!(home.read("order"), "0\n1\n2\n", "{all_flags:?}");
    }
}

/// As in containers and units, whose environment names no user.
#[test]
fn whoever_runs_without_an_environment_is_named_all_the_same() {
    let home = Home::new();
    let script = "env -i \"$(command -v fairlock)\" show --json --local locks.db a";
    let shown: Value = serde_json::from_str(&home.sh("", script).out).unwrap();
    let owner = shown["holder"]["owner"].as_str().unwrap();
    let user = said(Command::new("id").arg("-un")).out;
    assert!(owner.starts_with(&format!("{}@", user.trim())), "{owner}");
}

#[test]
fn a_setting_that_makes_no_sense_is_refused_and_nothing_runs() {
    let home = Home::new();
    const REFUSED: &str = "
        --lease 500ms                | --lease      | 1s
        --lease 30s --kill-after 11s | --kill-after | --lease
        --lease 25h                  | lease        | one day
        --owner ''                   | owner        | 512
        --namespace a/b              | namespace    | /
        --permits 0                  | permits      | 1 to 1000
        --permits 1001               | 1001         | 1 to 1000
        --permits 3 --take 4         | 4            | 1 to 3
        --permits 3 --take 0         | 0            | 1 to 3
        --max-hold 1s --min-hold 2s  | max_hold     | min_hold
        --safety-margin 30s          | --lease      | --safety-margin
        --safety-margin 1h           | --lease      | --safety-margin
        --safety-margin 29950ms      | --lease      | --safety-margin
        --notify=0.0.0.0             | 0.0.0.0      | names no host
        --notify=203.0.113.1         | 203.0.113.1  | cannot be notified at
    ";
    for [flags, one, other] in rows(REFUSED) {
        let refused = home.run(&format!("run {flags} a -- touch ran"));
        refused.assert_refused(64, &[one, other]);
    }
    assert!(!home.has("ran"));
}

/// Nothing is drawn without a terminal, so the wait is reported in lines.
#[test]
fn without_a_terminal_the_wait_is_told_when_it_begins_and_when_it_ends() {
    for flags in ["", "--verbose", "--quiet"] {
        let home = Home::new();
        let first = home.held("--owner alice");
        let second = home.start_sh("--owner bob", "sleep 0.2");
        home.until_waiting(1);
        let third = home.start(&format!("run {flags} a -- true"));
        home.until_waiting(2);
        home.go();
        first.end().assert_ended(0, &[]);
        second.end().assert_ended(0, &[]);
        let third = third.end();
        third.assert_ended(0, &[]);
        let mut lines: Vec<_> = third.err.lines().collect();
        if flags == "--verbose" {
            // It may tell how long it waits, too.
            lines.splice(2..lines.len() - 1, []);
        }
        let expected = match flags {
            "" => &["alice has it, 1 waits before you", "granted with ticket"][..],
            "--verbose" => &[
                "alice has it, 1 waits before you",
                "bob has it, you are next",
                "granted with ticket",
            ],
            _ => &[],
        };
        assert_eq!(lines.len(), expected.len(), "{third:?}");
        for (line, words) in lines.iter().zip(expected) {
            let line = line.strip_prefix("fairlock: lock `a`: ").unwrap();
            assert!(line.contains(words), "{line}");
            assert_eq!(
                line.contains(" after "),
                words.starts_with("granted"),
                "{line}"
            );
        }
    }
}

#[test]
fn a_turn_that_would_wait_for_the_command_in_which_it_runs_is_refused_at_once() {
    let home = Home::new();
    let fairlock = "fairlock run --local locks.db --wait infinite";
    // Also through another lock, and by another path to the same file.
    let through = "fairlock run --wait infinite --local ./locks.db a -- touch ran";
    for inner in [
        format!("{fairlock} a -- touch ran"),
        format!("{fairlock} b -- {through}"),
    ] {
        let ended = home.sh("", &inner);
        ended.assert_refused(75, &["`a`", "wait for itself", "--nested"]);
    }
    for (flags, code) in [
        ("--wait infinite -E 7 a", 7),
        ("--nested --wait 300ms a", 75),
        ("--wait infinite --namespace x a", 0),
        ("--wait infinite b", 0),
    ] {
        let ended = home.sh(
            "",
            &format!("fairlock run --local locks.db {flags} -- true"),
        );
        assert_eq!(ended.code, Some(code), "{flags}: {ended:?}");
    }
    assert!(!home.has("ran"));
    // Contents that another program has written there have no effect.
    for held in ["", "x", "[]", r#"[{"lock": "a"}]"#] {
        let mut command = home.command("run a -- true");
        said(command.env("FAIRLOCK_HELD", held)).assert_done();
    }
}

#[test]
fn the_librarys_log_is_on_standard_error_if_it_is_asked_for() {
    let home = Home::new();
    let logged = |filter: &str| {
        let ended = said(home.command("run a -- true").env("RUST_LOG", filter));
        ended.assert_said(0, "");
        ended.err
    };
    assert_eq!(logged(""), "");
    assert_eq!(logged("fairlock=warn"), "");
    let refused = logged("fairlock=loud");
    assert!(refused.contains("RUST_LOG=fairlock=loud"), "{refused}");
    let told = logged("fairlock=debug");
    assert!(
        told.contains("granted") && told.contains("released"),
        "{told}"
    );
}

/// It may be killed in its first second. The next night's command must not take its hold for a live one.
#[test]
fn a_turn_has_a_date_from_its_first_moment() {
    let home = Home::new();
    let script = "date --utc +%FT%T.%3NZ; fairlock show --json --local locks.db a";
    // If the lock has been used before, entering it takes one write.
    for _ in 0..2 {
        let ended = home.sh("", script);
        let (began, shown) = ended.assert_done().split_once('\n').unwrap();
        let shown: Value = serde_json::from_str(shown).unwrap();
        assert!(shown["holder"]["lease_left_ms"].is_u64(), "{shown}");
        // Texts of this form sort in the order of their times.
        let since = shown["held_since"].as_str().unwrap();
        assert!(since <= began, "{began}: {shown}");
    }
}

/// And one whose supervisor was stopped in the meantime starts its command.
#[test]
fn whoever_waits_without_a_supervisor_waits_no_longer() {
    let home = Home::new();
    let first = home.held("");
    let second = home.start("run --wait infinite a -- touch ran");
    home.until_successor();
    kill_process(child_of(second.pid()), Signal::KILL).unwrap();
    let words = "the supervisor was killed, so the wait was ended";
    second.end().assert_ended(70, &[words]);
    home.until_waiting(0);
    assert!(!home.has("ran"));
    let third = home.start("run --wait infinite a -- touch ran");
    home.until_successor();
    kill_process(child_of(third.pid()), Signal::STOP).unwrap();
    kill_process(first.pid_in("held"), Signal::TERM).unwrap();
    third.end().assert_ended(0, &[]);
    assert!(home.has("ran"));
}

/// Standard error is a pipe that is full already, and is not read. Neither the end of the wait nor the command waits for that.
#[test]
fn what_nobody_reads_holds_up_nobody() {
    let home = Home::new();
    let first = home.held("");
    let unread = |line: &str| {
        let (read, mut write) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        while write.write(&[0; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&write, false).unwrap();
        (read, home.command(line).stderr(write).spawn().unwrap())
    };
    for (flags, code) in [("--bogus", 64), ("--verbose --wait 500ms", 75)] {
        let (_unread, mut vain) = unread(&format!("run {flags} a -- true"));
        assert_eq!(vain.wait().unwrap().code(), Some(code));
    }
    let (_unread, mut stopped) = unread("run --verbose --wait infinite a -- true");
    let (_too, mut next) = unread("run --verbose --wait infinite a -- touch ran");
    home.until_waiting(2);
    // `timeout` passes on the signals that it receives.
    kill_process(Pid::from_child(&stopped), Signal::TERM).unwrap();
    assert!(!stopped.wait().unwrap().success());
    home.go();
    assert_eq!(next.wait().unwrap().code(), Some(0));
    assert!(home.has("ran"));
    first.end().assert_ended(0, &[]);
}

/// Elsewhere than at a terminal too, unless it is to be quiet.
#[test]
fn a_waiter_whose_place_is_broken_says_by_whom_and_why_and_waits_on() {
    for (flags, is_told) in [("", true), ("-q", false)] {
        let home = Home::new();
        let holder = home.held("");
        let waiter = home.start(&format!("run --owner w {flags} a -- true"));
        home.until_successor();
        let ticket = || home.shown()["queue"][0]["ticket"].clone();
        let before = ticket();
        let line = format!("break --yes --reason 'out of turn' --ticket {before} a");
        assert_eq!(home.run(&line).code, Some(0));
        until("another place", || {
            home.has_a_successor() && ticket() != before
        });
        home.go();
        holder.end().assert_ended(0, &[]);
        let waiter = waiter.end();
        waiter.assert_ended(0, &[]);
        let told = waiter.err.lines().filter(|line| {
            line.starts_with("fairlock: lock `a`: its place in the queue was lost: ")
                && line.ends_with(" broke it: out of turn; waits again, at the end")
        });
        assert_eq!(told.count(), usize::from(is_told), "{waiter:?}");
    }
}
