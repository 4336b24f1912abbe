//! The examples of docs/command.md run as they stand there.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::command::{Said, fairlock, path, said};

/// The block of code in a language that has these words.
pub(crate) fn example(words: &str, language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    let page = fs::read_to_string(page).unwrap();
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    let mut blocks = blocks.filter_map(|block| Some(block.split_once("```")?.0));
    blocks
        .find(|block| block.contains(words))
        .unwrap()
        .to_owned()
}

/// A directory with a file of locks, and a script that records its ticket.
fn home(script: &str) -> TempDir {
    let home = TempDir::new().unwrap();
    let made = said(&mut fairlock(
        home.path(),
        &["table", "create", "--local", "locks.db"],
    ));
    assert_eq!(made.code, Some(0), "{made:?}");
    let script = home.path().join(script);
    fs::write(
        &script,
        "#!/bin/sh\necho \"$FAIRLOCK_LOCK $FAIRLOCK_TICKET\" >> ran\n",
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    home
}

/// Runs a line in a shell, with the command on its path and its locks in the file.
fn shell(home: &Path, line: &str) -> Said {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "/bin/sh", "-c", line]);
    command.current_dir(home).stdin(Stdio::null()).env_clear();
    command.env("PATH", path()).env("HOME", home);
    said(command.env("FAIRLOCK_LOCAL", "locks.db"))
}

fn ran(home: &Path) -> String {
    let ran = fs::read_to_string(home.join("ran")).unwrap_or_default();
    ran.split(' ').next().unwrap().to_owned()
}

#[test]
fn the_line_for_cron_runs_and_a_second_host_does_nothing() {
    let home = home("report.sh");
    let crontab = example("nightly-report", "crontab");
    let line = crontab.lines().last().unwrap();
    // Five fields of time come before the command.
    let command = line.splitn(6, ' ').last().unwrap();
    assert!(command.ends_with("-- ./report.sh"), "{command}");
    let first = shell(home.path(), command);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(ran(home.path()), "nightly-report");
    // Another host, whose clock is late, comes when the first one has ended.
    let ended = shell(home.path(), &command.replace("./report.sh", "touch second"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!home.path().join("second").exists());
    assert!(
        ended.err.contains("`nightly-report` was not granted"),
        "{ended:?}"
    );
}

#[test]
fn the_service_runs_what_its_unit_says() {
    let home = home("consumer.sh");
    let unit = example("ExecStart=fairlock run", "ini");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .unwrap();
    let ended = shell(home.path(), &start.replace("%H", "a-host"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ran(home.path()), "consumer");
}

#[test]
fn the_deployment_runs() {
    let home = home("deploy.sh");
    let ended = shell(home.path(), &example("./deploy.sh", "sh"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ran(home.path()), "deploy/prod");
}
