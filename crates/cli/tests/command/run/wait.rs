//! The wait for the lock, and what the user is told of it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::running::{Running, has_a_successor, home, run, run_line, sh, shown, until};
use crate::command::{fairlock, said};

#[test]
fn a_held_lock_is_told_with_its_holder_and_what_to_do_and_the_code_is_the_callers() {
    let home = home();
    let running = Running::start(
        home.path(),
        &["--owner", "the nightly job"],
        "echo $$ > pid; sleep 60",
    );
    running.pid_in("pid");
    for (flags, code) in [
        (&["--wait", "none"][..], 75),
        (&["--quiet", "--wait", "200ms"], 75),
        (&["--wait", "none", "--conflict-exit-code", "0"], 0),
        (&["--wait", "none", "-E", "33"], 33),
    ] {
        let ended = run(home.path(), flags, &["touch", "ran"]);
        ended.assert_refused(
            code,
            &["`a`", "the nightly job", "fairlock show a --local locks.db"],
        );
    }
    assert!(!home.path().join("ran").exists());
    running.signal(Signal::TERM);
    assert_eq!(running.end().0, 143);
}

#[test]
fn who_waits_has_the_turn_when_the_one_before_is_done_in_the_order_of_coming() {
    let home = home();
    let first = Running::start(
        home.path(),
        &[],
        "echo $$ > pid; until [ -e go ]; do sleep 0.05; done; echo 0 >> order",
    );
    first.pid_in("pid");
    let waiting: Vec<_> = (1..=3)
        .map(|number| {
            let flags = [
                "--quiet",
                "--wait",
                "infinite",
                "--owner",
                &format!("w{number}"),
            ];
            let running = Running::start(home.path(), &flags, &format!("echo {number} >> order"));
            until("a place in the queue", || {
                let shown = said(&mut fairlock(
                    home.path(),
                    &["show", "--local", "locks.db", "a"],
                ));
                shown.out.contains(&format!("w{number}"))
            });
            running
        })
        .collect();
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(first.end().0, 0);
    for running in waiting {
        let (code, _, err) = running.end();
        assert_eq!((code, err.as_str()), (0, ""));
    }
    let order = fs::read_to_string(home.path().join("order")).unwrap();
    assert_eq!(order, "0\n1\n2\n3\n");
}

/// As in containers and units, whose environment names no user.
#[test]
fn whoever_runs_without_an_environment_is_named_all_the_same() {
    let home = home();
    let script = "env -i \"$(command -v fairlock)\" show --json --local locks.db a";
    let mut command = fairlock_as_nobody(home.path(), script);
    let shown: serde_json::Value = serde_json::from_str(&said(&mut command).out).unwrap();
    let owner = shown["holder"]["owner"].as_str().unwrap();
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap();
    assert!(owner.starts_with(&format!("{}@", user.trim())), "{owner}");
}

fn fairlock_as_nobody(home: &Path, script: &str) -> Command {
    let mut command = fairlock(home, &run_line(&[], &["sh", "-c", script]));
    for name in ["USER", "LOGNAME", "USERNAME"] {
        command.env_remove(name);
    }
    command
}

/// The successor is notified, and polls hardly. A command without `--notify` takes part in the same queue.
#[test]
fn commands_that_are_notified_take_their_turns_in_order() {
    let home = home();
    let script = "echo $$ > pid; until [ -e go ]; do sleep 0.05; done; echo first >> turns";
    let first = Running::start(home.path(), &["--notify"], script);
    first.pid_in("pid");
    let waits = |count: u64| shown(home.path())["waiting"].as_u64() == Some(count);
    let mut others = Vec::new();
    for (at, flags) in [&["--notify=127.0.0.1"][..], &[], &["--notify"]]
        .iter()
        .enumerate()
    {
        let script = format!("echo {at} >> turns");
        others.push(Running::start(home.path(), flags, &script));
        until("a place in the queue", || waits(at as u64 + 1));
    }
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(first.end().0, 0);
    for other in others {
        assert_eq!(other.end().0, 0);
    }
    let turns = fs::read_to_string(home.path().join("turns")).unwrap();
    assert_eq!(
        turns.split_whitespace().collect::<Vec<_>>(),
        ["first", "0", "1", "2"]
    );
}

#[test]
fn an_address_at_which_nobody_is_notified_is_refused() {
    let home = home();
    for (flag, words) in [
        ("--notify=nowhere", "neither an address"),
        ("--notify=0.0.0.0", "names no host"),
        (
            "--notify=203.0.113.1",
            "cannot be notified at 203.0.113.1:0",
        ),
    ] {
        let told = run(home.path(), &[flag], &["true"]);
        assert_eq!(told.code, Some(64), "{told:?}");
        assert!(told.err.contains(words), "{told:?}");
    }
}

