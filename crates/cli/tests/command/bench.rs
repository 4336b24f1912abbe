//! `fairlock bench`: it tells the price and asks, measures real turns, and leaves nothing that it does not name.

use fairlock_testkit::real_time;
use rustix::process::Signal;

use crate::clients::hold;
use crate::command::{Said, said};
use crate::home::Home;
use crate::running::until;
use crate::served::Cloud;

fn bench(home: &Home, flags: &str) -> Said {
    home.run(&format!("bench --yes {flags}"))
}

/// The text behind a name at the beginning of a line that was printed.
#[track_caller]
fn told<'a>(ended: &'a Said, name: &str) -> &'a str {
    let mut lines = ended.out.lines().rev();
    let told = lines.find_map(|line| line.strip_prefix(name));
    told.unwrap_or_else(|| panic!("no {name}: {ended:?}"))
        .trim()
}

/// The number at the beginning of a text.
#[track_caller]
fn number(text: &str) -> f64 {
    let number = text.trim_start_matches("nothing for a file; ");
    let number = number.trim_start_matches("at least ").split(' ').next();
    number.unwrap().parse().unwrap()
}

#[test]
fn turns_are_taken_and_measured_and_what_is_left_is_told() {
    let home = Home::empty();
    let ended = bench(&home, "--leave --workers 3 --turns 5 --hold 2ms");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let out = &ended.out;
    // What it will cost comes first, and then what was measured.
    assert!(out.starts_with("3 workers at lock bench/"), "{out}");
    for words in [
        "turns        about 15 in ",
        "read units, and more",
        "median round trips",
    ] {
        assert!(out.contains(words), "no {words}: {out}");
    }
    for (name, words) in [
        ("turns", &["15 in "][..]),
        ("round trips", &["p50 ", "p90 ", "p99 ", " ms, of "]),
        ("handoffs", &["p50 ", "p90 ", "p99 "]),
        ("fairness", &["passed by "]),
        ("price", &["nothing for a file; ", " dollars at DynamoDB"]),
        (
            "verdict",
            &["3 workers, 15 turns: 0 overlaps, 0 out of order"],
        ),
    ] {
        let told = told(&ended, name);
        let missing = words.iter().find(|word| !told.contains(**word));
        assert_eq!(missing, None, "{out}");
    }
    let (writes, reads) = told(&ended, "units")
        .split_once(" write units and ")
        .unwrap();
    // Each turn is two writes at least, and each write a unit at least.
    assert!(number(writes) >= 2.0 && number(reads) > 0.0, "{out}");
    assert!(number(told(&ended, "requests")) > 2.0, "{out}");
    let (_, delete) = ended
        .err
        .split_once("leaves the idle lock `bench/")
        .unwrap();
    let (_, delete) = delete.split_once("`fairlock ").unwrap();
    let (delete, _) = delete.split_once('`').unwrap();
    // The command that it names deletes the lock, if only a minute later.
    let early = said(&mut home.bare(delete));
    early.assert_refused(75, &["less than a minute ago"]);
}

#[test]
fn one_worker_costs_two_requests_a_turn_over_http_too() {
    real_time(async {
        let cloud = Cloud::new().await;
        let before = cloud.place.server.requests();
        let ended = cloud
            .run("bench --yes --leave --workers 1 --turns 20 --hold 0s")
            .await;
        let seen = cloud.place.server.requests() - before;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let a_turn = number(told(&ended, "requests"));
        // The first turn at a lock without an item takes a request more, or two.
        assert!((2.0..=2.1).contains(&a_turn), "{ended:?}");
        // Beside the turns there are the reads before and the deletion behind them.
        let counted = (a_turn * 20.0).round() as usize;
        let expected = counted + 5..counted + 20;
        assert!(expected.contains(&seen), "{seen}: {ended:?}");
        assert!(!ended.out.contains("for a file"), "{ended:?}");
    });
}

