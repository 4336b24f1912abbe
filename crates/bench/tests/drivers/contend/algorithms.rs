//! The same work by each algorithm, judged by the same report.

use super::{SIX_TURNS, each, in_processes, last_line, run};
use crate::assert_ended;

#[test]
fn every_algorithm_takes_the_same_turns_and_is_judged_by_the_same_report() {
    for (flags, verbs) in [
        ("", ["enter ", "release "]),
        ("--algorithm article --poll-ms 5", ["join ", "release "]),
        ("--algorithm lease --poll-ms 5", ["acquire ", "release "]),
    ] {
        let ended = run(&format!("{flags} {SIX_TURNS} --rtt-ms 1"));
        let summary = &ended.summary;
        // A baseline may be overtaken or overlap, which is no fault of the driver.
        let is_clean = summary.ends_with("0 overlaps, 0 out of order");
        assert_ended(&ended, i32::from(!is_clean), &verbs);
        assert!(is_clean || !flags.is_empty(), "{summary}");
        assert!(
            last_line(&ended).starts_with("3 workers, 6 turns: "),
            "{summary}"
        );
        assert_eq!(each(&ended, "ticket").len(), 6, "{flags}");
        for told in [
            "times the mean",
            " round trips",
            "turns a second",
            "of 6 turns granted after",
            "write units a turn",
        ] {
            assert!(summary.contains(told), "{flags}: no {told} in {summary}");
        }
        assert!(!summary.contains("other"), "{flags}: {summary}");
    }
}

#[test]
fn a_baseline_that_nobody_contends_for_is_clean() {
    for (algorithm, requests) in [
        ("article", "4.17 requests a turn"),
        ("lease", "3.00 requests a turn"),
    ] {
        let alone = "--workers 1 --cycles 6 --hold-ms 0";
        let ended = run(&format!("--algorithm {algorithm} {alone}"));
        assert_ended(&ended, 0, &[requests]);
        let clean = "1 worker, 6 turns: 0 overlaps, 0 out of order";
        assert_eq!(last_line(&ended), clean);
    }
}

#[test]
fn baselines_contend_in_processes_too() {
    for algorithm in ["article", "lease"] {
        let place = tempfile::tempdir().unwrap();
        let flags = format!("{} --algorithm {algorithm}", in_processes(&place));
        let ended = run(&format!("{flags} --poll-ms 5 {SIX_TURNS}"));
        let last = last_line(&ended);
        assert!(
            last.starts_with("3 workers, 6 turns: "),
            "{}",
            ended.summary
        );
        assert!(!ended.summary.contains("failed"), "{}", ended.summary);
    }
}

#[test]
fn workers_in_one_client_hand_off_without_polling() {
    let ended = run(&format!("--one-client {SIX_TURNS}"));
    assert_ended(&ended, 0, &[]);
    let clean = "3 workers, 6 turns: 0 overlaps, 0 out of order";
    assert_eq!(last_line(&ended), clean);
}
