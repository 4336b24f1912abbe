//! `fairlock demo` shows a queue of processes, judges it, and leaves nothing behind however it ends.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};

use fairlock_testkit::child_process::{BOUND, Ended, Run};
use tempfile::TempDir;

use crate::command::rows;
use crate::running::until;

/// A demo whose temporary directory is inside a directory of the test.
struct Demo {
    run: Run,
    around: TempDir,
}

fn start(flags: &str) -> Demo {
    let around = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    command.arg("demo").args(flags.split(' '));
    command.env("TMPDIR", around.path());
    // As a shell does for each of its jobs.
    command.process_group(0);
    let run = Run::start(command);
    Demo { run, around }
}

impl Demo {
    fn next_line(&self) -> String {
        self.run.stdout.recv_timeout(BOUND).unwrap()
    }

    /// How the demo ended. Its directory must be gone.
    fn end(self) -> Ended {
        let ended = self.run.end();
        assert_eq!(entries(self.around.path()), 0, "{}", ended.summary);
        ended
    }
}

fn run(flags: &str) -> Ended {
    start(flags).end()
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

fn text(ended: &Ended) -> String {
    format!("{}\n{}", ended.lines.join("\n"), ended.summary)
}

/// The demo ended with this code, and its last line was this.
#[track_caller]
fn assert_ended(ended: &Ended, code: i32, last: &str) {
    assert_eq!(ended.status.code(), Some(code), "{}", text(ended));
    let told = ended.lines.last().map_or("", String::as_str);
    assert!(told.ends_with(last), "{}", text(ended));
}

/// So many lines are like this.
#[track_caller]
fn assert_count(ended: &Ended, count: usize, is: impl Fn(&str) -> bool) {
    let lines = ended.lines.iter().filter(|line| is(line));
    assert_eq!(lines.count(), count, "{}", text(ended));
}

fn is_grant(line: &str) -> bool {
    line.contains(" has it, ")
}

fn send(signal: &str, to: &str) {
    let mut kill = Command::new("kill");
    let sent = kill.args([signal, "--", to]).status().unwrap();
    assert!(sent.success(), "{signal} to {to}");
}

/// Whether the worker that had this process number still exists.
fn is_there(worker: &str) -> bool {
    let command = std::fs::read(format!("/proc/{worker}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains("demo-worker")
}

#[track_caller]
fn assert_gone(workers: &[String]) {
    let are_gone = || !workers.iter().any(|worker| is_there(worker));
    until("the end of all workers", are_gone);
}

#[test]
fn eight_workers_take_forty_turns_without_a_fault() {
    let ended = run("--hold 5ms");
    assert_ended(&ended, 0, "8 workers, 40 turns: 0 overlaps, 0 out of order");
    assert_count(&ended, 40, is_grant);
    assert_eq!(ended.summary, "");
    assert!(!text(&ended).contains("otif"), "{}", text(&ended));
}

#[test]
fn every_grant_shows_its_ticket_and_who_waits_behind_it() {
    let ended = run("--workers 4 --turns 3 --hold 100ms");
    let grants: Vec<_> = ended.lines.iter().filter(|line| is_grant(line)).collect();
    let ticket = |line: &&String| {
        let (_, rest) = line.split_once("ticket ")?;
        rest.split(';').next()?.parse().ok()
    };
    let tickets: Vec<u64> = grants.iter().filter_map(ticket).collect();
    assert_eq!(tickets.len(), 12, "{}", text(&ended));
    assert!(tickets.is_sorted_by(|before, after| before < after));
    // The worker that has just released may not be there again.
    let with_several = grants.iter().filter(|line| {
        let behind = line.split_once("behind it ");
        behind.is_some_and(|(_, line)| line.split(", ").count() >= 2)
    });
    assert!(with_several.count() > 0, "{}", text(&ended));
    // A row for each worker, and in the ledger a line for each turn.
    for worker in [
        "worker 1        3  ",
        "worker 2        3  ",
        "worker 3        3  ",
        "worker 4        3  ",
    ] {
        assert_count(&ended, 1, |line| line.starts_with(worker));
    }
    for told in ["handoffs  p50 ", "ledger      12 appended, 0 refused"] {
        assert!(text(&ended).contains(told), "{}", text(&ended));
    }
}

#[test]
fn one_worker_is_a_demo_too_and_a_planted_fault_fails_one() {
    for (flags, code, last) in [
        (
            "--workers 1 --turns 1 --hold 0s",
            0,
            "1 worker, 1 turn: 0 overlaps, 0 out of order",
        ),
        (
            "--workers 2 --turns 2 --hold 5ms --plant-fault",
            1,
            "2 workers, 4 turns: 1 overlap, 1 out of order",
        ),
        (
            "--workers 2 --turns 1 --hold 5ms --notify --plant-fault",
            1,
            "2 workers, 4 turns: 1 overlap, 1 out of order",
        ),
    ] {
        assert_ended(&run(flags), code, last);
    }
}

#[test]
fn a_notified_demo_polls_first_and_shows_what_was_saved() {
    let ended = run("--workers 3 --turns 5 --hold 200ms --notify");
    assert_ended(&ended, 0, "3 workers, 18 turns: 0 overlaps, 0 out of order");
    assert_count(&ended, 18, is_grant);
    let place = |told: &str| ended.lines.iter().position(|line| line == told);
    let notified = place("The workers notify each other when to poll:");
    assert_eq!(place("The workers poll:"), Some(0), "{}", text(&ended));
    assert_eq!(notified, Some(10), "{}", text(&ended));
    let row = |name: &str| {
        let row = ended.lines.iter().find_map(|line| line.strip_prefix(name));
        let numbers = row.unwrap_or_default().split_whitespace();
        numbers.map(|word| word.parse().unwrap()).collect()
    };
    let requests: Vec<f64> = row("requests a turn ");
    let handoffs: Vec<f64> = row("handoff p50, in round trips of 10ms ");
    assert_eq!((requests.len(), handoffs.len()), (2, 2), "{}", text(&ended));
    // A waiter that polls does so about every twentieth of a hold, and a waiter that is notified once or twice.
    assert!(requests[1] < requests[0], "{}", text(&ended));
    assert_count(&ended, 1, |line| {
        line.starts_with("With notifications, a turn took ")
    });
}

#[test]
fn a_worker_that_is_killed_is_named_and_fails_the_demo_and_the_others_go_on() {
    let demo = start("--workers 3 --turns 4 --hold 300ms");
    demo.next_line();
    let victim = demo.run.children().swap_remove(0);
    send("-KILL", &victim);
    let ended = demo.end();
    assert_ended(&ended, 1, ": 0 overlaps, 0 out of order");
    // Once when it happened, and once in the report.
    assert_count(&ended, 2, |line| line.contains("died: signal: 9"));
    assert_count(&ended, 2, |line| line.contains("        4  "));
    let missing = "missing     the turn of worker ";
    assert!(text(&ended).contains(missing), "{}", text(&ended));
}

/// The first from a terminal, the second for the demo alone.
#[test]
fn an_interrupt_and_a_termination_leave_no_process_and_no_directory() {
    for (signal, group, code) in [("-INT", "-", 130), ("-TERM", "", 143)] {
        let demo = start("--workers 3 --turns 10000");
        demo.next_line();
        assert_eq!(entries(demo.around.path()), 1);
        let workers = demo.run.children();
        let are_there = workers.iter().all(|worker| is_there(worker));
        assert!(workers.len() == 3 && are_there, "{workers:?}");
        send(signal, &format!("{group}{}", demo.run.id()));
        let ended = demo.end();
        assert_ended(&ended, code, "");
        assert!(!text(&ended).contains("died"), "{}", text(&ended));
        assert_gone(&workers);
    }
}

#[test]
fn a_reader_that_goes_away_leaves_no_process_and_no_directory() {
    let mut demo = start("--workers 3 --turns 10000 --hold 1ms");
    demo.next_line();
    let workers = demo.run.children();
    demo.run.stdout = channel().1;
    let ended = demo.end();
    // As a shell reports a program that SIGPIPE has ended.
    assert_eq!(ended.status.code(), Some(141));
    assert_eq!(ended.summary, "");
    assert_gone(&workers);
}

#[test]
fn workers_do_not_outlive_a_demo_that_is_killed() {
    let demo = start("--workers 3 --turns 10000");
    demo.next_line();
    let workers = demo.run.children();
    demo.run.kill();
    // The workers share the demo's standard error, which closes when the last of them has ended.
    let silence = demo.run.stderr.recv_timeout(BOUND);
    assert_eq!(silence, Err(RecvTimeoutError::Disconnected));
    assert_gone(&workers);
}

#[test]
fn bad_input_is_told_and_never_runs() {
    // The last has an address for documentation, which no host has.
    const WRONG: &str = "
        --workers 0                           | --workers
        --workers 101                         | --workers
        --turns many                          | --turns
        --hold soon                           | --hold
        --plant-fault --workers 1 --turns 1   | --plant-fault needs at least two turns
        --colour                              | --colour
        --notify=nowhere                      | --notify
        --notify=127.0.0.1:7001               | say --notify=127.0.0.1,
        --notify=192.0.2.1                    | cannot be notified at 192.0.2.1
    ";
    for [flags, told] in rows(WRONG) {
        let ended = run(flags);
        assert_eq!(ended.status.code(), Some(64), "{flags}: {}", text(&ended));
        assert!(ended.summary.contains(told), "{flags}: {}", text(&ended));
        assert!(ended.lines.is_empty(), "{flags}");
    }
}
