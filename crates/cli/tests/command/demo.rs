//! `fairlock demo` shows a queue of processes, judges it, and leaves nothing behind however it ends.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use fairlock_testkit::child_process::{BOUND, Ended, Run};
use tempfile::TempDir;

/// A demo whose temporary directory is inside a directory of the test.
struct Demo {
    run: Run,
    around: TempDir,
}

fn start(flags: &[&str]) -> Demo {
    let around = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    command.arg("demo").args(flags).env("TMPDIR", around.path());
    // As a shell does for each of its jobs.
    command.process_group(0);
    Demo {
        run: Run::start(command),
        around,
    }
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

fn run(flags: &[&str]) -> Ended {
    start(flags).end()
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

fn last_line(ended: &Ended) -> &str {
    ended.lines.last().map_or("", String::as_str)
}

fn text(ended: &Ended) -> String {
    format!("{}\n{}", ended.lines.join("\n"), ended.summary)
}

/// The lines that show a grant.
fn grants(ended: &Ended) -> Vec<&str> {
    let lines = ended.lines.iter().map(String::as_str);
    lines.filter(|line| line.contains(" has it, ")).collect()
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

fn assert_gone(workers: &[String]) {
    let gone = || !workers.iter().any(|worker| is_there(worker));
    let pause = Duration::from_millis(10);
    let polls = BOUND.as_millis() / pause.as_millis();
    let polled = (0..polls).any(|_| gone() || nothing_for(pause));
    assert!(polled, "{workers:?} are still there");
}

/// Waits, and never returns `true`.
fn nothing_for(span: Duration) -> bool {
    thread::park_timeout(span);
    false
}

#[test]
fn eight_workers_take_forty_turns_without_a_fault() {
    let ended = run(&["--hold", "5ms"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert_eq!(
        last_line(&ended),
        "8 workers, 40 turns: 0 overlaps, 0 out of order"
    );
    assert_eq!(grants(&ended).len(), 40, "{}", text(&ended));
    assert_eq!(ended.summary, "");
}

#[test]
fn every_grant_shows_its_ticket_and_who_waits_behind_it() {
    let ended = run(&["--workers", "3", "--turns", "4", "--hold", "20ms"]);
    let grants = grants(&ended);
    let ticket = |line: &&str| {
        let (_, rest) = line.split_once("ticket ")?;
        rest.split(';').next()?.parse().ok()
    };
    let tickets: Vec<u64> = grants.iter().filter_map(ticket).collect();
    assert_eq!(tickets.len(), 12, "{}", text(&ended));
    assert!(tickets.is_sorted_by(|before, after| before < after));
    let with_two = grants.iter().filter(|line| {
        line.split_once("behind it ")
            .is_some_and(|(_, line)| line.split(", ").count() == 2)
    });
    assert!(with_two.count() > 0, "{}", text(&ended));
}

#[test]
fn the_table_has_a_row_for_each_worker_and_the_ledger_a_line_for_each_turn() {
    let ended = run(&["--workers", "2", "--turns", "3", "--hold", "0s"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    for worker in ["worker 1        3  ", "worker 2        3  "] {
        let rows = ended.lines.iter().filter(|line| line.starts_with(worker));
        assert_eq!(rows.count(), 1, "{}", text(&ended));
    }
    for told in ["handoffs  p50 ", "ledger      6 appended, 0 refused"] {
        assert!(text(&ended).contains(told), "{}", text(&ended));
    }
}

#[test]
fn one_worker_with_one_turn_is_a_demo_too() {
    let ended = run(&["--workers", "1", "--turns", "1", "--hold", "0s"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert_eq!(
        last_line(&ended),
        "1 worker, 1 turn: 0 overlaps, 0 out of order"
    );
}

#[test]
fn a_planted_fault_fails_the_demo() {
    let flags = ["--workers", "2", "--turns", "2", "--hold", "5ms"];
    let ended = run(&[&flags[..], &["--plant-fault"]].concat());
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
    assert_eq!(
        last_line(&ended),
        "2 workers, 4 turns: 1 overlap, 1 out of order"
    );
}

#[test]
fn a_notified_demo_polls_first_and_shows_what_was_saved() {
    let flags = ["--workers", "3", "--turns", "5", "--hold", "200ms"];
    let ended = run(&[&flags[..], &["--notify"]].concat());
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert_eq!(
        last_line(&ended),
        "3 workers, 18 turns: 0 overlaps, 0 out of order"
    );
    assert_eq!(grants(&ended).len(), 18, "{}", text(&ended));
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
    let told = "With notifications, a turn took ";
    let told = ended.lines.iter().filter(|line| line.starts_with(told));
    assert_eq!(told.count(), 1, "{}", text(&ended));
}

#[test]
fn a_demo_that_is_not_notified_says_nothing_of_a_saving() {
    let ended = run(&["--workers", "2", "--turns", "2", "--hold", "0s"]);
    assert!(!text(&ended).contains("otif"), "{}", text(&ended));
}

#[test]
fn a_notified_demo_with_a_fault_fails_too() {
    let flags = ["--workers", "2", "--turns", "1", "--hold", "5ms"];
    let ended = run(&[&flags[..], &["--notify", "--plant-fault"]].concat());
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
    assert_eq!(
        last_line(&ended),
        "2 workers, 4 turns: 1 overlap, 1 out of order"
    );
}

#[test]
fn a_worker_that_is_killed_is_named_and_fails_the_demo_and_the_others_go_on() {
    let demo = start(&["--workers", "3", "--turns", "4", "--hold", "300ms"]);
    demo.next_line();
    let victim = demo.run.children().swap_remove(0);
    send("-KILL", &victim);
    let ended = demo.end();
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
    let named = |line: &&String| line.contains("died: signal: 9");
    // Once when it happened, and once in the report.
    assert_eq!(
        ended.lines.iter().filter(named).count(),
        2,
        "{}",
        text(&ended)
    );
    assert!(
        text(&ended).contains("missing     the turn of worker "),
        "{}",
        text(&ended)
    );
    let of_others = ended
        .lines
        .iter()
        .filter(|line| line.contains("        4  "));
    assert_eq!(of_others.count(), 2, "{}", text(&ended));
    assert!(last_line(&ended).ends_with(": 0 overlaps, 0 out of order"));
}

#[test]
fn an_interrupt_from_the_terminal_leaves_no_process_and_no_directory() {
    let demo = start(&["--workers", "3", "--turns", "10000"]);
    demo.next_line();
    assert_eq!(entries(demo.around.path()), 1);
    let workers = demo.run.children();
    assert!(
        workers.len() == 3 && workers.iter().all(|worker| is_there(worker)),
        "{workers:?}"
    );
    send("-INT", &format!("-{}", demo.run.id()));
    let ended = demo.end();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended));
    assert!(!text(&ended).contains("died"), "{}", text(&ended));
    assert_gone(&workers);
}

#[test]
fn a_termination_of_the_demo_alone_leaves_no_process_and_no_directory() {
    let demo = start(&["--workers", "3", "--turns", "10000"]);
    demo.next_line();
    let workers = demo.run.children();
    send("-TERM", &demo.run.id().to_string());
    assert_eq!(demo.end().status.code(), Some(143));
    assert_gone(&workers);
}

#[test]
fn a_reader_that_goes_away_leaves_no_process_and_no_directory() {
    let mut demo = start(&["--workers", "3", "--turns", "10000", "--hold", "1ms"]);
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
    let demo = start(&["--workers", "3", "--turns", "10000"]);
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
    let one_turn = ["--plant-fault", "--workers", "1", "--turns", "1"];
    let wrong: [(&[&str], &str); 9] = [
        (&["--workers", "0"], "--workers"),
        (&["--workers", "101"], "--workers"),
        (&["--turns", "many"], "--turns"),
        (&["--hold", "soon"], "--hold"),
        (&one_turn, "--plant-fault needs at least two turns"),
        (&["--colour"], "--colour"),
        (&["--notify=nowhere"], "--notify"),
        (&["--notify=127.0.0.1:7001"], "say --notify=127.0.0.1,"),
        // An address for documentation, which no host has.
        (&["--notify=192.0.2.1"], "cannot be notified at 192.0.2.1"),
    ];
    for (flags, told) in wrong {
        let ended = run(flags);
        assert_eq!(ended.status.code(), Some(64), "{flags:?}: {}", text(&ended));
        assert!(ended.summary.contains(told), "{flags:?}: {}", text(&ended));
        assert!(ended.lines.is_empty(), "{flags:?}");
    }
}
