//! Whatever happens, a command has ended before its lease does. [`crate::terminal`] shows it with processes that cling to their lives.

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{heeding, said};
use crate::home::{Home, UNTIL_GO, scripted};
use crate::running::{Running, is_alive, is_stopped, parent_of, until};

/// Its lease is longer than this test: the supervisor gives its place up, in the queue as well as after the command has ended.
#[test]
fn a_killed_fairlock_is_not_waited_for() {
    let home = Home::new();
    let lease = "--lease 10m --kill-after 100ms";
    let running = home.held(lease);
    let command = running.pid_in("held");
    let waits = home.start_sh(lease, "touch never");
    home.until_waiting(1);
    let last = home.start_sh(lease, "touch last");
    home.until_waiting(2);
    waits.signal(Signal::KILL);
    home.until_waiting(1);
    running.signal(Signal::KILL);
    last.end().assert_ended(0, &[]);
    assert!(!is_alive(command));
    assert!(!home.has("never") && home.has("last"));
}

/// Otherwise the waiters behind it would wait for its lease to end when its turn comes.
#[test]
fn one_that_stands_still_while_it_waits_is_not_waited_for_and_has_its_turn_when_it_goes_on() {
    let home = Home::new();
    let holder = home.held("");
    let stands = home.start_sh("--lease 10m", "echo stands >> order");
    home.until_waiting(1);
    stands.signal(Signal::STOP);
    home.until_waiting(0);
    let next = home.start_sh("", "echo next >> order");
    home.until_waiting(1);
    home.go();
    holder.end().assert_ended(0, &[]);
    next.end().assert_ended(0, &[]);
    stands.signal(Signal::CONT);
    stands.end().assert_ended(0, &[]);
    assert_eq!(home.read("order"), "next\nstands\n");
}

/// A command that stops itself, and records if it is continued.
const STOPS: &str = "echo $$ > command; kill -STOP $$; touch on";

/// Starts that command, and waits until `fairlock` has stopped along with it.
fn stopped(home: &Home, lease: &str) -> (Running, Pid) {
    let running = home.start_sh(&format!("--lease {lease}"), STOPS);
    let command = running.pid_in("command");
    until("fairlock to stop too", || is_stopped(running.pid()));
    (running, command)
}

/// Runs that command in a session of its own, where no shell could continue anything.
fn without_a_shell(home: &Home, lease: &str) -> std::process::Command {
    let alone = "timeout -s KILL 60 setsid --wait fairlock".split(' ');
    let line = scripted(&format!("--lease {lease}"), STOPS);
    heeding(home.path(), &alone.collect::<Vec<_>>(), &line)
}

/// As in a script, whose shell waits for it and continues nothing, and as in a cron job or a service, where there is no shell.
#[test]
fn a_command_that_is_stopped_for_ever_is_ended_with_its_lease_and_the_script_goes_on() {
    let home = Home::new();
    let (running, command) = stopped(&home, "8s");
    running.end().assert_ended(76, &["lock `a` was lost"]);
    assert!(!is_alive(command));
    home.run("run a -- true").assert_done();
    let ended = said(&mut without_a_shell(&home, "8s"));
    ended.assert_refused(
        76,
        &["lock `a` was lost", "what ran in its turn was stopped for"],
    );
    home.run("run a -- true").assert_done();
}

/// Neither handles any signal while it is stopped. Without a shell, `fairlock` does not stop: it passes the signal on.
#[test]
fn a_signal_to_end_ends_a_command_that_is_stopped_with_a_fairlock_that_stopped_along_or_without() {
    let home = Home::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let (running, command) = stopped(&home, "10m");
        running.signal(signal);
        running.end().assert_ended(code, &[]);
        assert!(!is_alive(command) && !home.has("on"));
        home.remove("command");
    }
    let mut alone = without_a_shell(&home, "10m");
    let running = Running::spawn(&mut alone, home.path());
    let command = running.pid_in("command");
    until("the command to stop", || is_stopped(command));
    kill_process(parent_of(parent_of(command)), Signal::TERM).unwrap();
    running.end().assert_ended(143, &[]);
    assert!(home.is_free());
}

#[test]
fn a_command_that_heeds_the_warning_has_its_grace() {
    let home = Home::new();
    let script = "trap 'touch heard' USR1; trap 'echo saved; exit 0' TERM; echo $$ > command;
        while :; do sleep 0.05; done";
    let running = home.start_sh("--lease 6s --kill-after 1s", script);
    let command = running.pid_in("command");
    // What it passes on shows that it watches the command already.
    running.signal(Signal::USR1);
    until("a signal", || home.has("heard"));
    running.signal(Signal::STOP);
    until("the command to end", || !is_alive(command));
    running.signal(Signal::CONT);
    let ended = running.end();
    ended.assert_said(76, "saved\n");
    // It cannot know whether it was stopped or had no processor.
    ended.assert_ended(76, &["fairlock did not run for"]);
}

#[test]
fn signals_to_the_supervisor_change_nothing() {
    let home = Home::new();
    let running = home.start_sh("", &format!("{UNTIL_GO}; exit 4"));
    let supervisor = parent_of(running.pid_in("held"));
    for signal in [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::TSTP,
    ] {
        kill_process(supervisor, signal).unwrap();
    }
    home.go();
    let ended = running.end();
    assert_eq!((ended.code, &*ended.err), (Some(4), ""));
}
