//! `fairlock run`'s side of the guardian: starts it, tells it what it must know, and hears what it sees.

use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg};
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process, set_child_subreaper};
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::family;
use crate::wire::{Deadline, Order, Report};

/// The guardian of one command.
pub(super) struct Warden {
    control: UnixStream,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    process: Child,
}

impl Warden {
    /// Starts the guardian, and through it the command. From here on this process holds neither the command's input nor
    /// its output, so that whoever is at the other end sees them end with the command.
    pub(super) fn start(command: &mut Command, deadline: Deadline) -> Result<Warden, Failure> {
        let failed = |error| Failure::internal(format!("cannot start the guardian: {error}"));
        // Should the guardian be killed, the command is to be found among the descendants of this process.
        set_child_subreaper(Some(getpid())).map_err(|error| failed(error.into()))?;
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let process = command
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn();
        // With the command goes the last copy of their end of the line, but for the guardian's own.
        command.stdin(Stdio::null());
        let process = process.map_err(failed)?;
        hand_over_files(&control, Order::Until(deadline)).map_err(failed)?;
        let reports = listen(control.try_clone().map_err(failed)?);
        Ok(Warden {
            control,
            reports,
            process,
        })
    }

    /// A guardian that is gone is found out about by its silence.
    pub(super) fn tell(&mut self, order: Order) {
        // Without waiting: one that is stopped reads nothing, and this process has leases to renew.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = send(&self.control, format!("{order}\n").as_bytes(), flags);
    }

    /// A guardian that somebody stopped would not do its part.
    pub(super) fn wake(&self) {
        let guardian = Pid::from_child(&self.process);
        if family::is_stopped(guardian.as_raw_pid()) {
            let _ = kill_process(guardian, Signal::CONT);
        }
    }

    /// Ends the guardian, whose command is gone or was never there.
    pub(super) fn dismiss(mut self) {
        drop(self.control);
        let _ = self.process.wait();
    }
}

/// The command line of the guardian: this same program.
pub(super) fn guardian(command: &[std::ffi::OsString]) -> Command {
    let mut guardian = Command::new("/proc/self/exe");
    let group = getpgrp().as_raw_pid().to_string();
    guardian
        .arg0("fairlock")
        .args(["guardian", "--group", &group, "--"]);
    guardian.args(command);
    guardian
}

fn hand_over_files(control: &UnixStream, first: Order) -> std::io::Result<()> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let files = [input.as_fd(), output.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut sent = SendAncillaryBuffer::new(&mut space);
    sent.push(SendAncillaryMessage::ScmRights(&files));
    let line = format!("{first}\n");
    let parts = [IoSlice::new(line.as_bytes())];
    sendmsg(control, &parts, &mut sent, SendFlags::NOSIGNAL)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(())
}

/// Ends with the guardian.
fn listen(control: UnixStream) -> mpsc::UnboundedReceiver<Report> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in BufReader::new(control).lines() {
            let Ok(line) = line else { return };
            let Ok(report) = line.parse() else { continue };
            if tell.send(report).is_err() {
                return;
            }
        }
    });
    told
}
