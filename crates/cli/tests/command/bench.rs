//! `fairlock bench`: it tells the price and asks, measures real turns, and leaves nothing that it does not name.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fairlock_testkit::effort::is_thorough;
use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::command::{Said, fairlock, said};
use crate::inspect::home::{Home, hold, run};
use crate::run::running::until;

const FILE: &str = "--local locks.db";

fn bench(home: &Path, flags: &str) -> Said {
    let line = format!("bench --yes {flags} {FILE}");
    said(&mut fairlock(home, &line.split(' ').collect::<Vec<_>>()))
}

/// The text behind a name at the beginning of a line that was printed.
#[track_caller]
fn told<'a>(out: &'a str, name: &str) -> &'a str {
    let lines = || out.lines().filter_map(|line| line.strip_prefix(name));
    let last = lines().next_back();
    last.unwrap_or_else(|| unreachable!("no {name}: {out}"))
        .trim()
}

/// The number at the beginning of a text.
#[track_caller]
fn number(text: &str) -> f64 {
    let number = text.split(' ').next().unwrap_or_default();
    number
        .parse()
        .unwrap_or_else(|_| unreachable!("no number: {text}"))
}

#[test]
fn turns_are_taken_and_measured_and_what_is_left_is_told() {
    let home = TempDir::new().unwrap();
    let ended = bench(home.path(), "--leave --workers 3 --turns 5 --hold 2ms");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let out = &ended.out;
    // What it will cost comes first, and then what was measured.
    assert!(out.starts_with("3 workers at lock bench/"), "{out}");
    assert!(
        out.contains("turns        about 15 in ") && out.contains("read units, and more"),
        "{out}"
    );
    assert!(told(out, "turns").starts_with("15 in "), "{out}");
    for (name, words) in [
        ("round trips", &["p50 ", "p90 ", "p99 ", " ms, of "][..]),
        ("handoffs", &["p50 ", "p90 ", "p99 "]),
        ("fairness", &["passed by "]),
        ("price", &["nothing for a file; ", " dollars at DynamoDB"]),
    ] {
        let told = told(out, name);
        words
            .iter()
            .for_each(|word| assert!(told.contains(word), "no {word}: {out}"));
    }
    assert!(out.contains("median round trips"), "{out}");
    let units = told(out, "units");
    let (least, units) = units.split_once(" write units and ").unwrap();
    // Each turn is two writes at least, and each write a unit at least.
    assert!(
        number(least.trim_start_matches("at least ")) >= 2.0 && number(units) > 0.0,
        "{out}"
    );
    assert!(number(told(out, "requests")) > 2.0, "{out}");
    assert_eq!(
        told(out, "verdict"),
        "3 workers, 15 turns: 0 overlaps, 0 out of order"
    );
    let (_, delete) = ended
        .err
        .split_once("leaves the idle lock `bench/")
        .unwrap();
    let (_, delete) = delete.split_once("`fairlock ").unwrap();
    let (delete, _) = delete.split_once('`').unwrap();
    // The command that it names deletes the lock, if only a minute later.
    let early = said(&mut fairlock(
        home.path(),
        &delete.split(' ').collect::<Vec<_>>(),
    ));
    early.assert_refused(75, &["less than a minute ago"]);
}

/// Takes a little more than a minute, because no younger lock may be deleted. `bench::cleanup` has the same in virtual time.
#[test]
fn its_own_lock_is_deleted_when_it_is_a_minute_old() {
    if !is_thorough() {
        return;
    }
    let home = TempDir::new().unwrap();
    let ended = bench(home.path(), "--workers 2 --turns 2 --hold 1ms");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.err.contains("waits until its lock is a minute old"),
        "{ended:?}"
    );
    assert!(!ended.err.contains("leaves the idle lock"), "{ended:?}");
    let left = said(&mut fairlock(home.path(), &["ls", "--local", "locks.db"]));
    assert!(left.assert_done().starts_with("no locks in "), "{left:?}");
}

