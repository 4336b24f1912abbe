//! The examples of docs/command.md run as they stand there.

use std::fs;
use std::path::Path;

use crate::command::{Said, said, shell};
use crate::home::Home;

/// The block of code in a language that has these words.
pub(crate) fn example(words: &str, language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    block(&fs::read_to_string(page).unwrap(), words, language)
}

/// The same of any page.
pub(crate) fn block(page: &str, words: &str, language: &str) -> String {
    let begins = format!("```{language}\n");
    let blocks = page.split(&begins).skip(1);
    let mut blocks = blocks.filter_map(|block| Some(block.split_once("```")?.0));
    let block = blocks.find(|block| block.contains(words));
    block.unwrap().to_owned()
}

/// A directory with a file of locks, and a script that records its ticket.
fn home(script: &str) -> Home {
    let home = Home::new();
    let records = "#!/bin/sh\necho \"$FAIRLOCK_LOCK $FAIRLOCK_TICKET\" >> ran\n";
    home.write_script(script, records);
    home
}

/// Runs a line in a shell, with its locks in the file.
fn run(home: &Home, line: &str) -> Said {
    let mut shell = shell(home.path(), "/bin/sh", line);
    said(shell.env("FAIRLOCK_LOCAL", "locks.db"))
}

#[track_caller]
fn assert_ran(home: &Home, lock: &str) {
    let ran = home.read("ran");
    assert_eq!(ran.split(' ').next(), Some(lock), "{ran}");
}

#[test]
fn the_line_for_cron_runs_and_a_second_host_does_nothing() {
    let home = home("report.sh");
    let crontab = example("nightly-report", "crontab");
    let line = crontab.lines().last().unwrap();
    // Five fields of time come before the command.
    let command = line.splitn(6, ' ').last().unwrap();
    assert!(command.ends_with("-- ./report.sh"), "{command}");
    run(&home, command).assert_ended(0, &[]);
    assert_ran(&home, "nightly-report");
    // Another host, whose clock is late, comes when the first one has ended.
    let ended = run(&home, &command.replace("./report.sh", "touch second"));
    ended.assert_ended(0, &["`nightly-report` was not granted"]);
    assert!(!home.has("second"));
}

#[test]
fn the_service_runs_what_its_unit_says_and_the_deployment_runs() {
    let service = home("consumer.sh");
    let unit = example("ExecStart=fairlock run", "ini");
    let mut lines = unit.lines();
    let start = lines.find_map(|line| line.strip_prefix("ExecStart="));
    let ended = run(&service, &start.unwrap().replace("%H", "a-host"));
    ended.assert_said(0, "");
    assert_ran(&service, "consumer");
    let deploys = home("deploy.sh");
    run(&deploys, &example("./deploy.sh", "sh")).assert_ended(0, &[]);
    assert_ran(&deploys, "deploy/prod");
}