/// Nothing is drawn without a terminal, so the wait is reported in lines.
#[test]
fn without_a_terminal_the_wait_is_told_when_it_begins_and_when_it_ends() {
    for flags in [&[][..], &["--verbose"], &["--quiet"]] {
        let home = home();
        let script = "echo $$ > pid; until [ -e go ]; do sleep 0.05; done";
        let first = Running::start(home.path(), &["--owner", "alice"], script);
        first.pid_in("pid");
        let waits = |count: u64| shown(home.path())["waiting"].as_u64() == Some(count);
        let second = Running::start(home.path(), &["--owner", "bob"], "sleep 0.2");
        until("a place in the queue", || waits(1));
        let third = Running::start(home.path(), flags, "true");
        until("a place in the queue", || waits(2));
        fs::write(home.path().join("go"), "").unwrap();
        assert_eq!((first.end().0, second.end().0), (0, 0));
        let (code, _, err) = third.end();
        assert_eq!(code, 0, "{err}");
        let lines: Vec<_> = err.lines().collect();
        let told = |line: usize, words: &[&str]| {
            let line = lines[line].strip_prefix("fairlock: lock `a`: ").unwrap();
            assert!(words.iter().all(|word| line.contains(word)), "{line}");
        };
        match flags {
            ["--quiet"] => assert_eq!(lines, [""; 0]),
            [] => {
                assert_eq!(lines.len(), 2, "{err}");
                told(0, &["alice has it, 1 waits before you"]);
                told(1, &["granted with ticket", " after "]);
            }
            _ => {
                told(0, &["alice has it, 1 waits before you"]);
                told(1, &["bob has it, you are next"]);
                told(lines.len() - 1, &["granted with ticket"]);
            }
        }
    }
}

#[test]
fn a_wait_that_is_interrupted_leaves_the_queue_and_runs_nothing() {
    let home = home();
    let first = Running::start(home.path(), &[], "echo $$ > pid; sleep 60");
    first.pid_in("pid");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let waiting = Running::start(home.path(), &["--wait", "infinite"], "touch ran");
        let line = || shown(home.path())["waiting"].as_u64().unwrap();
        until("a place in the queue", || line() == 1);
        waiting.signal(signal);
        assert_eq!(waiting.end().0, code);
        assert_eq!(line(), 0);
    }
    assert!(!home.path().join("ran").exists());
    first.signal(Signal::KILL);
}

#[test]
fn a_lease_is_kept_for_as_long_as_the_command_runs() {
    let home = home();
    let ended = run(home.path(), &["--lease", "1s"], &["sleep", "3"]);
    ended.assert_done();
}

#[test]
fn a_setting_that_makes_no_sense_is_refused_and_nothing_runs() {
    let home = home();
    for (flags, words) in [
        (&["--lease", "500ms"][..], ["--lease", "1s"]),
        (
            &["--lease", "30s", "--kill-after", "11s"],
            ["--kill-after", "--lease"],
        ),
        (&["--lease", "25h"], ["lease", "one day"]),
        (&["--owner", ""], ["owner", "512"]),
        (&["--namespace", "a/b"], ["namespace", "/"]),
    ] {
        run(home.path(), flags, &["touch", "ran"]).assert_refused(64, &words);
    }
    assert!(!home.path().join("ran").exists());
}

#[test]
fn a_turn_that_would_wait_for_the_command_in_which_it_runs_is_refused_at_once() {
    let home = home();
    let line = |flags: &str, command: &str| {
        format!("fairlock run --local locks.db --wait infinite {flags} -- {command}")
    };
    for inner in [
        line("a", "touch ran"),
        // Through another lock, and by another path to the same file.
        line(
            "b",
            &line("--local ./locks.db a", "touch ran").replacen("--local locks.db ", "", 1),
        ),
    ] {
        let ended = run(home.path(), &[], &["sh", "-c", &inner]);
        ended.assert_refused(75, &["`a`", "wait for itself", "--nested"]);
    }
    for (flags, code) in [
        ("-E 7 a", 7),
        ("--nested --wait 300ms a", 75),
        ("--namespace x a", 0),
        ("b", 0),
    ] {
        let inner = line(flags, "true").replace("--wait infinite --nested", "--nested");
        let ended = run(home.path(), &[], &["sh", "-c", &inner]);
        assert_eq!(ended.code, Some(code), "{flags}: {ended:?}");
    }
    assert!(!home.path().join("ran").exists());
    // Contents that another program has written there have no effect.
    for held in ["", "x", "[]", r#"[{"lock": "a"}]"#] {
        let mut command = fairlock(home.path(), &run_line(&[], &["true"]));
        said(command.env("FAIRLOCK_HELD", held)).assert_done();
    }
}

