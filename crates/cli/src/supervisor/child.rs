//! The command as its supervisor sees it: started with the files of `fairlock run`, awaited and signalled.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, setpgid, setsid, wait};

use crate::ipc::Report;
use crate::process_tree;
use crate::signals;

/// Standard input and output of the command.
pub(super) struct Files {
    input: OwnedFd,
    output: OwnedFd,
}

/// Takes the socket to `fairlock run` from standard input, so that the command does not inherit it.
pub(super) fn take_line() -> Result<UnixStream> {
    let line = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    line.set_nonblocking(true)?;
    Ok(line)
}

/// Reads what has arrived on the socket, and the files that came with it. A count of zero means that the other end is closed.
pub(super) fn receive(line: &UnixStream, buffer: &mut [u8]) -> Result<(usize, Option<Files>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut sent = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(buffer)];
    let count = recvmsg(line, parts, &mut sent, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut files = sent.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    let files = files.next().zip(files.next());
    Ok((count, files.map(|(input, output)| Files { input, output })))
}

fn spawn(
    command: &mut Command,
    environment: &[(String, String)],
    files: &Files,
) -> Result<std::process::Child> {
    let (input, output) = (files.input.try_clone()?, files.output.try_clone()?);
    let environment = environment.iter().map(|(name, value)| (name, value));
    let command = command.envs(environment).stdin(input).stdout(output);
    signals::ignoring_nothing_more(command).spawn()
}

/// What happened to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Stopped,
    Continued,
    Ended,
}

/// The command.
pub(super) struct Child {
    pid: Pid,
    pub(super) end: Option<Report>,
    /// Neither the command nor anything that it started is left.
    pub(super) is_childless: bool,
    /// The kernel would not say what has changed. It tells of each change once only.
    pub(super) is_to_be_asked_again: bool,
}

impl Child {
    /// Starts the command in an existing process group. It shares the supervisor's standard error.
    ///
    /// The supervisor joins the group, starts the command, and then leaves for a session of its own. If it stayed in this session, the
    /// kernel would take it for a shell that continues what the terminal stops. The kernel would then stop processes that nothing
    /// continues.
    pub(super) fn start(
        command: &[OsString],
        environment: &[(String, String)],
        group: i32,
        files: Files,
    ) -> Result<Child> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(ErrorKind::NotFound.into());
        };
        setpgid(None, Pid::from_raw(group))?;
        let child = spawn(Command::new(program).args(arguments), environment, &files);
        // A script without an interpreter line is run by `/bin/sh`, as shells do.
        let child = child.or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOEXEC) => {
                let mut shell = Command::new("/bin/sh");
                spawn(shell.arg(program).args(arguments), environment, &files)
            }
            _ => Err(error),
        });
        drop(files);
        if setsid().is_err() {
            // At least the terminal's signals do not reach this new group.
            let _ = setpgid(None, None);
        }
        let pid = child?.id();
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Ok(Child {
            pid: pid.ok_or(ErrorKind::NotFound)?,
            end: None,
            is_childless: false,
            is_to_be_asked_again: false,
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// Signals the command. Its number stays its own until it is reaped, and only this process reaps it. Fails if the command runs as
    /// another user.
    pub(super) fn signal(&self, signal: Signal) -> std::result::Result<(), Errno> {
        match self.end {
            None => process_tree::signal_child(self.pid, signal),
            Some(_) => Ok(()),
        }
    }

    /// Reaps the command, and the processes whose parents left them to the supervisor. The loop ends because the kernel reports each change
    /// once.
    pub(super) fn reap(&mut self) -> Option<News> {
        let mut news = None;
        let changes = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        self.is_to_be_asked_again = false;
        loop {
            match wait(changes) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    news = self.note_status(status).or(news)
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return news,
                Err(error) => {
                    self.is_childless = error == Errno::CHILD;
                    self.is_to_be_asked_again = !self.is_childless;
                    return news;
                }
            }
        }
    }

    fn note_status(&mut self, status: WaitStatus) -> Option<News> {
        if status.stopped() {
            return Some(News::Stopped);
        }
        if status.continued() {
            return Some(News::Continued);
        }
        let exited = status.exit_status().map(Report::Exited);
        self.end = exited.or(status.terminating_signal().map(Report::Killed));
        self.end.as_ref().map(|_| News::Ended)
    }
}
