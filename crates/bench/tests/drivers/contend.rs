//! The contention driver counts what happens, finds what is wrong, and refuses senseless input.

mod algorithms;
mod files;

use std::process::Stdio;

use fairlock_protocol::agent::record::{Played, play};
use fairlock_testkit::child_process::{Ended, Run};
use serde_json::Value;
use tempfile::TempDir;

use crate::{assert_ended, assert_refused, driver};

fn start(flags: &str) -> Run {
    Run::start(driver(&format!("contend {flags}")))
}

fn run(flags: &str) -> Ended {
    start(flags).end()
}

/// Flags of a run whose workers are processes, and share a file in a directory of its own.
fn in_processes(place: &TempDir) -> String {
    format!("--processes --local {}/locks.db", place.path().display())
}

fn last_line(run: &Ended) -> &str {
    run.summary.lines().last().unwrap_or_default()
}

/// A number of each turn, in the order of the grants.
fn each(run: &Ended, field: &str) -> Vec<u64> {
    let turns = run.lines.iter();
    let turns = turns.map(|line| serde_json::from_str(line).unwrap());
    let mut turns: Vec<Value> = turns.collect();
    turns.sort_by_key(|turn| turn["acquired_ns"].as_u64());
    let numbers = turns.iter().map(|turn| turn[field].as_u64().unwrap());
    numbers.collect()
}

#[track_caller]
fn assert_fair(run: &Ended, workers: u64, cycles: u64) {
    assert_ended(run, 0, &[]);
    let turns = workers * cycles;
    let clean = format!("{workers} workers, {turns} turns: 0 overlaps, 0 out of order");
    assert_eq!(last_line(run), clean);
    assert!(each(run, "ticket").is_sorted_by(|before, after| before < after));
    let (acquired, releasing) = (each(run, "acquired_ns"), each(run, "releasing_ns"));
    let mut handoffs = releasing.iter().zip(&acquired[1..]);
    assert!(handoffs.all(|(end, start)| end < start));
    let (worker, cycle) = (each(run, "worker"), each(run, "cycle"));
    let mut took: Vec<_> = worker.into_iter().zip(cycle).collect();
    took.sort_unstable();
    let all = (1..=workers).flat_map(|worker| (1..=cycles).map(move |cycle| (worker, cycle)));
    assert_eq!(took, all.collect::<Vec<_>>());
}

#[test]
fn workers_in_one_process_take_turns_in_order() {
    let ended = run("--workers 4 --cycles 3 --hold-ms 1");
    assert_fair(&ended, 4, 3);
    let told = [
        "waits ",
        "handoffs ",
        "writes a turn",
        "heartbeats",
        "release",
    ];
    assert_ended(&ended, 0, &told);
}

/// By polling alone, a hold of this length takes some thirty polls of its successors.
#[test]
fn workers_that_notify_each_other_take_turns_in_order_and_poll_little() {
    let ended = run("--notify --workers 4 --cycles 4 --hold-ms 100 --rtt-ms 2");
    assert_fair(&ended, 4, 4);
    let requests = ended.summary.lines().find(|line| line.starts_with("sent "));
    let requests = requests.unwrap().split_whitespace().nth(1).unwrap();
    let requests: f64 = requests.parse().unwrap();
    assert!(requests < 15.0, "{}", ended.summary);
}

#[test]
fn workers_take_turns_in_order_and_do_the_same_when_their_records_are_played() {
    let place = tempfile::tempdir().unwrap();
    let mut command = driver("contend --workers 3 --cycles 3 --hold-ms 1");
    command.env("FAIRLOCK_RECORD", place.path().join("record"));
    assert_fair(&Run::start(command).end(), 3, 3);
    let records = std::fs::read_dir(place.path()).unwrap();
    let records = records.map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap());
    let played: Vec<_> = records.map(|it| play(it.lines()).unwrap()).collect();
    let is_whole = |it: &Played| it.requests > 5 && it.difference.is_none();
    assert!(
        played.len() == 3 && played.iter().all(is_whole),
        "{played:?}"
    );
}

#[test]
fn a_turn_that_nobody_contends_for_takes_two_requests_and_the_first_of_all_one_more() {
    let ended = run("--workers 1 --cycles 4 --hold-ms 0");
    let clean = "1 worker, 4 turns: 0 overlaps, 0 out of order";
    let told = "2.25 requests a turn, 2.25 writes a turn, and 0 heartbeats";
    assert_ended(&ended, 0, &[clean, told]);
}

#[test]
fn workers_in_processes_of_their_own_take_turns_in_order() {
    let place = tempfile::tempdir().unwrap();
    let flags = in_processes(&place);
    let ended = run(&format!("{flags} --workers 3 --cycles 3 --hold-ms 1"));
    assert_fair(&ended, 3, 3);
    // Counted in the children.
    assert_ended(&ended, 0, &["release                       9"]);
}