#[test]
fn one_worker_costs_two_requests_a_turn_over_http_too() {
    real_time(async {
        let place = ServedEngine::new(Wire::Tcp).await;
        let url = place.url().await;
        let home = TempDir::new().unwrap();
        let line =
            "bench --yes --leave --workers 1 --turns 20 --hold 0s --table locks --endpoint-url";
        let line = line.split(' ').chain([url.as_str()]).collect::<Vec<_>>();
        let mut command = fairlock(home.path(), &line);
        let names = ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        command.envs(names.map(|name| (name, "test")));
        let before = place.server.requests();
        let ended = finished(command).await;
        let seen = place.server.requests() - before;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let a_turn = number(told(&ended.out, "requests"));
        // The first turn at a lock without an item takes a request more, or two.
        assert!((2.0..=2.1).contains(&a_turn), "{ended:?}");
        // Beside the turns there are the reads before and the deletion behind them.
        let counted = (a_turn * 20.0).round() as usize;
        assert!(
            (counted + 5..counted + 20).contains(&seen),
            "{seen}: {ended:?}"
        );
        assert!(!ended.out.contains("for a file"), "{ended:?}");
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "waits for a real process beside the test's server"
)]
async fn finished(mut command: Command) -> Said {
    let run = tokio::task::spawn_blocking(move || said(&mut command));
    run.await.unwrap()
}

#[test]
fn a_named_lock_stays_and_one_in_use_is_refused() {
    let home = Home::with_table();
    let named = "--workers 2 --turns 2 --hold 1ms --lock mine";
    let ended = bench(home.0.path(), named);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let listed = home.run("ls --local locks.db");
    assert!(listed.assert_done().contains("mine"), "{listed:?}");
    real_time(async {
        let _guard = hold(&home.host("alice"), "mine").await;
        let line = format!("bench --yes {named} {FILE}");
        let refused = run(&home, &line.split(' ').collect::<Vec<_>>()).await;
        refused.assert_refused(75, &["`mine` is in use", "--lock"]);
    });
}

#[test]
fn where_nobody_can_be_asked_it_wants_a_yes_and_begins_nothing() {
    let home = TempDir::new().unwrap();
    let refused = said(&mut fairlock(
        home.path(),
        &["bench", "--local", "locks.db"],
    ));
    refused.assert_refused(64, &["no terminal", "--yes"]);
    assert!(!home.path().join("locks.db").exists());
    for flags in ["--turns 0", "--workers 0", "--turns 1 --for 1s", "--hold x"] {
        assert_eq!(bench(home.path(), flags).code, Some(64), "{flags}");
    }
    assert!(!home.path().join("locks.db").exists());
}

#[test]
fn a_contest_lasts_for_as_long_as_was_asked_and_tells_what_units_cost() {
    let home = TempDir::new().unwrap();
    let ended = bench(home.path(), "--leave --workers 2 --for 300ms --hold 1ms");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(number(told(&ended.out, "turns")) >= 1.0, "{ended:?}");
    // Two write units each, and more.
    let turns = number(told(&ended.out, "turns"));
    let dollars = told(&ended.out, "price").trim_start_matches("nothing for a file; ");
    let dollars = number(dollars.trim_start_matches("at least "));
    assert!(dollars >= 2.0 * turns * 0.5e-6, "{ended:?}");
    assert!(ended.out.contains("us-east-1"), "{ended:?}");
}

#[test]
fn turns_that_overlap_or_come_out_of_order_fail_it() {
    let home = TempDir::new().unwrap();
    let ended = bench(
        home.path(),
        "--leave --workers 2 --turns 3 --hold 1ms --plant-fault",
    );
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let verdict = told(&ended.out, "verdict");
    assert!(
        !verdict.contains("0 overlaps") && !verdict.contains(" 0 out of order"),
        "{ended:?}"
    );
}

#[test]
fn the_report_is_one_page_and_never_takes_the_place_of_another() {
    let home = TempDir::new().unwrap();
    let flags = "--leave --workers 2 --turns 3 --hold 1ms --report report";
    let ended = bench(home.path(), flags);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(told(&ended.out, "report"), "report/index.html");
    let page = std::fs::read_to_string(home.path().join("report/index.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 3);
    for word in [
        "6 in ",
        "2 workers, 6 turns: 0 overlaps, 0 out of order",
        "worker 2",
    ] {
        assert!(page.contains(word), "no {word}");
    }
    let again = bench(home.path(), flags);
    assert_eq!(again.code, Some(64), "{again:?}");
    assert!(
        again.err.contains("report/index.html is there already"),
        "{again:?}"
    );
    let kept = std::fs::read_to_string(home.path().join("report/index.html")).unwrap();
    assert_eq!(kept, page);
    let nowhere = bench(home.path(), "--report no/such");
    assert_eq!(nowhere.code, Some(74), "{nowhere:?}");
}

/// A contest that was started, and is killed with the test.
struct Contest(Child);

impl Contest {
    fn start(home: &Path, flags: &str) -> Contest {
        let mut command = Command::new("env");
        command.args([
            "--default-signal",
            env!("CARGO_BIN_EXE_fairlock"),
            "bench",
            "--yes",
        ]);
        command.args(flags.split(' ')).args(FILE.split(' '));
        command.current_dir(home).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Contest(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn end(mut self) -> Said {
        let (mut out, mut err) = (String::new(), String::new());
        self.0
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_string(&mut err).unwrap();
        }
        let code = self.0.wait().unwrap().code();
        Said { code, out, err }
    }
}

impl Drop for Contest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn listed(home: &Path) -> String {
    said(&mut fairlock(home, &["ls", "--local", "locks.db"])).out
}

#[test]
fn a_signal_ends_the_contest_with_its_figures_and_nobody_holds_or_waits() {
    let home = TempDir::new().unwrap();
    let contest = Contest::start(home.path(), "--leave --workers 3 --for 100s --hold 5ms");
    until("a turn", || listed(home.path()).contains("bench worker"));
    contest.signal(Signal::TERM);
    let ended = contest.end();
    assert_eq!(ended.code, Some(143), "{ended:?}");
    assert!(
        told(&ended.out, "verdict").contains("0 overlaps"),
        "{ended:?}"
    );
    let left = listed(home.path());
    assert!(
        left.contains("free") && !left.contains("bench worker"),
        "{left}"
    );
}

#[test]
fn a_signal_ends_the_wait_for_the_deletion_and_it_says_what_it_leaves() {
    let home = TempDir::new().unwrap();
    let mut contest = Contest::start(home.path(), "--workers 2 --turns 2 --hold 1ms");
    let mut err = BufReader::new(contest.0.stderr.take().unwrap()).lines();
    let waits = err.next().unwrap().unwrap();
    assert!(waits.contains("a minute old"), "{waits}");
    contest.signal(Signal::INT);
    let leaves = err.next().unwrap().unwrap();
    assert!(leaves.contains("leaves the idle lock `bench/"), "{leaves}");
    assert_eq!(contest.end().code, Some(0));
}
