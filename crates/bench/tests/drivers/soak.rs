//! The soak passes a short run, fails with each planted fault and names it, and ends early with a report.
//!
//! With `FAIRLOCK_TEST_ENDPOINT`, each run is also made there.

use std::process::Command;

use fairlock_testkit::child_process::{Ended, Run};
use fairlock_testkit::effort::sized;

use crate::driver;

fn start(flags: &[&str]) -> Run {
    let mut command = driver("soak");
    command.args(flags);
    Run::start(command)
}

/// Runs a test in memory and, if there is one, at the endpoint, in a table of its own.
fn everywhere(test: &str, flags: &[&str], judge: impl Fn(&Ended, &str)) {
    let ended = start(flags).end();
    judge(&ended, &said(&ended));
    let endpoint = std::env::var("FAIRLOCK_TEST_ENDPOINT");
    if let Some(url) = endpoint.ok().filter(|url| !url.is_empty()) {
        let table = format!("soak-{}-{test}", std::process::id());
        let there = ["--endpoint-url", &url, "--table", &table];
        let ended = start(&[flags, &there].concat()).end();
        judge(&ended, &said(&ended));
    }
}

fn said(ended: &Ended) -> String {
    format!("{}\n{}", ended.lines.join("\n"), ended.summary)
}

fn last_line(ended: &Ended) -> &str {
    ended.lines.last().map_or("", String::as_str)
}

/// Checks that a run with this fault fails, and names it in these words.
fn fails(plant: &str, more: &[&str], words: &[&str]) {
    let flags = ["--callers", "8", "--plant", plant];
    everywhere(plant, &[&flags, more].concat(), |ended, said| {
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(last_line(ended).starts_with("FAILED: "), "{said}");
        for words in words {
            assert!(said.contains(words), "no `{words}` in {said}");
        }
    });
}

#[test]
fn a_short_run_is_good_and_reports_all_there_is() {
    let lasts = sized("3s", "5s");
    let flags = ["--for", lasts, "--every", "2s", "--callers", "8"];
    everywhere("good", &flags, |ended, said| {
        assert_eq!(ended.status.code(), Some(0), "{said}");
        assert_eq!(last_line(ended), "good: 0 violations", "{said}");
        assert!(ended.lines[0].contains(" turns ("), "{said}");
        for told in [
            "outcomes     ",
            "waits        p50 ",
            "handoffs   p50 ",
            "faults       ",
            " a turn, and ",
            "not judged: the run was shorter than 120s",
            " connections, ",
            " items of ",
        ] {
            assert!(said.contains(told), "no `{told}` in {said}");
        }
    });
}

/// The clients cross faults and each other's notifications, by UDP.
#[test]
fn a_short_run_of_clients_that_notify_each_other_is_good() {
    let flags = ["--for", sized("3s", "10s"), "--callers", "16", "--notify"];
    let ended = start(&flags).end();
    let said = said(&ended);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert_eq!(last_line(&ended), "good: 0 violations", "{said}");
}

#[test]
fn callers_that_believe_though_they_gave_back_are_found() {
    fails(
        "overlap",
        &["--for", "5s"],
        &["overlap: tickets ", "of `hot` believed at the same time"],
    );
}

#[test]
fn tickets_that_do_not_grow_are_found() {
    fails("order", &["--for", "3s"], &["out of order: ticket "]);
}

#[test]
fn a_believing_holder_that_is_refused_is_found() {
    fails("refuse", &["--for", "3s"], &["refused: `"]);
}

#[test]
fn a_task_that_panics_is_found() {
    fails("panic", &["--for", "2s"], &["panic: ", "planted"]);
}

#[test]
fn an_older_token_that_was_taken_is_found() {
    fails("stale", &["--for", "3s"], &["stale: `", "took token "]);
}

#[test]
fn what_nobody_ends_is_found() {
    fails(
        "leak",
        &["--for", "3s"],
        &[
            "connections after the end, 0 before",
            "descriptors after the end",
            "tasks after the end, 0 before",
        ],
    );
}

#[test]
fn a_lock_that_nobody_is_granted_is_found() {
    fails(
        "stall",
        &["--for", "10s", "--stalled-after", "2s"],
        &["stall: nobody was granted `hot` for 2s"],
    );
}

#[test]
fn what_no_contract_tells_a_caller_is_found() {
    fails(
        "surprise",
        &["--for", "3s"],
        &["surprise: a caller was told: "],
    );
}

#[test]
fn somebody_who_does_not_stop_is_found() {
    fails(
        "stuck",
        &["--for", "1s", "--ends-within", "5s"],
        &["stuck: somebody did not stop within 5s"],
    );
}

#[test]
fn a_client_that_does_not_finish_is_found() {
    fails(
        "unfinished",
        &["--for", "1s", "--ends-within", "4s"],
        &["unfinished: "],
    );
}

#[test]
fn a_lock_that_stays_held_and_an_item_of_no_lock_are_found() {
    fails(
        "left",
        &["--for", "1s", "--ends-within", "8s"],
        &["left: `kept` is held", "left: `planted` has fairlock/row"],
    );
}

#[test]
fn an_interrupted_run_reports_what_it_had() {
    let run = start(&["--for", "1h", "--every", "1s"]);
    run.stdout.recv().unwrap();
    let id = run.id().to_string();
    let told = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(told.success());
    let ended = run.end();
    let said = said(&ended);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains(", cut short, "), "{said}");
    assert_eq!(last_line(&ended), "good: 0 violations", "{said}");
}

#[test]
fn bad_input_is_told_and_never_runs() {
    let wrong: [(&[&str], i32, &str); 10] = [
        (&["--for", "soon"], 2, "--for"),
        (&["--for", "0s"], 2, "not between 1s and"),
        (&["--every", "never"], 2, "--every"),
        (&["--callers", "3"], 2, "4 to 1000"),
        (&["--faults-per-mille", "501"], 2, "501"),
        (&["--stalled-after", "1ms"], 2, "not between 1s and"),
        (&["--endpoint-url", "localhost:8000"], 2, "http://"),
        (
            &["--endpoint-url", "http://a", "--local", "b"],
            2,
            "--local",
        ),
        (&["--local", "/dev/null/locks.db"], 64, "/dev/null/locks.db"),
        (&["--table", ""], 64, "table"),
    ];
    for (flags, code, told) in wrong {
        let ended = start(flags).end();
        let summary = &ended.summary;
        assert_eq!(ended.status.code(), Some(code), "{flags:?}: {summary}");
        assert!(summary.contains(told), "{flags:?}: {summary}");
        assert!(ended.lines.is_empty(), "{flags:?}");
    }
}
