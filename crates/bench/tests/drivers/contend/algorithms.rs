//! The same work by each algorithm, judged by the same report.

use super::{SIX_TURNS, each, last_line, run};

#[test]
fn every_algorithm_takes_the_same_turns_and_is_judged_by_the_same_report() {
    let asked_for: [(&[&str], [&str; 2]); 3] = [
        (&[], ["enter ", "release "]),
        (
            &["--algorithm", "article", "--poll-ms", "5"],
            ["join ", "release "],
        ),
        (
            &["--algorithm", "lease", "--poll-ms", "5"],
            ["acquire ", "release "],
        ),
    ];
    for (flags, verbs) in asked_for {
        let ended = run(&[flags, &SIX_TURNS, &["--rtt-ms", "1"]].concat());
        let summary = &ended.summary;
        // A baseline may be overtaken or overlap, which is no fault of the driver.
        let is_clean = summary.ends_with("0 overlaps, 0 out of order");
        assert_eq!(ended.status.success(), is_clean, "{flags:?}: {summary}");
        assert!(is_clean || !flags.is_empty(), "{summary}");
        assert!(
            last_line(&ended).starts_with("3 workers, 6 turns: "),
            "{flags:?}: {summary}"
        );
        assert_eq!(each(&ended, "ticket").len(), 6, "{flags:?}");
        let told = [
            "times the mean",
            " round trips",
            "turns a second",
            "of 6 turns granted after",
        ];
        for told in told.into_iter().chain(["write units a turn"]).chain(verbs) {
            assert!(summary.contains(told), "{flags:?}: no {told} in {summary}");
        }
        assert!(!summary.contains("other"), "{flags:?}: {summary}");
    }
}

#[test]
fn a_baseline_that_nobody_contends_for_is_clean() {
    for (algorithm, requests) in [
        ("article", "4.17 requests a turn"),
        ("lease", "3.00 requests a turn"),
    ] {
        let alone = ["--workers", "1", "--cycles", "6", "--hold-ms", "0"];
        let ended = run(&[&["--algorithm", algorithm], &alone[..]].concat());
        assert!(ended.status.success(), "{}", ended.summary);
        assert_eq!(
            last_line(&ended),
            "1 worker, 6 turns: 0 overlaps, 0 out of order"
        );
        assert!(ended.summary.contains(requests), "{}", ended.summary);
    }
}

#[test]
fn baselines_contend_in_processes_too() {
    for algorithm in ["article", "lease"] {
        let place = tempfile::tempdir().unwrap();
        let tables = place.path().join("locks.db");
        let flags = [
            "--processes",
            "--local",
            tables.to_str().unwrap(),
            "--algorithm",
            algorithm,
        ];
        let ended = run(&[&flags[..], &["--poll-ms", "5"], &SIX_TURNS].concat());
        assert!(
            last_line(&ended).starts_with("3 workers, 6 turns: "),
            "{}",
            ended.summary
        );
        assert!(!ended.summary.contains("failed"), "{}", ended.summary);
    }
}

#[test]
fn workers_in_one_client_hand_off_without_polling() {
    let ended = run(&[&["--one-client"], &SIX_TURNS[..]].concat());
    assert!(ended.status.success(), "{}", ended.summary);
    assert_eq!(
        last_line(&ended),
        "3 workers, 6 turns: 0 overlaps, 0 out of order"
    );
}
