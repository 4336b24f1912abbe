//! A directory with a file of locks, and the command in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::command::{Said, fairlock, said, signalled, words};
use crate::running::{Running, until};

/// The script of a holder: it has its process number in a file `held`, and ends when there is a file `go`.
pub(crate) const UNTIL_GO: &str = "echo $$ > held; until [ -e go ]; do sleep 0.02; done";

pub(crate) struct Home(TempDir);

impl Home {
    /// An empty directory.
    pub(crate) fn empty() -> Self {
        Home(TempDir::new().unwrap())
    }

    /// With a table in `locks.db`.
    pub(crate) fn new() -> Self {
        let home = Home::empty();
        home.run("table create").assert_done();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Empty if there is no such file.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.file(name), text).unwrap();
    }

    /// Writes a script that can be run.
    pub(crate) fn write_script(&self, name: &str, script: &str) {
        self.write(name, script);
        self.set_mode(name, 0o755);
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.file(name), PermissionsExt::from_mode(mode)).unwrap();
    }

    pub(crate) fn make_dir(&self, name: &str) {
        fs::create_dir(self.file(name)).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.file(name)).unwrap();
    }

    /// The command with the words of a line.
    pub(crate) fn bare(&self, line: &str) -> Command {
        fairlock(self.path(), &words(line))
    }

    /// The command with the words of a line, and with the file as the place of its locks.
    pub(crate) fn command(&self, line: &str) -> Command {
        fairlock(self.path(), &local(line))
    }

    pub(crate) fn run(&self, line: &str) -> Said {
        said(&mut self.command(line))
    }

    /// Runs the command while the locks of this test are renewed.
    pub(crate) async fn run_beside(&self, line: &str) -> Said {
        let mut command = self.command(line);
        spawn_blocking(move || said(&mut command)).await.unwrap()
    }

    /// Runs a script in a turn at `a`.
    pub(crate) fn sh(&self, flags: &str, script: &str) -> Said {
        said(&mut fairlock(self.path(), &scripted(flags, script)))
    }

    /// Starts the command, whose process can be signalled.
    pub(crate) fn start(&self, line: &str) -> Running {
        Running::spawn(&mut signalled(self.path(), &local(line)), self.path())
    }

    /// Starts a script in a turn at `a`, or its wait for that.
    pub(crate) fn start_sh(&self, flags: &str, script: &str) -> Running {
        Running::spawn(
            &mut signalled(self.path(), &scripted(flags, script)),
            self.path(),
        )
    }

    /// Starts a holder of `a`, and waits for its hold. It ends when the test says `go`.
    pub(crate) fn held(&self, flags: &str) -> Running {
        let held = self.start_sh(flags, UNTIL_GO);
        held.pid_in("held");
        held
    }

    pub(crate) fn go(&self) {
        self.write("go", "");
    }

    /// What a command prints as JSON.
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(line).out).unwrap()
    }

    /// The lock `a` and its queue, as `show --json` prints them.
    pub(crate) fn shown(&self) -> Value {
        self.json("show --json a")
    }

    pub(crate) fn is_free(&self) -> bool {
        self.run("show a").out.starts_with("a: free")
    }

    pub(crate) fn has_a_successor(&self) -> bool {
        self.shown()["queue"][0]["stage"] == "successor"
    }

    /// Waits until a successor waits.
    #[track_caller]
    pub(crate) fn until_successor(&self) {
        until("a successor", || self.has_a_successor());
    }

    /// Waits until so many callers wait for the lock.
    #[track_caller]
    pub(crate) fn until_waiting(&self, count: usize) {
        let line = || self.shown()["queue"].as_array().map(Vec::len);
        until("a line of that length", || line() == Some(count));
    }
}

/// The words of a line, with the file behind the verb.
pub(crate) fn local(line: &str) -> Vec<String> {
    let mut words = words(line);
    let is_of_two = matches!(&*words[0], "data" | "lease" | "table");
    let behind = 1 + usize::from(is_of_two);
    words.splice(behind..behind, ["--local", "locks.db"].map(str::to_owned));
    words
}

pub(crate) fn scripted(flags: &str, script: &str) -> Vec<String> {
    let mut words = local(&format!("run {flags} a -- sh -c"));
    words.push(script.to_owned());
    words
}
