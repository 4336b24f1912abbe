//! A command that was started, and may be signalled.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

use crate::command::Said;

/// Longer than anything that a test waits for, however busy the machine is.
pub(crate) const BOUND: Duration = Duration::from_secs(50);

/// It is killed with its group when dropped.
pub(crate) struct Running {
    pub(crate) process: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
    home: PathBuf,
}

impl Running {
    pub(crate) fn spawn(command: &mut Command, home: &Path) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.process_group(0).spawn().unwrap();
        Running {
            out: BufReader::new(process.stdout.take().unwrap()),
            err: BufReader::new(process.stderr.take().unwrap()),
            process,
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

    /// Waits for a line of its output.
    pub(crate) fn line(&mut self) -> String {
        next(&mut self.out)
    }

    /// Waits for a line on its standard error.
    pub(crate) fn told(&mut self) -> String {
        next(&mut self.err)
    }

    /// Closes its input, which was a pipe.
    pub(crate) fn close(&mut self) {
        self.process.stdin = None;
    }

    /// Returns its code, or 128 and the signal that ended it, and what it printed besides.
    pub(crate) fn end(mut self) -> Said {
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
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        Said { code, out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.process.wait();
    }
}

fn next(pipe: &mut impl BufRead) -> String {
    let mut line = String::new();
    let length = pipe.read_line(&mut line).unwrap();
    assert!(length > 0, "it ended, and said nothing more");
    line
}

/// Waits until the condition holds. A test that waits in vain says for what.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < BOUND, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What stands behind a process's name in its status: first the letter that `ps` shows.
pub(crate) fn stat(pid: Pid) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    Some(stat.rsplit(") ").next()?.to_owned())
}

/// A process whose first thread has ended may have others.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let is_dead = |stat: String| stat.starts_with('Z') && stat.split(' ').nth(17) == Some("1");
    test_kill_process(pid).is_ok() && !stat(pid).is_none_or(is_dead)
}

pub(crate) fn is_stopped(pid: Pid) -> bool {
    stat(pid).is_some_and(|stat| stat.starts_with('T'))
}

/// The supervisor between `fairlock run` and its command, and `fairlock run` above that.
pub(crate) fn parent_of(pid: Pid) -> Pid {
    let stat = stat(pid).unwrap();
    Pid::from_raw(stat.split(' ').nth(1).unwrap().parse().unwrap()).unwrap()
}

/// The only child of a process, such as the supervisor of one that waits.
pub(crate) fn child_of(parent: Pid) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", parent.as_raw_pid());
    let child = fs::read_to_string(children).unwrap();
    Pid::from_raw(child.trim().parse().unwrap()).unwrap()
}
