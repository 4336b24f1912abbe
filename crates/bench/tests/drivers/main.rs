//! The drivers that measure and soak, run as programs.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod contend;
mod performance;
#[cfg(target_os = "linux")]
mod soak;

use std::process::Command;

use fairlock_testkit::child_process::{Ended, Run};

/// The command of a driver, with the flags of a line.
fn driver(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock-bench"));
    command.args(line.split_whitespace());
    command
}

/// A run ended with this code, and told these words on standard error.
#[track_caller]
fn assert_ended(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(code), "{}", ended.summary);
    for word in words {
        assert!(ended.summary.contains(word), "no {word}: {}", ended.summary);
    }
}

/// Input that is wrong, the code that it is refused with, and what is told.
#[track_caller]
fn assert_refused(name: &str, wrong: &str) {
    for row in wrong.lines().filter(|row| !row.trim().is_empty()) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [flags, code, told] = cells[..] else {
            unreachable!("{row}");
        };
        let mut command = driver(name);
        // A word in place of an empty one, and of one that is longer than any name may be.
        let long = "x".repeat(2049);
        let words = flags.split(' ').map(|word| match word {
            "EMPTY" => "",
            "LONG" => &long,
            word => word,
        });
        command.args(words);
        let ended = Run::start(command).end();
        assert_ended(&ended, code.parse().unwrap(), &[told]);
        assert!(ended.lines.is_empty(), "{row}");
    }
}
