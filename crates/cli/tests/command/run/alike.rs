//! The command runs as it would without a lock. [`crate::terminal`] compares both at a terminal.

use std::fs::File;
use std::os::unix::process::CommandExt;

use rustix::process::Signal;

use crate::command::{fairlock, heeding, said};
use crate::home::{Home, scripted};

#[test]
fn a_command_finds_lock_and_ticket_in_its_environment_and_the_lock_held() {
    let home = Home::new();
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let script =
            "echo $FAIRLOCK_LOCK $FAIRLOCK_TICKET; fairlock show --json --local locks.db a";
        let ended = home.sh("", script);
        let (named, shown) = ended.assert_done().split_once('\n').unwrap();
        let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
        let ticket = shown["holder"]["ticket"].as_u64().unwrap();
        assert_eq!(named, format!("a {ticket}"));
        tickets.push(ticket);
        assert!(home.is_free());
    }
    assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
}

#[test]
fn exit_codes_are_those_of_the_command_as_a_shell_has_them() {
    let home = Home::new();
    let exits = [0, 1, 7, 64, 75, 76, 126, 255].map(|code| (format!("exit {code}"), code));
    let kills = [("TERM", 143), ("KILL", 137), ("INT", 130), ("SEGV", 139)];
    let kills = kills.map(|(signal, code)| (format!("kill -{signal} $$"), code));
    for (script, code) in exits.into_iter().chain(kills) {
        let ended = home.sh("", &script);
        assert_eq!((ended.code, &*ended.err), (Some(code), ""), "{script}");
    }
    home.write("text", "text");
    for (command, code) in [
        ("no-such-command", 127),
        ("./text", 126),
        ("/", 126),
        ("", 127),
    ] {
        let ended = home.run(&format!("run a -- '{command}'"));
        ended.assert_refused(code, &["cannot run", command]);
    }
    // A script that does not say what runs it is the shell's.
    home.write_script("script", "echo $0 $1; exit 6\n");
    home.run("run a -- ./script a")
        .assert_said(6, "./script a\n");
    assert!(home.is_free());
}

#[test]
fn standard_streams_and_arguments_pass_through_as_they_are() {
    let home = Home::new();
    let mut line = scripted("", "cat; printf '%s|' \"$@\"; echo err >&2");
    line.extend(["sh", "a b", "--help", ""].map(str::to_owned));
    home.write("input", "in\n");
    let input = File::open(home.file("input")).unwrap();
    let ended = said(fairlock(home.path(), &line).stdin(input));
    ended.assert_said(0, "in\na b|--help||");
    assert_eq!(ended.err, "err\n");
}

#[test]
fn a_signal_reaches_the_command_and_its_answer_comes_back() {
    let home = Home::new();
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
        let running = home.start_sh("", &script);
        running.pid_in("pid");
        running.signal(signal);
        running.end().assert_said(9, &format!("got {name}\n"));
        home.remove("pid");
    }
    assert!(home.is_free());
}

/// And nothing else is ignored. When the C library starts a program in one step, it lets the program ignore two of the library's own
/// signals.
#[test]
fn what_was_to_be_ignored_stays_ignored() {
    let home = Home::new();
    let ignored = |before: &str| {
        let script = format!("trap '' HUP USR1; exec {before} grep SigIgn /proc/self/status");
        let mut command = heeding(home.path(), &["sh"], &["-c", &script]);
        // A program that is started this way ignores none of the two, which the library could take back.
        let said = said(command.gid(rustix::process::getgid().as_raw()));
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
    let home = Home::new();
    home.write("log", vec![b'x'; 1 << 20]);
    // The file of the locks is shorter by far. The limit is in blocks of 512 bytes.
    let ask = "fairlock ask --local locks.db --reason please a";
    let line = format!(
        "ulimit -f 2048; exec fairlock run --lease 4s --local locks.db a -- sh -c '{ask}; sleep 3; echo done' 2>> log"
    );
    said(&mut heeding(home.path(), &["sh"], &["-c", &line])).assert_said(0, "done\n");
}

/// What a system sends for limits and timers is none of the supervisor's, and the command may handle it as it likes.
#[test]
fn the_supervisor_outlives_the_signals_of_limits_and_the_command_has_their_default() {
    let home = Home::new();
    let script = "cat /proc/$PPID/comm; grep -h -e SigCgt /proc/$PPID/status; grep -h -e SigIgn -e SigCgt /proc/self/status";
    let told = home.sh("", script);
    // It has the name of its program.
    let masks = told.assert_done().strip_prefix("fairlock\n").unwrap();
    let mask = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16);
    let masks: Vec<_> = masks.lines().map(|line| mask(line).unwrap()).collect();
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
        let is_in = |mask: &u64| mask >> (signal.as_raw() - 1) & 1;
        let found: Vec<_> = masks.iter().map(is_in).collect();
        assert_eq!(found, [1, 0, 0], "{signal:?}");
    }
}
