//! Output that is never read, and output that cannot be written.

use std::fs::File;
use std::process::Stdio;

use fairlock_testkit::real_time;

use crate::clients::use_once;
use crate::command::said;
use crate::home::Home;

/// All commands that say something about a table.
const SPEAKING: [&str; 5] = [
    "table create",
    "table check",
    "show a",
    "show --json a",
    "ls",
];

fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Stdio::from(writer)
}

#[test]
fn nobody_need_be_left_to_read_what_is_told() {
    let home = Home::new();
    real_time(async {
        let host = home.host("alice");
        for lock in ["a", "b", "c"] {
            use_once(&host, lock).await;
        }
    });
    for line in SPEAKING.iter().chain(&["ls --json"]) {
        said(home.command(line).stdout(closed())).assert_done();
    }
    for (line, code) in [("--help", 0), ("show", 64), ("show a", 69)] {
        let mut command = home.bare(line);
        let status = command.stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let home = Home::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for line in SPEAKING {
        let ended = said(home.command(line).stdout(full()));
        ended.assert_refused(74, &["cannot write the output", "No space left"]);
    }
    for line in ["--help", "run -h", "--version", "man", "completions zsh"] {
        let ended = said(home.bare(line).stdout(full()));
        ended.assert_ended(74, &["cannot write the output"]);
    }
}