#[test]
fn a_named_lock_stays_and_one_in_use_is_refused() {
    let home = Home::new();
    let named = "bench --yes --workers 2 --turns 2 --hold 1ms --lock mine";
    home.run(named).assert_done();
    home.run("ls").assert_shows(&["mine"]);
    real_time(async {
        let _guard = hold(&home.host("alice"), "mine").await;
        let refused = home.run_beside(named).await;
        refused.assert_refused(75, &["`mine` is in use", "--lock"]);
    });
}

#[test]
fn where_nobody_can_be_asked_it_wants_a_yes_and_begins_nothing() {
    let home = Home::empty();
    home.run("bench")
        .assert_refused(64, &["no terminal", "--yes"]);
    let wrong = "--turns 0, --workers 0, --turns 1 --for 1s, --hold x";
    for flags in wrong.split(", ") {
        assert_eq!(bench(&home, flags).code, Some(64), "{flags}");
    }
    assert!(!home.has("locks.db"));
}

#[test]
fn a_contest_lasts_for_as_long_as_was_asked_and_tells_what_units_cost() {
    let home = Home::empty();
    let ended = bench(&home, "--leave --workers 2 --for 300ms --hold 1ms");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let turns = number(told(&ended, "turns"));
    // Two write units each, and more.
    let dollars = number(told(&ended, "price"));
    assert!(turns >= 1.0 && dollars >= 2.0 * turns * 0.5e-6, "{ended:?}");
    assert!(ended.out.contains("us-east-1"), "{ended:?}");
}

#[test]
fn turns_that_overlap_or_come_out_of_order_fail_it() {
    let home = Home::empty();
    let ended = bench(
        &home,
        "--leave --workers 2 --turns 3 --hold 1ms --plant-fault",
    );
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for none in ["0 overlaps", " 0 out of order"] {
        assert!(!told(&ended, "verdict").contains(none), "{ended:?}");
    }
}

#[test]
fn the_report_is_one_page_and_never_takes_the_place_of_another() {
    let home = Home::empty();
    let flags = "--leave --workers 2 --turns 3 --hold 1ms --report report";
    let ended = bench(&home, flags);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(told(&ended, "report"), "report/index.html");
    let page = home.read("report/index.html");
    assert_eq!(page.matches("<svg").count(), 3);
    for word in [
        "6 in ",
        "2 workers, 6 turns: 0 overlaps, 0 out of order",
        "worker 2",
    ] {
        assert!(page.contains(word), "no {word}");
    }
    let again = bench(&home, flags);
    again.assert_ended(64, &["report/index.html is there already"]);
    assert_eq!(home.read("report/index.html"), page);
    assert_eq!(bench(&home, "--report no/such").code, Some(74));
}

#[test]
fn a_signal_ends_the_contest_with_its_figures_and_nobody_holds_or_waits() {
    let home = Home::empty();
    let contest = home.start("bench --yes --leave --workers 3 --for 100s --hold 5ms");
    until("a turn", || home.run("ls").out.contains("bench worker"));
    contest.signal(Signal::TERM);
    let ended = contest.end();
    assert_eq!(ended.code, Some(143), "{ended:?}");
    assert!(told(&ended, "verdict").contains("0 overlaps"), "{ended:?}");
    let left = home.run("ls").out;
    assert!(
        left.contains("free") && !left.contains("bench worker"),
        "{left}"
    );
}

/// It waits, because no younger lock may be deleted.
#[test]
fn a_signal_ends_the_wait_for_the_deletion_and_it_says_what_it_leaves() {
    let home = Home::empty();
    let mut contest = home.start("bench --yes --workers 2 --turns 2 --hold 1ms");
    let waits = contest.told();
    assert!(
        waits.contains("waits until its lock is a minute old"),
        "{waits}"
    );
    contest.signal(Signal::INT);
    contest
        .end()
        .assert_ended(0, &["leaves the idle lock `bench/"]);
}
