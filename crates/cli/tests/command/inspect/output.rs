//! Output that is never read, and output that cannot be written.

use std::process::{Command, Stdio};

use fairlock_testkit::real_time;

use super::home::{Home, hold};
use crate::command::{fairlock, said};

/// All commands that say something about a table.
fn speaking(home: &Home) -> impl Iterator<Item = Command> {
    let lines = [
        "table create",
        "table check",
        "show a",
        "show --json a",
        "ls",
    ];
    lines.into_iter().map(|line| {
        let line = format!("{line} --local locks.db");
        fairlock(home.0.path(), &line.split(' ').collect::<Vec<_>>())
    })
}

#[test]
fn nobody_need_be_left_to_read_what_is_told() {
    let home = Home::with_table();
    for mut command in speaking(&home) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = said(command.stdout(Stdio::from(writer)));
        ended.assert_done();
    }
}

#[test]
fn a_listing_that_nobody_reads_to_the_end_ends_quietly() {
    let home = Home::with_table();
    real_time(async {
        let host = home.host("alice");
        for lock in ["a", "b", "c"] {
            hold(&host, lock).await.release().await.unwrap();
        }
    });
    let line = ["ls", "--json", "--local", "locks.db"];
    let mut command = fairlock(home.0.path(), &line);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    said(command.stdout(Stdio::from(writer))).assert_done();
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let home = Home::with_table();
    for mut command in speaking(&home) {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let ended = said(command.stdout(full.unwrap()));
        ended.assert_refused(74, &["cannot write the output", "No space left"]);
    }
}
