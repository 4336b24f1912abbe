//! The guardian: between `fairlock run` and its command, which it ends when the lease ends, whatever became of the
//! former.
//!
//! It starts the command, in the process group that the command would have without it, and is the ancestor of all that
//! the command starts. Itself it is in a session of its own, where the terminal's signals do not come. It knows nothing of
//! locks: it is told deadlines, and the end of the line means that nobody is left to tell it any.

mod child;
mod timer;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_child_subreaper};
use signal_hook::consts::SIGCHLD;

use crate::args::Guardian;
use crate::failure::Failure;
use crate::family;
use crate::signals;
use crate::wire::{Deadline, Order, Report, now};

use child::{Child, News};
use timer::Timer;

/// How often those that were killed are looked for who are not dead yet.
const AGAIN: Duration = Duration::from_millis(20);

pub(crate) fn guard(options: &Guardian) -> Result<ExitCode, Failure> {
    let run = |error| Failure::internal(format!("the guardian cannot run: {error}"));
    signals::shrug_off()?;
    set_child_subreaper(Some(getpid())).map_err(|error| run(error.into()))?;
    let parent = getppid();
    let (wakes, woken) = UnixStream::pair().map_err(run)?;
    signal_hook::low_level::pipe::register(SIGCHLD, wakes).map_err(run)?;
    woken.set_nonblocking(true).map_err(run)?;
    let (control, files, deadline) = child::take_over().map_err(run)?;
    let mut watch = Watch {
        control,
        parent,
        is_alone: false,
        woken,
        timer: Timer::new().map_err(run)?,
        deadline,
        heard: Vec::new(),
        child: None,
        phase: Phase::Guarding,
    };
    if now() >= deadline.term {
        // Somebody kept this process from running: the command would run in another's turn.
        watch.tell(Report::Ending);
        return Ok(ExitCode::SUCCESS);
    }
    match Child::start(&options.command, options.group, files) {
        Ok(child) => {
            watch.tell(Report::Started(child.pid()));
            watch.child = Some(child);
            watch.run().map_err(run)?;
        }
        Err(error) => watch.tell(Report::Failed(error.raw_os_error().unwrap_or(0))),
    }
    Ok(ExitCode::SUCCESS)
}

/// What the guardian is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The lease is renewed in time, so far.
    Guarding,
    /// Everybody was told to end, and those who have not by then are killed.
    Ending { kill: Duration },
    /// Everybody was killed, and may take a moment to die.
    Killing,
}

/// A command that is watched.
struct Watch {
    control: UnixStream,
    /// `fairlock run`
    parent: Option<Pid>,
    /// Nobody is at the other end any more.
    is_alone: bool,
    /// Readable when a child has changed.
    woken: UnixStream,
    timer: Timer,
    deadline: Deadline,
    /// Bytes of an order that has not ended yet.
    heard: Vec<u8>,
    child: Option<Child>,
    phase: Phase,
}

impl Watch {
    /// Ends with the command and, if that was to be ended, with everything that it started: at the latest a moment after
    /// the deadline, when it is killed.
    fn run(&mut self) -> std::io::Result<()> {
        self.set_timer()?;
        loop {
            self.wait()?;
            self.listen()?;
            self.look_after_children();
            self.mind_the_time()?;
            if self.is_over() {
                self.tell_the_end();
                // It stopped together with the command, and nobody else may come who continues it.
                self.wake();
                return Ok(());
            }
        }
    }

