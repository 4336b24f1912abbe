//! The contention driver counts what happens, finds what is wrong, and refuses senseless input.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod algorithms;
mod files;

use std::process::{Command, Stdio};
#[cfg(target_os = "linux")]
use std::sync::mpsc::RecvTimeoutError;

use serde_json::Value;

#[cfg(target_os = "linux")]
use fairlock_testkit::child_process::BOUND;
use fairlock_testkit::child_process::{Ended, Run};

use crate::driver;

fn start_into(flags: &[&str], stdout: Stdio, stderr: Stdio) -> Run {
    let mut command = driver("contend");
    command.args(flags);
    Run::into(command, stdout, stderr)
}

fn start(flags: &[&str]) -> Run {
    let mut command = driver("contend");
    command.args(flags);
    Run::start(command)
}

fn run(flags: &[&str]) -> Ended {
    start(flags).end()
}

fn last_line(run: &Ended) -> &str {
    run.summary.lines().last().unwrap_or_default()
}

/// A number of each turn, in the order of the grants.
fn each(run: &Ended, field: &str) -> Vec<u64> {
    let turns = run
        .lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap());
    let mut turns: Vec<Value> = turns.collect();
    turns.sort_by_key(|turn| turn["acquired_ns"].as_u64());
    turns
        .iter()
        .map(|turn| turn[field].as_u64().unwrap())
        .collect()
}

fn assert_fair(run: &Ended, workers: u64, cycles: u64) {
    let Ended {
        status, summary, ..
    } = run;
    assert!(status.success(), "{summary}");
    let clean = format!(
        "{workers} workers, {} turns: 0 overlaps, 0 out of order",
        workers * cycles
    );
    assert_eq!(last_line(run), clean);
    assert!(each(run, "ticket").is_sorted_by(|before, after| before < after));
    let (acquired, releasing) = (each(run, "acquired_ns"), each(run, "releasing_ns"));
    assert!(
        releasing
            .iter()
            .zip(&acquired[1..])
            .all(|(end, start)| end < start)
    );
    let mut took = each(run, "worker")
        .into_iter()
        .zip(each(run, "cycle"))
        .collect::<Vec<_>>();
    took.sort_unstable();
    let all = (1..=workers).flat_map(|worker| (1..=cycles).map(move |cycle| (worker, cycle)));
    assert_eq!(took, all.collect::<Vec<_>>());
}

#[test]
fn workers_in_one_process_take_turns_in_order() {
    let ended = run(&["--workers", "4", "--cycles", "3", "--hold-ms", "1"]);
    assert_fair(&ended, 4, 3);
    for told in [
        "waits ",
        "handoffs ",
        "writes a turn",
        "heartbeats",
        "release",
    ] {
        assert!(
            ended.summary.contains(told),
            "no {told} in {}",
            ended.summary
        );
    }
}

/// By polling alone, a hold of this length takes some thirty polls of its successors.
#[test]
fn workers_that_notify_each_other_take_turns_in_order_and_poll_little() {
    let flags = [
        "--notify",
        "--workers",
        "4",
        "--cycles",
        "4",
        "--hold-ms",
        "100",
        "--rtt-ms",
        "2",
    ];
    let ended = run(&flags);
    assert_fair(&ended, 4, 4);
    let requests = ended.summary.lines().find(|line| line.starts_with("sent "));
    let requests = requests.unwrap().split_whitespace().nth(1).unwrap();
    let requests: f64 = requests.parse().unwrap();
    assert!(requests < 15.0, "{}", ended.summary);
}

#[test]
fn a_turn_that_nobody_contends_for_takes_two_requests_and_the_first_of_all_one_more() {
    let ended = run(&["--workers", "1", "--cycles", "4", "--hold-ms", "0"]);
    assert_eq!(
        last_line(&ended),
        "1 worker, 4 turns: 0 overlaps, 0 out of order"
    );
    assert!(
        ended
            .summary
            .contains("2.25 requests a turn, 2.25 writes a turn, and 0 heartbeats"),
        "{}",
        ended.summary
    );
}

#[test]
fn workers_in_processes_of_their_own_take_turns_in_order() {
    let place = tempfile::tempdir().unwrap();
    let tables = place.path().join("locks.db");
    let flags = ["--processes", "--local", tables.to_str().unwrap()];
    let ended = run(&[
        &flags[..],
        &["--workers", "3", "--cycles", "3", "--hold-ms", "1"],
    ]
    .concat());
    assert_fair(&ended, 3, 3);
    assert!(
        ended.summary.contains("release                       9"),
        "counted in the children: {}",
        ended.summary
    );
}

const SIX_TURNS: [&str; 6] = ["--workers", "3", "--cycles", "2", "--hold-ms", "1"];

