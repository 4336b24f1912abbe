//! The files that a run writes beside its report.

use serde_json::Value;

use super::{Ended, ONE_TURN, SIX_TURNS, each, run};

/// The contents of a file that a run writes.
fn written(flag: &str, flags: &[&str]) -> (Ended, String) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("written");
    let ended = run(&[&[flag, file.to_str().unwrap()], flags].concat());
    (ended, std::fs::read_to_string(file).unwrap())
}

#[test]
fn events_hold_what_was_run_in_the_order_of_time() {
    let (ended, events) = written("--events", &SIX_TURNS);
    assert!(ended.status.success(), "{}", ended.summary);
    let read = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = read.collect();
    assert!(events.is_sorted_by_key(|event| event["at_ns"].as_u64()));
    for (kind, field) in [
        ("asked", "requested_ns"),
        ("granted", "acquired_ns"),
        ("releasing", "releasing_ns"),
        ("released", "released_ns"),
    ] {
        let mut told = events
            .iter()
            .filter(|event| event["event"] == kind)
            .map(|event| {
                (
                    event["ticket"].as_u64().unwrap(),
                    event["at_ns"].as_u64().unwrap(),
                )
            })
            .collect::<Vec<_>>();
        told.sort_unstable();
        let lines = each(&ended, "ticket").into_iter().zip(each(&ended, field));
        assert_eq!(told, lines.collect::<Vec<_>>(), "{kind}");
    }
}

#[test]
fn a_plot_shows_what_was_run() {
    let (ended, plot) = written("--plot", &SIX_TURNS);
    assert!(ended.status.success(), "{}", ended.summary);
    for told in [
        "<svg",
        "fairlock: 3 workers, hold 1ms",
        "6 turns",
        "worker 3",
        "</svg>",
    ] {
        assert!(plot.contains(told), "no {told} in {plot}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_any_work() {
    let place = tempfile::tempdir().unwrap();
    let tables = place.path().join("locks.db");
    for flag in ["--events", "--plot", "--sent"] {
        let file = ["--local", tables.to_str().unwrap(), flag, "/dev/null/file"];
        let ended = run(&file);
        assert_eq!(ended.status.code(), Some(64), "{}", ended.summary);
        assert!(
            ended.summary.contains("cannot write /dev/null/file: "),
            "{}",
            ended.summary
        );
        assert!(ended.lines.is_empty() && !tables.exists(), "{flag}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_could_not_be_filled_fail_the_run() {
    for flag in ["--events", "--plot", "--sent"] {
        let ended = run(&[&ONE_TURN, &[flag, "/dev/full"][..]].concat());
        assert_eq!(ended.status.code(), Some(1), "{}", ended.summary);
        let told = "failed      cannot write /dev/full: ";
        assert!(ended.summary.contains(told), "{}", ended.summary);
    }
}

#[test]
fn what_was_sent_is_in_a_file_as_the_report_has_it() {
    let (ended, sent) = written("--sent", &ONE_TURN);
    assert!(ended.status.success(), "{}", ended.summary);
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(sent["UpdateItem"]["enter"]["requests"], 1, "{sent}");
    assert_eq!(sent["UpdateItem"]["release"]["write_units"], 1.0, "{sent}");
}