    /// Until an order comes, a child changes, or the time has come.
    fn wait(&self) -> std::io::Result<()> {
        let mut events = vec![
            PollFd::new(&self.woken, PollFlags::IN),
            PollFd::new(&self.timer, PollFlags::IN),
        ];
        // One that has hung up is always ready, and tells nothing more.
        if !self.is_alone {
            events.push(PollFd::new(&self.control, PollFlags::IN));
        }
        let again = Timespec {
            tv_sec: 0,
            tv_nsec: AGAIN.subsec_nanos().into(),
        };
        let at_most = (self.phase != Phase::Guarding).then_some(&again);
        match poll(&mut events, at_most) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in the orders that have come. The end of the line is an order to end.
    fn listen(&mut self) -> std::io::Result<()> {
        if self.is_alone {
            return Ok(());
        }
        let mut buffer = [0; 1024];
        loop {
            match self.control.read(&mut buffer) {
                Ok(0) => return self.hear_nothing_more(),
                Ok(count) => self.heard.extend(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.hear_nothing_more(),
            }
        }
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<_> = self.heard.drain(..=end).collect();
            if let Ok(order) = String::from_utf8_lossy(&line[..end]).parse() {
                self.obey(order)?;
            }
        }
        Ok(())
    }

    fn obey(&mut self, order: Order) -> std::io::Result<()> {
        match order {
            Order::Until(deadline) => {
                self.deadline = deadline;
                // The lease was renewed after all.
                if matches!(self.phase, Phase::Ending { .. }) {
                    self.phase = Phase::Guarding;
                }
                self.set_timer()
            }
            Order::Signal(number) => {
                if let (Some(child), Some(signal)) = (&self.child, Signal::from_named_raw(number)) {
                    child.signal(signal);
                }
                Ok(())
            }
            Order::End(grace) => self.end(now() + grace),
        }
    }

    /// Whoever gave orders is gone, and the lock goes with the lease.
    fn hear_nothing_more(&mut self) -> std::io::Result<()> {
        self.is_alone = true;
        match self.phase {
            Phase::Guarding => {
                let grace = self.deadline.kill.saturating_sub(self.deadline.term);
                self.end((now() + grace).min(self.deadline.kill))
            }
            Phase::Ending { .. } | Phase::Killing => Ok(()),
        }
    }

    /// SIGTERM to everybody, and SIGCONT, or those that are stopped would not hear it.
    fn end(&mut self, kill: Duration) -> std::io::Result<()> {
        match self.phase {
            Phase::Guarding => {}
            // It was told already, and has no more time than it was told.
            Phase::Ending { kill: before } => {
                self.phase = Phase::Ending {
                    kill: kill.min(before),
                };
                return self.set_timer();
            }
            Phase::Killing => return Ok(()),
        }
        self.tell(Report::Ending);
        family::signal(Signal::TERM);
        family::signal(Signal::CONT);
        self.phase = Phase::Ending { kill };
        self.set_timer()
    }

    fn mind_the_time(&mut self) -> std::io::Result<()> {
        match self.phase {
            Phase::Guarding if now() >= self.deadline.term => self.end(self.deadline.kill),
            Phase::Ending { kill } if now() >= kill => {
                self.phase = Phase::Killing;
                family::kill();
                Ok(())
            }
            Phase::Killing => {
                family::kill();
                Ok(())
            }
            Phase::Guarding | Phase::Ending { .. } => Ok(()),
        }
    }

    fn set_timer(&self) -> std::io::Result<()> {
        match self.phase {
            Phase::Guarding => self.timer.set(self.deadline.term),
            Phase::Ending { kill } => self.timer.set(kill),
            Phase::Killing => Ok(()),
        }
    }

    fn look_after_children(&mut self) {
        // Only wakes; how often does not matter.
        let mut unread = [0; 64];
        while matches!(self.woken.read(&mut unread), Ok(count) if count > 0) {}
        let Some(child) = &mut self.child else {
            return;
        };
        match child.reap() {
            Some(News::Stopped) => self.tell(Report::Stopped),
            Some(News::Continued) if self.phase == Phase::Guarding => self.wake(),
            Some(News::Continued | News::Ended) | None => {}
        }
    }

    /// Continues `fairlock run`: who continues the command alone knows nothing of the one that stopped together with it, and
    /// renews its lease.
    fn wake(&self) {
        // A parent that ended is another's process now.
        if let Some(parent) = getppid().filter(|parent| Some(*parent) == self.parent)
            && family::is_stopped(parent.as_raw_pid())
        {
            let _ = kill_process(parent, Signal::CONT);
        }
    }

    /// A command that ended by itself may leave others behind, as it may without a lock. One that was ended may not.
    fn is_over(&self) -> bool {
        let is_over = |child: &Child| {
            child.end.is_some() && (self.phase == Phase::Guarding || child.is_childless)
        };
        self.child.as_ref().is_none_or(is_over)
    }

    fn tell_the_end(&mut self) {
        if let Some(end) = self.child.as_ref().and_then(|child| child.end) {
            self.tell(end);
        }
    }

    /// Nobody may be left to be told.
    fn tell(&mut self, report: Report) {
        let _ = self.control.write_all(format!("{report}\n").as_bytes());
    }
}

/// For `poll`.
impl AsFd for Timer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