#[test]
fn a_planted_fault_fails_the_run() {
    let ended = run(&[
        "--workers",
        "2",
        "--cycles",
        "2",
        "--hold-ms",
        "1",
        "--plant-fault",
    ]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(
        last_line(&ended),
        "2 workers, 4 turns: 1 overlap, 1 out of order"
    );
}

#[test]
fn a_turn_that_was_not_granted_fails_the_run_and_is_named() {
    let ended = run(&[
        "--workers",
        "2",
        "--cycles",
        "1",
        "--hold-ms",
        "500",
        "--wait",
        "none",
    ]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.summary);
    assert!(ended.summary.contains("cycle 1: "), "{}", ended.summary);
    assert!(
        ended.summary.contains("missing     the turn of worker "),
        "{}",
        ended.summary
    );
    assert_eq!(
        last_line(&ended),
        "2 workers, 1 turn: 0 overlaps, 0 out of order"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_that_dies_fails_the_run_and_the_others_go_on() {
    let place = tempfile::tempdir().unwrap();
    let tables = place.path().join("locks.db");
    let flags = ["--processes", "--local", tables.to_str().unwrap()];
    let more = ["--workers", "3", "--cycles", "4", "--lease", "1s"];
    let run = start(&[&flags[..], &more].concat());
    run.stdout.recv().unwrap();
    let victim = run.children().swap_remove(0);
    let killed = Command::new("kill").args(["-9", &victim]).status().unwrap();
    assert!(killed.success());
    let ended = run.end();
    let summary = &ended.summary;
    assert_eq!(ended.status.code(), Some(1), "{summary}");
    assert!(summary.contains("died: signal: 9"), "{summary}");
    assert!(
        last_line(&ended).ends_with("turns: 0 overlaps, 0 out of order"),
        "{summary}"
    );
    let of_others = summary.lines().filter(|line| line.starts_with("missing"));
    assert!((1..=4).contains(&of_others.count()), "{summary}");
}

#[cfg(target_os = "linux")]
#[test]
fn workers_do_not_outlive_the_run() {
    let place = tempfile::tempdir().unwrap();
    let tables = place.path().join("locks.db");
    let flags = ["--processes", "--local", tables.to_str().unwrap()];
    let more = ["--workers", "2", "--cycles", "100000"];
    let run = start(&[&flags[..], &more].concat());
    run.stdout.recv().unwrap();
    assert_eq!(run.children().len(), 2);
    run.kill();
    // Workers write to the run's standard error, which closes when the last of them has ended.
    let silence = run.stderr.recv_timeout(BOUND);
    assert_eq!(silence, Err(RecvTimeoutError::Disconnected));
}

const ONE_TURN: [&str; 6] = ["--workers", "1", "--cycles", "1", "--hold-ms", "0"];

#[cfg(target_os = "linux")]
fn full() -> Stdio {
    std::fs::File::create("/dev/full").unwrap().into()
}

#[cfg(target_os = "linux")]
#[test]
fn turns_that_could_not_be_printed_fail_the_run() {
    let ended = start_into(&ONE_TURN, full(), Stdio::piped()).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.summary);
    let told = "failed      standard output: ";
    assert!(ended.summary.contains(told), "{}", ended.summary);
}

#[cfg(target_os = "linux")]
#[test]
fn a_summary_that_could_not_be_printed_changes_nothing() {
    let ended = start_into(&ONE_TURN, Stdio::piped(), full()).end();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(ended.lines.len(), 1);
}

#[test]
fn readers_that_went_away_change_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let both = writer.try_clone().unwrap().into();
    let ended = start_into(&ONE_TURN, both, writer.into()).end();
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn help_says_where_credentials_come_from() {
    let ended = run(&["--help"]);
    assert!(ended.status.success());
    let help = ended.lines.join("\n");
    assert!(help.contains("AWS_ACCESS_KEY_ID"), "{help}");
}

#[test]
fn tables_in_memory_are_not_for_processes() {
    let ended = run(&["--processes"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(
        ended.summary.contains("needs --local or --endpoint-url"),
        "{}",
        ended.summary
    );
    // The name under which users run it.
    assert!(
        ended.summary.contains("Usage: fairlock-bench contend"),
        "{}",
        ended.summary
    );
}

#[test]
fn bad_input_is_told_and_never_runs() {
    let long = "x".repeat(2049);
    let wrong: [(&[&str], i32, &str); 20] = [
        (&["--workers", "0"], 2, "--workers"),
        (&["--cycles", "many"], 2, "--cycles"),
        (&["--hold-ms", "-1"], 2, "-1"),
        (&["--hold-ms", "1s"], 2, "milliseconds"),
        (&["--wait", "soon"], 2, "--wait"),
        (&["--wait", "0s"], 2, "called none"),
        (&["--rtt-ms", "ten"], 2, "milliseconds"),
        (&["--algorithm", "luck"], 2, "--algorithm"),
        (
            &["--algorithm", "article", "--wait", "1s"],
            2,
            "--wait needs",
        ),
        (&["--poll-ms", "10"], 2, "--poll-ms needs"),
        (&["--algorithm", "lease", "--poll-ms", "0"], 2, "--poll-ms"),
        (&["--events", "a", "--plot", "a"], 2, "a file each"),
        (&["--lease", "forever"], 2, "--lease"),
        (&["--lease", "0s"], 64, "--lease"),
        (&["--table", ""], 64, "table"),
        (&["--lock", &long], 64, "lock"),
        (&["--local", "/dev/null/locks.db"], 64, "/dev/null/locks.db"),
        (&["--endpoint-url", "localhost:8000"], 2, "http://"),
        (
            &["--endpoint-url", "http://a", "--local", "b"],
            2,
            "--local",
        ),
        (&["--colour"], 2, "--colour"),
    ];
    for (flags, code, told) in wrong {
        let ended = run(flags);
        assert_eq!(
            ended.status.code(),
            Some(code),
            "{flags:?}: {}",
            ended.summary
        );
        assert!(ended.summary.contains(told), "{flags:?}: {}", ended.summary);
        assert!(ended.lines.is_empty(), "{flags:?}");
    }
}
