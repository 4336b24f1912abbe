//! The soak passes a short run, fails with each planted fault and names it, and ends early with a report.
//!
//! With `FAIRLOCK_TEST_ENDPOINT`, each run is also made there.

use std::process::Command;

use fairlock_testkit::child_process::{Ended, Run};
use fairlock_testkit::effort::sized;

use crate::{assert_refused, driver};

fn start(flags: &str) -> Run {
    Run::start(driver(&format!("soak {flags}")))
}

/// A run ended with this code, its last line began so, and it told these words.
#[track_caller]
fn assert_ended(ended: &Ended, code: i32, last: &str, words: &[&str]) {
    let said = format!("{}\n{}", ended.lines.join("\n"), ended.summary);
    assert_eq!(ended.status.code(), Some(code), "{said}");
    let told = ended.lines.last().map_or("", String::as_str);
    assert!(told.starts_with(last), "{said}");
    for words in words {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}

const GOOD: &str = "good: 0 violations";

/// Runs a test in memory and, if there is one, at the endpoint, in a table of its own.
#[track_caller]
fn everywhere(test: &str, flags: &str, (code, last): (i32, &str), words: &[&str]) {
    assert_ended(&start(flags).end(), code, last, words);
    let endpoint = std::env::var("FAIRLOCK_TEST_ENDPOINT");
    if let Some(url) = endpoint.ok().filter(|url| !url.is_empty()) {
        let table = format!("soak-{}-{test}", std::process::id());
        let there = format!("{flags} --endpoint-url {url} --table {table}");
        assert_ended(&start(&there).end(), code, last, words);
    }
}

/// Checks that a run with this fault fails, and names it in these words.
#[track_caller]
fn fails(plant: &str, more: &str, words: &[&str]) {
    let flags = format!("--callers 8 --plant {plant} {more}");
    everywhere(plant, &flags, (1, "FAILED: "), words);
}

#[test]
fn a_short_run_is_good_and_reports_all_there_is() {
    let flags = format!("--for {} --every 2s --callers 8", sized("3s", "5s"));
    let words = [
        " turns (",
        "outcomes     ",
        "waits        p50 ",
        "handoffs   p50 ",
        "faults       ",
        " a turn, and ",
        "not judged: the run was shorter than 120s",
        " connections, ",
        " items of ",
    ];
    everywhere("good", &flags, (0, GOOD), &words);
}

/// The clients cross faults and each other's notifications, by UDP.
#[test]
fn a_short_run_of_clients_that_notify_each_other_is_good() {
    let flags = format!("--for {} --callers 16 --notify", sized("3s", "10s"));
    assert_ended(&start(&flags).end(), 0, GOOD, &[]);
}

#[test]
fn callers_that_believe_though_they_gave_back_are_found() {
    let words = ["overlap: tickets ", "of `hot` believed at the same time"];
    fails("overlap", "--for 5s", &words);
}

#[test]
fn tickets_that_do_not_grow_are_found() {
    fails("order", "--for 3s", &["out of order: ticket "]);
}

#[test]
fn a_believing_holder_that_is_refused_is_found() {
    fails("refuse", "--for 3s", &["refused: `"]);
}

#[test]
fn a_task_that_panics_is_found() {
    fails("panic", "--for 2s", &["panic: ", "planted"]);
}

#[test]
fn an_older_token_that_was_taken_is_found() {
    fails("stale", "--for 3s", &["stale: `", "took token "]);
}

#[test]
fn what_nobody_ends_is_found() {
    let words = [
        "connections after the end, 0 before",
        "descriptors after the end",
        "tasks after the end, 0 before",
    ];
    fails("leak", "--for 3s", &words);
}

#[test]
fn a_lock_that_nobody_is_granted_is_found() {
    let words = ["stall: nobody was granted `hot` for 2s"];
    fails("stall", "--for 10s --stalled-after 2s", &words);
}

#[test]
fn what_no_contract_tells_a_caller_is_found() {
    fails("surprise", "--for 3s", &["surprise: a caller was told: "]);
}

#[test]
fn somebody_who_does_not_stop_is_found() {
    let words = ["stuck: somebody did not stop within 5s"];
    fails("stuck", "--for 1s --ends-within 5s", &words);
}

#[test]
fn a_client_that_does_not_finish_is_found() {
    fails("unfinished", "--for 1s --ends-within 4s", &["unfinished: "]);
}

#[test]
fn a_lock_that_stays_held_and_an_item_of_no_lock_are_found() {
    let words = ["left: `kept` is held", "left: `planted` has fairlock/row"];
    fails("left", "--for 1s --ends-within 8s", &words);
}

#[test]
fn an_interrupted_run_reports_what_it_had() {
    let run = start("--for 1h --every 1s");
    run.stdout.recv().unwrap();
    let id = run.id().to_string();
    let told = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(told.success());
    assert_ended(&run.end(), 0, GOOD, &[", cut short, "]);
}

#[test]
fn bad_input_is_told_and_never_runs() {
    let wrong = "
        --for soon                         | 2  | --for
        --for 0s                           | 2  | not between 1s and
        --every never                      | 2  | --every
        --callers 3                        | 2  | 4 to 1000
        --faults-per-mille 501             | 2  | 501
        --stalled-after 1ms                | 2  | not between 1s and
        --endpoint-url localhost:8000      | 2  | http://
        --endpoint-url http://a --local b  | 2  | --local
        --local /dev/null/locks.db         | 64 | /dev/null/locks.db
        --table EMPTY                      | 64 | table
    ";
    assert_refused("soak", wrong);
}