#[test]
fn the_librarys_log_is_on_standard_error_if_it_is_asked_for() {
    let home = home();
    let logged = |filter: &str| {
        let mut command = fairlock(home.path(), &run_line(&[], &["true"]));
        let ended = said(command.env("RUST_LOG", filter));
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
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
    let home = home();
    let script = "date --utc +%FT%T.%3NZ; fairlock show --json --local locks.db a";
    // If the lock has been used before, entering it takes one write.
    for _ in 0..2 {
        let ended = sh(home.path(), script);
        let (began, shown) = ended.assert_done().split_once('\n').unwrap();
        let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
        assert!(shown["holder"]["lease_left_ms"].is_u64(), "{shown}");
        // Texts of this form sort in the order of their times.
        let since = shown["held_since"].as_str().unwrap();
        assert!(since <= began, "{began}: {shown}");
    }
}

#[test]
fn whoever_waits_without_a_supervisor_waits_no_longer() {
    let home = home();
    let first = Running::start(home.path(), &[], "echo $$ > pid; sleep 60");
    first.pid_in("pid");
    let second = Running::start(home.path(), &["--wait", "infinite"], "touch ran");
    until("a queue", || has_a_successor(home.path()));
    let line = || shown(home.path())["queue"].as_array().map(Vec::len);
    kill_process(supervisor_below(second.pid()), Signal::KILL).unwrap();
    let (code, _, err) = second.end();
    assert_eq!(code, 70, "{err}");
    assert!(
        err.contains("the supervisor was killed, so the wait was ended"),
        "{err}"
    );
    until("the end of the queue", || line() == Some(0));
    drop(first);
    assert!(!home.path().join("ran").exists());
}

#[test]
fn a_supervisor_that_was_stopped_during_the_wait_starts_the_command() {
    let home = home();
    let first = Running::start(home.path(), &[], "echo $$ > pid; sleep 60");
    let holder = first.pid_in("pid");
    let second = Running::start(home.path(), &["--wait", "infinite"], "touch ran");
    until("a queue", || has_a_successor(home.path()));
    kill_process(supervisor_below(second.pid()), Signal::STOP).unwrap();
    kill_process(holder, Signal::TERM).unwrap();
    let (code, _, err) = second.end();
    assert_eq!(code, 0, "{err}");
    assert!(home.path().join("ran").exists());
    drop(first);
}

/// The only child of a process that waits.
fn supervisor_below(parent: Pid) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", parent.as_raw_pid());
    let child = fs::read_to_string(children).unwrap();
    Pid::from_raw(child.trim().parse().unwrap()).unwrap()
}

/// Standard error is a pipe that is full already, and is not read. Neither the end of the wait nor the command waits for that.
#[test]
fn what_nobody_reads_holds_up_nobody() {
    let home = home();
    let first = Running::start(
        home.path(),
        &[],
        "echo $$ > pid; until [ -e go ]; do sleep 0.05; done",
    );
    first.pid_in("pid");
    let unread = |flags: &[&str], command: &[&str]| {
        let (read, mut write) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        while write.write(&[0; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&write, false).unwrap();
        let mut running = fairlock(home.path(), &run_line(flags, command));
        (
            read,
            running.stdin(Stdio::null()).stderr(write).spawn().unwrap(),
        )
    };
    let (_unread, mut wrong) = unread(&["--bogus"], &["true"]);
    assert_eq!(wrong.wait().unwrap().code(), Some(64));
    let (_unread, mut vain) = unread(&["--verbose", "--wait", "500ms"], &["true"]);
    assert_eq!(vain.wait().unwrap().code(), Some(75));
    let (_unread, mut stopped) = unread(&["--verbose", "--wait", "infinite"], &["true"]);
    let (_too, mut next) = unread(&["--verbose", "--wait", "infinite"], &["touch", "ran"]);
    let line = || shown(home.path())["queue"].as_array().map(Vec::len);
    until("two in the queue", || line() == Some(2));
    // `timeout` passes on the signals that it receives.
    kill_process(Pid::from_child(&stopped), Signal::TERM).unwrap();
    assert!(!stopped.wait().unwrap().success());
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(next.wait().unwrap().code(), Some(0));
    assert!(home.path().join("ran").exists());
    assert_eq!(first.end().0, 0);
}

/// Elsewhere than at a terminal too, unless it is to be quiet.
#[test]
fn a_waiter_whose_place_is_broken_says_by_whom_and_why_and_waits_on() {
    for (flags, is_told) in [
        (&["--owner", "w"][..], true),
        (&["--owner", "w", "-q"], false),
    ] {
        let home = home();
        let holder = Running::start(
            home.path(),
            &[],
            "echo $$ > pid; until [ -e go ]; do sleep 0.05; done",
        );
        holder.pid_in("pid");
        let waiter = Running::start(home.path(), flags, "true");
        until("a successor", || has_a_successor(home.path()));
        let ticket = || shown(home.path())["queue"][0]["ticket"].clone();
        let before = ticket();
        let number = before.to_string();
        let line = [
            "break",
            "--local",
            "locks.db",
            "--yes",
            "--reason",
            "out of turn",
            "--ticket",
        ];
        let line = [&line[..], &[&*number, "a"]].concat();
        assert_eq!(said(&mut fairlock(home.path(), &line)).code, Some(0));
        until("another place", || {
            has_a_successor(home.path()) && ticket() != before
        });
        fs::write(home.path().join("go"), "").unwrap();
        assert_eq!(holder.end().0, 0);
        let (code, _, err) = waiter.end();
        assert_eq!(code, 0, "{err}");
        let told = err.lines().filter(|line| {
            line.starts_with("fairlock: lock `a`: its place in the queue was lost: ")
                && line.ends_with(" broke it: out of turn; waits again, at the end")
        });
        assert_eq!(told.count(), usize::from(is_told), "{err}");
    }
}
