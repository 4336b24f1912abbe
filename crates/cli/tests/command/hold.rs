//! `fairlock hold`: a lock that a script holds, until it says so.

use std::fs::File;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::command::{said, shell, signalled, words};
use crate::home::Home;
use crate::inspect::schema::documented;
use crate::running::{Running, until};

fn start(home: &Home, flags: &str) -> Running {
    let line = words(&format!("hold --local locks.db {flags} a"));
    let mut command = signalled(home.path(), &line);
    Running::spawn(command.stdin(Stdio::piped()), home.path())
}

#[test]
fn it_prints_the_ticket_and_holds_the_lock_until_its_input_ends_or_a_signal_comes() {
    let home = Home::new();
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
    for end in [None].into_iter().chain(signals.map(Some)) {
        let mut holding = start(&home, "");
        let ticket = holding.line();
        assert_eq!(ticket, format!("{}\n", home.shown()["newest_ticket"]));
        assert!(!home.is_free());
        match end {
            Some(signal) => holding.signal(signal),
            None => holding.close(),
        }
        assert_eq!(holding.end().assert_done(), "", "{end:?}");
        assert!(home.is_free(), "{end:?}");
    }
}

#[test]
fn a_lock_that_another_has_is_waited_for_until_a_signal_or_not_at_all() {
    let home = Home::new();
    let mut holder = start(&home, "");
    holder.line();
    for (flags, code) in [("", 75), ("-E 3", 3)] {
        let refused = home.run(&format!("hold --wait none {flags} a"));
        refused.assert_refused(code, &["`a` was not granted"]);
    }
    let waits = start(&home, "--quiet");
    home.until_successor();
    waits.signal(Signal::TERM);
    waits.end().assert_ended(128 + 15, &[]);
    home.until_waiting(0);
    holder.close();
    holder.end().assert_ended(0, &[]);
}

#[test]
fn the_line_of_json_is_as_documented() {
    let home = Home::new();
    let mut holding = start(&home, "--json --also b");
    let held = documented("A hold,", &holding.line()).remove(0);
    assert_eq!(held["lock"], "a");
    assert_eq!(held["ticket"], held["tickets"]["a"]);
    assert!(held["tickets"]["b"].is_u64());
    holding.close();
    holding.end().assert_ended(0, &[]);
}

#[test]
fn a_lost_lock_ends_it() {
    let home = Home::new();
    let mut holding = start(&home, "--lost-exit-code 5");
    holding.line();
    home.remove("locks.db");
    let ended = holding.end();
    ended.assert_ended(5, &["lock `a` was lost"]);
    assert!(!ended.err.contains("command"), "it runs none: {ended:?}");
}

/// Its supervisor releases the lock, long before the lease ends.
#[test]
fn a_killed_one_leaves_nothing_behind() {
    let home = Home::new();
    let mut holding = start(&home, "--lease 10m");
    holding.line();
    holding.signal(Signal::KILL);
    until("a free lock", || home.is_free());
    holding.end().assert_ended(128 + 9, &[]);
    // What it runs is of no use by itself.
    for line in ["holder", "holder --json"] {
        said(&mut home.bare(line)).assert_refused(64, &["`fairlock hold`"]);
    }
}

#[test]
fn a_reader_of_the_ticket_that_has_gone_does_not_end_it() {
    let home = Home::new();
    let mut fifo = Command::new("mkfifo");
    assert!(fifo.arg(home.file("input")).status().unwrap().success());
    let script = "(fairlock hold --local locks.db a < input; echo $? > code) | true";
    let mut shell = shell(home.path(), "bash", script).spawn().unwrap();
    let input = File::options()
        .write(true)
        .open(home.file("input"))
        .unwrap();
    until("a holder", || !home.is_free());
    drop(input);
    until("its code", || home.read("code") == "0\n");
    shell.wait().unwrap();
}

/// The example of the manual.
#[test]
fn a_script_takes_a_turn_around_several_commands() {
    let home = Home::new();
    let script = crate::operations::example("coproc LOCK", "bash");
    let deploys =
        "echo \"deploys under $1\"; fairlock show --exit-code deploy/prod > /dev/null; echo $?";
    home.write("deploy.sh", deploys);
    let script = script.replace("./deploy.sh", "sh ./deploy.sh");
    let mut shell = shell(home.path(), "bash", &script);
    let ended = said(shell.env("FAIRLOCK_LOCAL", "locks.db"));
    let lines: Vec<_> = ended.assert_done().lines().collect();
    assert!(lines[0].starts_with("deploys under 1"), "{ended:?}");
    assert_eq!(lines[1..], ["1", "released"], "{ended:?}");
}
