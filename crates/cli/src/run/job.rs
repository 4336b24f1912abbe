//! The command as a job of a shell: the signals that are passed on to it, its terminal, and its stops.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::{Pid, getpgid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use signal_hook::consts::{SIGCONT, SIGINT, SIGTSTP};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use super::supervisor_handle::Line;
use super::{heard, stop};
use crate::ipc::{Order, now};
use crate::process_tree;
use crate::signals::Caught;

/// A signal that the kernel sends to a whole group reaches all its processes, one after the other, within this time.
const STOP_SETTLES: Duration = Duration::from_millis(50);

/// A command that runs, or is about to.
pub(super) struct Job {
    /// The process number of the command, once it runs.
    pid: i32,
    /// To the supervisor.
    line: Line,
    pub(super) signals: UnboundedReceiver<Caught>,
    /// The terminal's interrupt key was pressed.
    pub(super) is_interrupted: bool,
    /// Since when the command is stopped, without a shell that could continue it.
    stopped: Option<Duration>,
}

impl Job {
    pub(super) fn new(signals: UnboundedReceiver<Caught>, line: Line) -> Job {
        Job {
            pid: 0,
            line,
            signals,
            is_interrupted: false,
            stopped: None,
        }
    }

    /// For how long the command is stopped, without a shell that could continue it.
    pub(super) fn stopped_for(&self) -> Option<Duration> {
        self.stopped.map(|since| now().saturating_sub(since))
    }

    /// Whether the command works on. It does not while it is stopped without a shell.
    pub(super) fn works_on(&mut self) -> bool {
        let is_stopped = self.stopped.is_some() && process_tree::is_stopped(self.pid);
        if !is_stopped {
            self.stopped = None;
        }
        !is_stopped
    }

    pub(super) async fn hear(&mut self, caught: Caught) {
        match caught.number {
            SIGCONT => self.go_on().await,
            _ => self.pass_on(caught),
        }
    }

    /// Handles SIGCONT. A shell that continues a job continues the whole group. So the command needs the signal again only if it has left
    /// the group. A command that is stopped because the terminal has just stopped the job once more does not get it.
    async fn go_on(&mut self) {
        // Each iteration but the last has seen another SIGCONT for the job, which is not for the command alone either.
        loop {
            let was_left_out = process_tree::is_stopped(self.pid);
            sleep(STOP_SETTLES).await;
            let since = heard(&mut self.signals);
            let continues = |caught: &Caught| caught.number == SIGCONT;
            let turns = |caught: &&Caught| continues(caught) || caught.is_key(SIGTSTP);
            let last = since.iter().rev().find(turns).copied();
            since
                .into_iter()
                .filter(|caught| !continues(caught))
                .for_each(|caught| self.pass_on(caught));
            match last {
                Some(last) if continues(&last) => {}
                None if was_left_out && process_tree::is_stopped(self.pid) => {
                    self.lend_the_terminal();
                    return self.line.tell(&Order::Signal(SIGCONT));
                }
                Some(_) | None => return,
            }
        }
    }

    /// The command runs. Passes on the signals that came before, also those of the terminal: otherwise they would be lost.
    pub(super) fn starts(&mut self, pid: i32, started: Duration) {
        self.pid = pid;
        for caught in heard(&mut self.signals) {
            self.pass_on_unless(caught, |caught| caught.at >= started && has_come(caught));
        }
    }

    /// Passes a signal on to the command, unless the command has received it already: the terminal signals the whole group.
    fn pass_on(&mut self, caught: Caught) {
        self.pass_on_unless(caught, has_come);
    }

    fn pass_on_unless(&mut self, caught: Caught, has_come: impl Fn(Caught) -> bool) {
        self.is_interrupted |= caught.is_key(SIGINT);
        if !has_come(caught) {
            self.line.tell(&Order::Signal(caught.number));
        }
    }

    /// Takes in whether the terminal interrupted the job. The report of the command's end may arrive before the signal does.
    pub(super) async fn settles(&mut self) {
        sleep(STOP_SETTLES).await;
        self.is_interrupted |= self.takes_an_interrupt();
    }

    /// Gives the terminal to the command's group. A command that is itself a shell has made a group of its own. The shell that gave the
    /// terminal to this process's group does not know of that group.
    fn lend_the_terminal(&self) {
        let device = File::open("/dev/tty");
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        // A container may have no such device.
        let streams = [stdin.as_fd(), stderr.as_fd(), stdout.as_fd()];
        let mut ends = device.iter().map(AsFd::as_fd).chain(streams);
        let terminal = ends.find_map(|end| Some((end, tcgetpgrp(end).ok()?)));
        let group = Pid::from_raw(self.pid).and_then(|command| getpgid(Some(command)).ok());
        if let (Some((terminal, holds_it)), Some(group)) = (terminal, group)
            && holds_it.as_raw_pid() == process_tree::own_group()
        {
            // The command may have been killed since, and then needs no terminal.
            let _ = tcsetpgrp(terminal, group);
        }
    }

    /// Stops this process along with the command, so that the shell that waits for this process sees that its job was stopped. The lease
    /// keeps running out meanwhile. If a user continues the command alone, the supervisor continues this process. Without a shell, as in a
    /// cron job, no process could continue this one. So this process goes on, and stops extending the command's deadline.
    pub(super) fn stop_too(&mut self) {
        match process_tree::is_stopped(self.pid) {
            true if process_tree::has_job_control() => stop(),
            true => self.stopped = self.stopped.or(Some(now())),
            false => {}
        }
    }

    /// Takes the signals that have come, when the command is over. Returns whether the terminal's interrupt key was among them.
    pub(super) fn takes_an_interrupt(&mut self) -> bool {
        let since = heard(&mut self.signals);
        since.iter().any(|caught| caught.is_key(SIGINT))
    }
}

/// Whether a signal has come to the running command too. A descendant that sends one knows the group and not this process, so it has signalled
/// the group, itself included.
fn has_come(caught: Caught) -> bool {
    caught.is_everybodys() || caught.sender.is_some_and(process_tree::is_member)
}
