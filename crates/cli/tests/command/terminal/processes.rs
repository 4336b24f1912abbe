//! The processes of a home, found by their environment. They are killed with it.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{heeding, said};
use crate::home::Home;
use crate::running::{BOUND, stat, until};

/// A process of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) state: char,
    pub(crate) line: String,
}

impl Home {
    /// A line for a shell without a terminal.
    pub(crate) fn script(&self, line: &str) -> Command {
        let program = ["timeout", "-s", "KILL", "50", "setsid", "--wait", "sh"];
        heeding(self.path(), &program, &["-c", line])
    }

    /// The exit code of such a line.
    pub(crate) fn code(&self, line: &str) -> Option<i32> {
        said(&mut self.script(line)).code
    }

    pub(crate) fn spawn(&self, line: &str) -> Child {
        let mut command = self.script(line);
        command.stdout(Stdio::null()).spawn().unwrap()
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    /// Waits for a file with something in it.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str) -> String {
        until(name, || self.read(name).ends_with('\n'));
        self.read(name).trim().to_owned()
    }

    /// All living processes of this home, except those that only wait for others.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let mark = format!("HOME={}", self.path().display());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut found: Vec<_> = pids.filter_map(|pid| process(&mark, pid)).collect();
        found.retain(|process| !process.line.starts_with("timeout -s KILL"));
        found
    }

    /// The processes whose command line starts so.
    pub(crate) fn named(&self, start: &str) -> Vec<Process> {
        let mut found = self.processes();
        found.retain(|process| process.line.starts_with(start));
        found
    }

    /// The only process whose command line starts so, once there is just one.
    #[track_caller]
    pub(crate) fn one(&self, start: &str) -> Process {
        until(start, || self.named(start).len() == 1);
        self.named(start).swap_remove(0)
    }

    #[track_caller]
    pub(crate) fn nothing_runs(&self) {
        let start = Instant::now();
        let mut left = self.processes();
        while !left.is_empty() {
            assert!(start.elapsed() < BOUND, "left over: {left:#?}");
            left = self.processes();
        }
    }
}

fn process(mark: &str, pid: i32) -> Option<Process> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find(|variable| *variable == mark.as_bytes())?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let state = state(pid)?;
    (state != 'Z').then_some(Process { pid, state, line })
}

impl Drop for Home {
    fn drop(&mut self) {
        // The loop ends because the processes are stopped first, and so start no others.
        loop {
            let left = self.processes();
            for process in &left {
                signal(process.pid, Signal::STOP);
            }
            if left.iter().all(|process| process.state == 'T') {
                for process in &left {
                    signal(process.pid, Signal::KILL);
                }
                return;
            }
        }
    }
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    // The process may have ended.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// The letter that `ps` shows for the state. Returns `None` if there is no such process.
pub(crate) fn state(pid: i32) -> Option<char> {
    stat(Pid::from_raw(pid)?)?.chars().next()
}
