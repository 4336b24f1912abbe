//! A shell on a pseudo-terminal, and the processes that it leaves behind.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that has no terminal has failed, and waits for real processes in real time"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tempfile::TempDir;

use crate::command::path;

/// A program that ignores no signal, even if the tests were started in the background or by `nohup`.
fn heeding_signals(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command
}

/// Nothing that a test waits for takes longer, unless it never comes.
const BOUND: Duration = Duration::from_secs(20);
const PROMPT: &str = "]>";

/// A directory with a table of locks in it. Its processes are found by their environment, and killed at the end.
pub(crate) struct Home(TempDir);

/// A process of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) state: char,
    pub(crate) line: String,
}

impl Home {
    pub(crate) fn new() -> Home {
        let home = Home(TempDir::new().unwrap());
        let created = home.command("fairlock table create --local l.db").status();
        assert!(created.unwrap().success());
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn mark(&self) -> String {
        format!("HOME={}", self.path().display())
    }

    fn set<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env_clear().current_dir(self.path());
        command.env("PATH", path());
        command
            .envs([("TERM", "xterm"), ("PS1", "[$?]>"), ("PS2", "")])
            .env("HOME", self.path())
    }

    /// A line for a shell without a terminal.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = heeding_signals("timeout");
        let bound = format!("{}", BOUND.as_secs());
        command.args(["-s", "KILL", &bound, "setsid", "--wait", "sh", "-c", line]);
        self.set(&mut command).stdin(Stdio::null());
        command
    }

    /// The exit code of such a line.
    pub(crate) fn code(&self, line: &str) -> Option<i32> {
        let mut command = self.command(line);
        command.stderr(Stdio::null()).stdout(Stdio::null());
        code(command.status().unwrap())
    }

    pub(crate) fn start(&self, line: &str) -> Child {
        self.command(line).spawn().unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    /// Empty if there is no such file.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
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
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut found: Vec<_> = pids.filter_map(|pid| self.process(pid)).collect();
        found.retain(|process| !process.line.starts_with("timeout -s KILL"));
        found
    }

    fn process(&self, pid: i32) -> Option<Process> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mark = self.mark();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find(|variable| *variable == mark.as_bytes())?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let state = state(pid)?;
        (state != 'Z').then_some(Process { pid, state, line })
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

/// A shell with a terminal.
pub(crate) struct Terminal {
    pub(crate) home: Home,
    master: Option<OwnedFd>,
    shell: Child,
    seen: String,
    /// What came before this position was expected already.
    cursor: usize,
}

pub(crate) const ROWS: u16 = 33;
pub(crate) const COLUMNS: u16 = 101;

impl Terminal {
    /// A shell that has shown its first prompt.
    #[track_caller]
    pub(crate) fn new() -> Terminal {
        let mut terminal = Terminal::of(Home::new(), "bash --norc --noediting -i");
        assert_eq!(terminal.prompt().1, 0);
        terminal
    }

