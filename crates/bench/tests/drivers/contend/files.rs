//! The files that a run writes beside its report.

use serde_json::Value;

use super::{Ended, ONE_TURN, SIX_TURNS, each, run};
use crate::assert_ended;

/// The contents of a file that a run writes.
fn written(flag: &str, flags: &str) -> (Ended, String) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("written");
    let ended = run(&format!("{flag} {} {flags}", file.display()));
    assert_ended(&ended, 0, &[]);
    (ended, std::fs::read_to_string(file).unwrap())
}

#[test]
fn events_hold_what_was_run_in_the_order_of_time() {
    let (ended, events) = written("--events", SIX_TURNS);
    let read = events.lines();
    let read = read.map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = read.collect();
    assert!(events.is_sorted_by_key(|event| event["at_ns"].as_u64()));
    for (kind, field) in [
        ("asked", "requested_ns"),
        ("granted", "acquired_ns"),
        ("releasing", "releasing_ns"),
        ("released", "released_ns"),
    ] {
        let of_kind = events.iter().filter(|event| event["event"] == kind);
        let number = |event: &Value, name| event[name].as_u64().unwrap();
        let told = of_kind.map(|event| (number(event, "ticket"), number(event, "at_ns")));
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        let lines = each(&ended, "ticket").into_iter().zip(each(&ended, field));
        assert_eq!(told, lines.collect::<Vec<_>>(), "{kind}");
    }
}

#[test]
fn a_plot_shows_what_was_run() {
    let (_, plot) = written("--plot", SIX_TURNS);
    let title = "fairlock: 3 workers, hold 1ms";
    for told in ["<svg", title, "6 turns", "worker 3", "</svg>"] {
        assert!(plot.contains(told), "no {told} in {plot}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_any_work() {
    let place = tempfile::tempdir().unwrap();
    let tables = place.path().join("locks.db");
    for flag in ["--events", "--plot", "--sent"] {
        let ended = run(&format!(
            "--local {} {flag} /dev/null/file",
            tables.display()
        ));
        assert_ended(&ended, 64, &["cannot write /dev/null/file: "]);
        assert!(ended.lines.is_empty() && !tables.exists(), "{flag}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_could_not_be_filled_fail_the_run() {
    for flag in ["--events", "--plot", "--sent"] {
        let ended = run(&format!("{ONE_TURN} {flag} /dev/full"));
        assert_ended(&ended, 1, &["failed      cannot write /dev/full: "]);
    }
}

#[test]
fn what_was_sent_is_in_a_file_as_the_report_has_it() {
    let (_, sent) = written("--sent", ONE_TURN);
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(sent["UpdateItem"]["enter"]["requests"], 1, "{sent}");
    assert_eq!(sent["UpdateItem"]["release"]["write_units"], 1.0, "{sent}");
}