const SIX_TURNS: &str = "--workers 3 --cycles 2 --hold-ms 1";

#[test]
fn a_planted_fault_and_a_turn_that_was_not_granted_fail_the_run_and_are_named() {
    let ended = run("--workers 2 --cycles 2 --hold-ms 1 --plant-fault");
    assert_ended(&ended, 1, &[]);
    assert_eq!(
        last_line(&ended),
        "2 workers, 4 turns: 1 overlap, 1 out of order"
    );
    let ended = run("--workers 2 --cycles 1 --hold-ms 500 --wait none");
    assert_ended(&ended, 1, &["cycle 1: ", "missing     the turn of worker "]);
    assert_eq!(
        last_line(&ended),
        "2 workers, 1 turn: 0 overlaps, 0 out of order"
    );
}

const ONE_TURN: &str = "--workers 1 --cycles 1 --hold-ms 0";

#[test]
fn readers_that_went_away_change_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let both = writer.try_clone().unwrap().into();
    let command = driver(&format!("contend {ONE_TURN}"));
    let ended = Run::into(command, both, writer.into()).end();
    assert_eq!(ended.status.code(), Some(0));
}

#[cfg(target_os = "linux")]
mod on_linux {
    use std::process::Command;
    use std::sync::mpsc::RecvTimeoutError;

    use fairlock_testkit::child_process::BOUND;

    use super::*;

    #[test]
    fn a_worker_that_dies_fails_the_run_and_the_others_go_on() {
        let place = tempfile::tempdir().unwrap();
        let flags = in_processes(&place);
        let run = start(&format!("{flags} --workers 3 --cycles 4 --lease 1s"));
        run.stdout.recv().unwrap();
        let victim = run.children().swap_remove(0);
        let killed = Command::new("kill").args(["-9", &victim]).status().unwrap();
        assert!(killed.success());
        let ended = run.end();
        assert_ended(&ended, 1, &["died: signal: 9"]);
        let clean = "turns: 0 overlaps, 0 out of order";
        assert!(last_line(&ended).ends_with(clean), "{}", ended.summary);
        let missing = ended.summary.lines().filter(|it| it.starts_with("missing"));
        assert!((1..=4).contains(&missing.count()), "{}", ended.summary);
    }

    #[test]
    fn workers_do_not_outlive_the_run() {
        let place = tempfile::tempdir().unwrap();
        let flags = in_processes(&place);
        let run = start(&format!("{flags} --workers 2 --cycles 100000"));
        run.stdout.recv().unwrap();
        assert_eq!(run.children().len(), 2);
        run.kill();
        // Workers write to the run's standard error, which closes when the last of them has ended.
        let silence = run.stderr.recv_timeout(BOUND);
        assert_eq!(silence, Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn turns_that_could_not_be_printed_fail_the_run_and_a_summary_changes_nothing() {
        let full = || Stdio::from(std::fs::File::create("/dev/full").unwrap());
        let command = || driver(&format!("contend {ONE_TURN}"));
        let ended = Run::into(command(), full(), Stdio::piped()).end();
        assert_ended(&ended, 1, &["failed      standard output: "]);
        let ended = Run::into(command(), Stdio::piped(), full()).end();
        assert_eq!((ended.status.code(), ended.lines.len()), (Some(0), 1));
    }
}

#[test]
fn bad_input_is_told_and_never_runs_and_help_says_where_credentials_come_from() {
    // The second row has the name under which users run it.
    let wrong = "
        --processes                        | 2  | needs --local or --endpoint-url
        --processes                        | 2  | Usage: fairlock-bench contend
        --workers 0                        | 2  | --workers
        --cycles many                      | 2  | --cycles
        --hold-ms -1                       | 2  | -1
        --hold-ms 1s                       | 2  | milliseconds
        --wait soon                        | 2  | --wait
        --wait 0s                          | 2  | called none
        --rtt-ms ten                       | 2  | milliseconds
        --algorithm luck                   | 2  | --algorithm
        --algorithm article --wait 1s      | 2  | --wait needs
        --poll-ms 10                       | 2  | --poll-ms needs
        --algorithm lease --poll-ms 0      | 2  | --poll-ms
        --events a --plot a                | 2  | a file each
        --lease forever                    | 2  | --lease
        --lease 0s                         | 64 | --lease
        --table EMPTY                      | 64 | table
        --lock LONG                        | 64 | lock
        --local /dev/null/locks.db         | 64 | /dev/null/locks.db
        --endpoint-url localhost:8000      | 2  | http://
        --endpoint-url http://a --local b  | 2  | --local
        --colour                           | 2  | --colour
    ";
    assert_refused("contend", wrong);
    let help = run("--help").lines.join("\n");
    assert!(help.contains("AWS_ACCESS_KEY_ID"), "{help}");
}