    /// Any command as the leader of a terminal's session.
    pub(crate) fn of(home: Home, line: &str) -> Terminal {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = other_end(&master);
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&slave, size).unwrap();
        // Without an echo, expected text is not found in what was typed.
        let mut modes = tcgetattr(&slave).unwrap();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&slave, OptionalActions::Now, &modes).unwrap();
        let mut command = heeding_signals("setsid");
        command.args(["--ctty", "sh", "-c", &format!("exec {line}")]);
        let shell = home
            .set(&mut command)
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave)
            .spawn()
            .unwrap();
        Terminal {
            home,
            master: Some(master),
            shell,
            seen: String::new(),
            cursor: 0,
        }
    }

    /// Types text, including control characters, without adding a new line.
    pub(crate) fn keys(&mut self, text: &str) {
        let master = self.master.as_ref().unwrap();
        let count = rustix::io::write(master, text.as_bytes()).unwrap();
        assert_eq!(count, text.len());
    }

    pub(crate) fn type_in(&mut self, line: &str) {
        self.keys(&format!("{line}\n"));
    }

    /// Types a line that is not read yet, and waits until the terminal has it. By then the terminal has handled what was typed before. For
    /// a key that sends a signal, the kernel discards what the processes wrote until then, and does so in its own time.
    #[track_caller]
    pub(crate) fn type_ahead(&mut self, line: &str) {
        self.type_in(line);
        let slave = other_end(self.master.as_ref().unwrap());
        until("the terminal has the line", || {
            ioctl_fionread(&slave).unwrap() > 0
        });
    }

    /// Reads what has come. Returns whether more may come.
    fn read_more(&mut self) -> bool {
        let Some(master) = &self.master else {
            return false;
        };
        let soon = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        let mut ready = [PollFd::new(master, PollFlags::IN)];
        if poll(&mut ready, Some(&soon)) != Ok(1) {
            return true;
        }
        let mut buffer = [0; 4096];
        match rustix::io::read(master, &mut buffer) {
            Ok(count) => self.seen += &String::from_utf8_lossy(&buffer[..count]),
            // No process has the other end open.
            Err(_) => return false,
        }
        true
    }

    /// Waits for a text, and returns what came before it.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let new = &self.seen[self.cursor..];
            if let Some(at) = new.find(text) {
                let before = new[..at].replace('\r', "");
                self.cursor += at + text.len();
                return before;
            }
            let more = self.read_more();
            assert!(
                more && start.elapsed() < BOUND,
                "no {text:?} since byte {} of:\n{}\nwith {:#?}",
                self.cursor,
                self.seen,
                self.home.processes()
            );
        }
    }

    /// Waits for a prompt. Returns what came before it, and the exit code that it shows.
    #[track_caller]
    pub(crate) fn prompt(&mut self) -> (String, i32) {
        let text = self.expect(PROMPT);
        let (before, code) = text.rsplit_once('[').unwrap();
        (before.trim().to_owned(), code.parse().unwrap())
    }

    /// Types a line, and waits for the next prompt.
    #[track_caller]
    pub(crate) fn run(&mut self, line: &str) -> (String, i32) {
        self.type_in(line);
        self.prompt()
    }

    /// Types a line for the background. Waits for the prompt and for what its job prints, whichever comes first.
    #[track_caller]
    pub(crate) fn run_behind(&mut self, line: &str, says: &str) {
        let (before, _) = self.run(&format!("{line} &"));
        if !before.contains(says) {
            self.expect(says);
        }
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&Home) -> bool) {
        let start = Instant::now();
        while !is_so(&self.home) {
            self.read_more();
            assert!(
                start.elapsed() < BOUND,
                "never: {what}; seen:\n{}\nwith {:#?}",
                self.seen,
                self.home.processes()
            );
        }
    }

    /// Everything that was ever shown.
    pub(crate) fn transcript(&self) -> &str {
        &self.seen
    }

    /// The exit code of the session's leader.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Option<i32> {
        while self.read_more() {}
        code(self.shell.wait().unwrap())
    }

    /// Hangs up.
    pub(crate) fn close(&mut self) {
        self.master = None;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell's parent would not notice its death otherwise.
        signal(i32::try_from(self.shell.id()).unwrap(), Signal::KILL);
        let _ = self.shell.wait();
    }
}

/// The end of a terminal that its processes use.
fn other_end(master: &OwnedFd) -> OwnedFd {
    let name = ptsname(master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(name, flags, Mode::empty()).unwrap()
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < BOUND, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    // The process may have ended.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// The letter that `ps` shows for the state. Returns `None` if there is no such process.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The code as a shell reports it.
pub(crate) fn code(status: ExitStatus) -> Option<i32> {
    status.code().or(status.signal().map(|signal| 128 + signal))
}

/// How many lines there are of each kind.
pub(crate) fn counted(lines: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line.as_str()).or_default() += 1;
    }
    counts
}
