//! A directory with a file of locks, and `fairlock run` there.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Said, fairlock, said};

pub(crate) const FILE: [&str; 2] = ["--local", "locks.db"];
/// Longer than anything that a test waits for, however busy the machine is.
pub(crate) const BOUND: Duration = Duration::from_secs(50);

/// A directory with a file of locks in it.
pub(crate) fn home() -> TempDir {
    let home = TempDir::new().unwrap();
    let made = said(&mut fairlock(
        home.path(),
        &["table", "create", "--local", "locks.db"],
    ));
    assert_eq!(made.code, Some(0), "{made:?}");
    home
}

pub(crate) fn run_line<'a>(flags: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [&["run"], &FILE[..], flags, &["a", "--"], command].concat()
}

pub(crate) fn run(home: &Path, flags: &[&str], command: &[&str]) -> Said {
    said(&mut fairlock(home, &run_line(flags, command)))
}

pub(crate) fn sh(home: &Path, script: &str) -> Said {
    run(home, &[], &["sh", "-c", script])
}

/// The lock and its queue, as `show --json` prints them.
pub(crate) fn shown(home: &Path) -> Value {
    let show = ["show", "--json", "--local", "locks.db", "a"];
    serde_json::from_str(&said(&mut fairlock(home, &show)).out).unwrap()
}

/// Whether a successor waits.
pub(crate) fn has_a_successor(home: &Path) -> bool {
    shown(home)["queue"][0]["stage"] == "successor"
}

/// Waits until the condition holds. A test that waits in vain says for what.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < BOUND, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `fairlock run` itself, without a `timeout` before it, so that its process can be signalled. It is killed with its group when dropped.
pub(crate) struct Running {
    pub(crate) process: Child,
    home: PathBuf,
}

impl Running {
    pub(crate) fn start(home: &Path, flags: &[&str], script: &str) -> Running {
        let mut command = Command::new("env");
        // Restores the default signals, in case the tests were started in the background or by `nohup`.
        command.args(["--default-signal", env!("CARGO_BIN_EXE_fairlock")]);
        command.args(run_line(flags, &["sh", "-c", script]));
        command.current_dir(home).stdin(Stdio::null());
        Running::spawn(&mut command, home)
    }

    /// Starts what executes `fairlock run`.
    pub(crate) fn spawn(command: &mut Command, home: &Path) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running {
            process: command.process_group(0).spawn().unwrap(),
            home: home.to_owned(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        !is_alive(self.pid())
    }

    /// Returns the process number as soon as the script has written it to a file of that name.
    pub(crate) fn pid_in(&self, file: &str) -> Pid {
        let file = self.home.join(file);
        let read = || fs::read_to_string(&file).ok()?.trim().parse().ok();
        until("a process number", || read().is_some());
        Pid::from_raw(read().unwrap()).unwrap()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Returns its code, or 128 and the signal that ended it, and what it printed.
    pub(crate) fn end(mut self) -> (i32, String, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < BOUND, "does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let (mut out, mut err) = (String::new(), String::new());
        // A process that the command left behind may still have these open.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        self.process
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        let killed = || 128 + status.signal().unwrap();
        (status.code().unwrap_or_else(killed), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.process.wait();
    }
}

pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
    let is_dead = |stat: String| {
        let fields = stat.rsplit(')').next().unwrap();
        fields.starts_with(" Z") && fields.split(' ').nth(18) == Some("1")
    };
    test_kill_process(pid).is_ok() && !stat.map_or(true, is_dead)
}

pub(crate) fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
    stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().starts_with(" T"))
}

pub(crate) fn is_free(home: &Path) -> bool {
    let shown = said(&mut fairlock(home, &["show", "--local", "locks.db", "a"]));
    shown.out.starts_with("a: free")
}
