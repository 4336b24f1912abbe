//! A shell on a pseudo-terminal.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::processes::signal;
use super::scenario::CTRL_Z;
use crate::command::heeding;
use crate::home::Home;
use crate::running::{BOUND, until};

const PROMPT: &str = "]>";

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
        let line = format!("exec {line}");
        let mut command = heeding(home.path(), &["setsid", "--ctty"], &["sh", "-c", &line]);
        command.envs([("TERM", "xterm"), ("PS1", "[$?]>"), ("PS2", "")]);
        command.stdin(slave.try_clone().unwrap());
        command.stdout(slave.try_clone().unwrap()).stderr(slave);
        let shell = command.spawn().unwrap();
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

    /// Types a line whose command reports that it is ready.
    #[track_caller]
    pub(crate) fn ready(&mut self, line: &str) {
        self.type_in(line);
        self.expect("ready");
    }

    /// Types a line, of a command that goes on as soon as there is a file `go`. Returns its exit code.
    #[track_caller]
    pub(crate) fn goes(&mut self, line: &str) -> i32 {
        self.home.go();
        self.type_in(line);
        self.expect("went");
        self.prompt().1
    }

    /// Presses the key that stops the job. Returns the exit code that the shell shows.
    #[track_caller]
    pub(crate) fn stops(&mut self) -> i32 {
        self.keys(CTRL_Z);
        self.expect("Stopped");
        self.prompt().1
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

/// The code as a shell reports it.
pub(crate) fn code(status: ExitStatus) -> Option<i32> {
    status.code().or(status.signal().map(|signal| 128 + signal))
}
