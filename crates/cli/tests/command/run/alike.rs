//! The command runs as it would without a lock.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, kill_process};

use super::running::{Running, home, is_alive, is_free, run, run_line, sh, until};
use crate::command::{fairlock, path, said};

#[test]
fn a_command_finds_lock_and_ticket_in_its_environment_and_the_lock_held() {
    let home = home();
    let script = "echo $FAIRLOCK_LOCK $FAIRLOCK_TICKET; fairlock show --json --local locks.db a";
    let ended = sh(home.path(), script);
    let mut lines = ended.assert_done().lines();
    let ticket = lines.next().unwrap().strip_prefix("a ").unwrap();
    let shown: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(shown["holder"]["ticket"].to_string(), ticket);
    assert!(is_free(home.path()));
}

#[test]
fn tickets_grow_from_turn_to_turn() {
    let home = home();
    let ticket = || -> u64 {
        let ended = sh(home.path(), "echo $FAIRLOCK_TICKET");
        ended.assert_done().trim().parse().unwrap()
    };
    let tickets = [ticket(), ticket(), ticket()];
    assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
}

#[test]
fn exit_codes_are_those_of_the_command_as_a_shell_has_them() {
    let home = home();
    for code in [0, 1, 7, 64, 75, 76, 126, 255] {
        let ended = sh(home.path(), &format!("exit {code}"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""));
    }
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("INT", 130), ("SEGV", 139)] {
        let ended = sh(home.path(), &format!("kill -{signal} $$"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""));
    }
    fs::write(home.path().join("text"), "text").unwrap();
    for (command, code) in [
        ("no-such-command", 127),
        ("./text", 126),
        ("/", 126),
        ("", 127),
    ] {
        let ended = run(home.path(), &[], &[command]);
        ended.assert_refused(code, &["cannot run", command]);
    }
    assert!(is_free(home.path()));
}

#[test]
fn a_script_that_does_not_say_what_runs_it_is_the_shells() {
    let home = home();
    let script = home.path().join("script");
    fs::write(&script, "echo $0 $1; exit 6\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = run(home.path(), &[], &["./script", "a"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(6), "./script a\n"));
}

#[test]
fn standard_streams_and_arguments_pass_through_as_they_are() {
    let home = home();
    let line = run_line(
        &[],
        &[
            "sh",
            "-c",
            "cat; printf '%s|' \"$@\"; echo err >&2",
            "sh",
            "a b",
            "--help",
            "",
        ],
    );
    let mut command = fairlock(home.path(), &line);
    let input = home.path().join("input");
    fs::write(&input, "in\n").unwrap();
    let ended = said(command.stdin(fs::File::open(&input).unwrap()));
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "in\na b|--help||")
    );
    assert_eq!(ended.err, "err\n");
}

#[test]
fn output_ends_when_the_command_ends_it_and_not_later() {
    let home = home();
    let mut running = Running::start(
        home.path(),
        &[],
        "echo $$ > pid; echo out; exec >&-; sleep 60",
    );
    let mut out = String::new();
    running
        .process
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(out, "out\n");
    let command = running.pid_in("pid");
    assert!(is_alive(command));
    running.signal(Signal::TERM);
    until("the command to end", || !is_alive(command));
}

#[test]
fn what_the_command_leaves_behind_goes_on_when_it_ends_by_itself() {
    let home = home();
    let running = Running::start(
        home.path(),
        &[],
        "setsid sleep 60 >/dev/null 2>&1 & echo $! > pid",
    );
    let left = running.pid_in("pid");
    assert_eq!(running.end().0, 0);
    assert!(is_alive(left));
    assert!(is_free(home.path()));
    kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn a_signal_reaches_the_command_and_its_answer_comes_back() {
    let home = home();
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("ALRM", Signal::ALARM),
        ("XCPU", Signal::XCPU),
    ] {
        let script = format!(
            "trap 'echo got {name}; exit 9' {name}; echo $$ > pid; while :; do sleep 0.05; done"
        );
        let running = Running::start(home.path(), &[], &script);
        running.pid_in("pid");
        running.signal(signal);
        let (code, out, err) = running.end();
        assert_eq!((code, out), (9, format!("got {name}\n")), "{err}");
        fs::remove_file(home.path().join("pid")).unwrap();
    }
    assert!(is_free(home.path()));
}

/// And nothing else is ignored. When the C library starts a program in one step, it lets the program ignore two of the library's own
/// signals.
#[test]
fn what_was_to_be_ignored_stays_ignored() {
    let home = home();
    let ignored = |before: &str| {
        let script = format!("trap '' HUP USR1; exec {before} grep SigIgn /proc/self/status");
        let mut command = Command::new("env");
        command.args(["--default-signal", "sh", "-c", &script]);
        // A program that is started this way ignores none of the two, which the library could take back.
        command.gid(rustix::process::getgid().as_raw());
        let said = said(command.current_dir(home.path()).env("PATH", path()));
        let mask = said.out.trim().strip_prefix("SigIgn:").unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap()
    };
    let (without, with) = (ignored(""), ignored("fairlock run --local locks.db a --"));
    assert_eq!(without & (1 << 32 | 0xffff), 1 | 1 << 9, "{without:x}");
    assert_eq!(with, without, "{with:x}");
}

/// The log is as long as it may be when `fairlock` says that another asks for the lock.
#[test]
fn a_file_that_is_too_long_for_fairlock_ends_neither_it_nor_the_command() {
    let home = home();
    fs::write(home.path().join("log"), [b'x'; 1 << 20]).unwrap();
    // The file of the locks is shorter by far. The limit is in blocks of 512 bytes.
    let ask = "fairlock ask --local locks.db --reason please a";
    let line = format!(
        "ulimit -f 2048; exec fairlock run --lease 1s --local locks.db a -- sh -c '{ask}; sleep 2; echo done' 2>> log"
    );
    let mut command = Command::new("env");
    command.args(["--default-signal", "sh", "-c", &line]);
    let ended = said(command.current_dir(home.path()).env("PATH", path()));
    assert_eq!((ended.code, &*ended.out), (Some(0), "done\n"), "{ended:?}");
}

/// What a system sends for limits and timers is none of the supervisor's, and the command may handle it as it likes.
#[test]
fn the_supervisor_outlives_the_signals_of_limits_and_the_command_has_their_default() {
    let home = home();
    let masks = sh(
        home.path(),
        "grep -h -e SigCgt /proc/$PPID/status; grep -h -e SigIgn -e SigCgt /proc/self/status",
    );
    let mask = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16);
    let masks: Vec<_> = masks.assert_done().lines().map(mask).collect();
    for signal in [
        Signal::XFSZ,
        Signal::XCPU,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::TTOU,
        Signal::TTIN,
    ] {
        let is_in = |mask: &Result<u64, _>| mask.clone().unwrap() >> (signal.as_raw() - 1) & 1;
        let found: Vec<_> = masks.iter().map(is_in).collect();
        assert_eq!(found, [1, 0, 0], "{signal:?}");
    }
}

#[test]
fn the_supervisor_has_the_name_of_its_program() {
    let home = home();
    let named = sh(home.path(), "cat /proc/$PPID/comm");
    assert_eq!(named.assert_done(), "fairlock\n");
}
