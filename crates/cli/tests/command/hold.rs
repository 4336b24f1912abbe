//! `fairlock hold`: a lock that a script holds, until it says so.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::command::{fairlock, path, said};
use crate::inspect::schema::documented;
use crate::run::running::{has_a_successor, home, is_free, until};

/// A `fairlock hold` that was started.
struct Holding {
    process: Child,
    input: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Holding {
    /// Starts it without a `timeout` before it, so that its process can be signalled.
    fn start(home: &Path, flags: &[&str]) -> Holding {
        let mut command = Command::new("env");
        command.args([
            "--default-signal",
            env!("CARGO_BIN_EXE_fairlock"),
            "hold",
            "--local",
            "locks.db",
        ]);
        command
            .args(flags)
            .arg("a")
            .current_dir(home)
            .env_remove("FAIRLOCK_HELD");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        Holding {
            input: process.stdin.take(),
            out: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    /// Waits for what it prints when it holds the lock.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn close(&mut self) {
        self.input = None;
    }

    /// Returns its code, and what it printed on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        until("its end", || is_over(&self.process));
        let status = self.process.wait().unwrap();
        let mut err = String::new();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        (status.code(), err)
    }
}

fn is_over(process: &Child) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id()));
    stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

impl Drop for Holding {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn newest(home: &Path) -> String {
    crate::run::running::shown(home)["newest_ticket"].to_string()
}

#[test]
fn it_prints_the_ticket_and_holds_the_lock_until_its_input_ends() {
    let home = home();
    let mut holding = Holding::start(home.path(), &[]);
    let ticket = holding.line();
    assert_eq!(ticket, newest(home.path()) + "\n");
    assert!(!is_free(home.path()));
    holding.close();
    assert_eq!(holding.end(), (Some(0), String::new()));
    assert!(is_free(home.path()));
}

#[test]
fn a_signal_ends_it_well_once_it_holds_the_lock() {
    let home = home();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let mut holding = Holding::start(home.path(), &[]);
        holding.line();
        holding.signal(signal);
        assert_eq!(holding.end(), (Some(0), String::new()), "{signal:?}");
        assert!(is_free(home.path()));
    }
}

#[test]
fn a_signal_ends_the_wait_as_it_would_end_a_command() {
    let home = home();
    let mut holder = Holding::start(home.path(), &[]);
    holder.line();
    let waits = Holding::start(home.path(), &["--quiet"]);
    until("a waiter", || has_a_successor(home.path()));
    waits.signal(Signal::TERM);
    assert_eq!(waits.end().0, Some(128 + 15));
    until("an empty queue", || !has_a_successor(home.path()));
    holder.close();
    assert_eq!(holder.end().0, Some(0));
}

#[test]
fn the_line_of_json_is_as_documented() {
    let home = home();
    let mut holding = Holding::start(home.path(), &["--json", "--also", "b"]);
    let line = holding.line();
    let [held] = &documented("A hold,", &line)[..] else {
        panic!("{line}")
    };
    assert_eq!(held["lock"], "a");
    assert_eq!(held["ticket"], held["tickets"]["a"]);
    assert!(held["tickets"]["b"].is_u64());
    holding.close();
    assert_eq!(holding.end().0, Some(0));
}

#[test]
fn a_lock_that_another_has_is_not_granted() {
    let home = home();
    let mut holder = Holding::start(home.path(), &[]);
    holder.line();
    let line = ["hold", "--local", "locks.db", "--wait", "none", "a"];
    said(&mut fairlock(home.path(), &line)).assert_refused(75, &["`a` was not granted"]);
    let line = [&line[..], &["-E", "3"]].concat();
    said(&mut fairlock(home.path(), &line)).assert_refused(3, &["`a` was not granted"]);
    holder.close();
    assert_eq!(holder.end().0, Some(0));
}

#[test]
fn a_lost_lock_ends_it() {
    let home = home();
    let mut holding = Holding::start(home.path(), &["--lost-exit-code", "5"]);
    holding.line();
    std::fs::remove_file(home.path().join("locks.db")).unwrap();
    let (code, err) = holding.end();
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("lock `a` was lost"), "{err}");
    assert!(!err.contains("command"), "it runs none: {err}");
}

/// Its supervisor releases the lock, long before the lease ends.
#[test]
fn a_killed_one_leaves_nothing_behind() {
    let home = home();
    let mut holding = Holding::start(home.path(), &["--lease", "10m"]);
    holding.line();
    holding.signal(Signal::KILL);
    until("a free lock", || is_free(home.path()));
    assert_eq!(holding.end().0, None);
}

#[test]
fn its_command_is_of_no_use_by_itself() {
    let home = home();
    for line in [&["holder"][..], &["holder", "--json"]] {
        said(&mut fairlock(home.path(), line)).assert_refused(64, &["`fairlock hold`"]);
    }
}

#[test]
fn a_reader_of_the_ticket_that_has_gone_does_not_end_it() {
    let home = home();
    let script = "(fairlock hold --local locks.db a < input; echo $? > code) | true";
    let fifo = Command::new("mkfifo")
        .arg("input")
        .current_dir(home.path())
        .status()
        .unwrap();
    assert!(fifo.success());
    let mut shell = shell(&home, script);
    let shell = &mut shell.spawn().unwrap();
    let input = std::fs::File::options()
        .write(true)
        .open(home.path().join("input"))
        .unwrap();
    until("a holder", || !is_free(home.path()));
    drop(input);
    until("its code", || {
        std::fs::read_to_string(home.path().join("code")).is_ok_and(|code| code == "0\n")
    });
    shell.wait().unwrap();
}

/// A shell with the command on its path.
fn shell(home: &TempDir, script: &str) -> Command {
    let mut shell = Command::new("timeout");
    shell.args(["-s", "KILL", "60", "bash", "-c", script]);
    shell
        .current_dir(home.path())
        .env("PATH", path())
        .env_remove("FAIRLOCK_HELD");
    shell.env("FAIRLOCK_LOCAL", "locks.db").stdin(Stdio::null());
    shell
}

/// The example of the manual.
#[test]
fn a_script_takes_a_turn_around_several_commands() {
    let home = home();
    let script = crate::operations::example("coproc LOCK", "bash");
    std::fs::write(
        home.path().join("deploy.sh"),
        "echo \"deploys under $1\"; fairlock show --exit-code deploy/prod > /dev/null; echo $?",
    )
    .unwrap();
    let ended = said(&mut shell(
        &home,
        &script.replace("./deploy.sh", "sh ./deploy.sh"),
    ));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let lines: Vec<_> = ended.out.lines().collect();
    assert!(lines[0].starts_with("deploys under 1"), "{ended:?}");
    assert_eq!(lines[1..], ["1", "released"], "{ended:?}");
}
