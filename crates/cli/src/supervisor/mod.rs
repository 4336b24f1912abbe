//! The supervisor: watches over `fairlock run` from the beginning of its wait to the end of its turn.
//!
//! It starts the command, in the process group that the command would have without it, is the ancestor of all that the command
//! starts, and ends it when the lease ends, whatever became of `fairlock run`. Itself it is where the terminal's signals do not come. It
//! is told deadlines, and what `fairlock run` has in the table. The end of the queue means that nobody is left to tell it more: then it
//! ends the command, and gives up what was had in the table, so that nobody waits for a lease to end.

mod child;
mod place;
mod timer;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_child_subreaper};
use signal_hook::consts::SIGCHLD;

use crate::args::Supervisor;
use crate::failure::Failure;
use crate::ipc::{Deadline, Order, Report, now};
use crate::process_tree;
use crate::signals;
use child::{Child, Files, News};
use place::Standing;
use timer::Timer;

/// How often those that were killed are looked for who are not dead yet.
const AGAIN: Duration = Duration::from_millis(20);
/// How often it looks whether `fairlock run` stands still while it waits.
const LOOKS: Duration = Duration::from_millis(250);

pub(crate) fn guard(options: Supervisor) -> Result<ExitCode, Failure> {
    let run = |error| Failure::internal(format!("the supervisor cannot run: {error}"));
    // It is started by another name than that of its file.
    let _ = rustix::thread::set_name(c"fairlock");
    signals::shrug_off()?;
    set_child_subreaper(Some(getpid())).map_err(|error| run(error.into()))?;
    let parent = getppid();
    let (wakes, woken) = UnixStream::pair().map_err(run)?;
    signal_hook::low_level::pipe::register(SIGCHLD, wakes).map_err(run)?;
    woken.set_nonblocking(true).map_err(run)?;
    let mut watch = Watch {
        control: child::take_line().map_err(run)?,
        parent,
        is_alone: false,
        woken,
        timer: Timer::new().map_err(run)?,
        deadline: None,
        heard: Vec::new(),
        files: None,
        standing: Standing::default(),
        child: None,
        is_stopped: false,
        phase: Phase::Waiting,
        options,
    };
    watch.run().map_err(run)?;
    Ok(ExitCode::SUCCESS)
}

/// What the supervisor is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// `fairlock run` waits for its turn.
    Waiting,
    /// It has its turn, and the command is to start.
    Claimed,
    /// The lease is renewed in time, so far.
    Guarding,
    /// Everybody was told to end, and those who have not by then are killed.
    Ending { kill: Duration },
    /// Everybody was killed, and may take a moment to die.
    Killing,
    /// The command has ended, or could not be run.
    Over,
}

/// A `fairlock run` that is watched, and its command.
struct Watch {
    control: UnixStream,
    /// `fairlock run`
    parent: Option<Pid>,
    /// Nobody is at the other end any more.
    is_alone: bool,
    /// Readable when a child has changed.
    woken: UnixStream,
    timer: Timer,
    /// None before the command has started.
    deadline: Option<Deadline>,
    /// Bytes of an order that has not ended yet.
    heard: Vec<u8>,
    /// Those that came with an order.
    files: Option<Files>,
    /// What `fairlock run` has in the table.
    standing: Standing,
    child: Option<Child>,
    /// The command is stopped, and `fairlock run` may have stopped along with it.
    is_stopped: bool,
    phase: Phase,
    options: Supervisor,
}

impl Watch {
    /// Ends with `fairlock run`, and not before the command has ended: if that was to be ended, with everything that it started, at the
    /// latest a moment after the deadline, when it is killed.
    fn run(&mut self) -> std::io::Result<()> {
        loop {
            self.wait()?;
            self.listen()?;
            self.look_after_children();
            self.mind_the_time()?;
            if self.is_over() {
                self.tell_the_end();
                // It stopped together with the command, and nobody else may come who continues it.
                self.wake();
                self.phase = Phase::Over;
            }
            match self.phase {
                Phase::Waiting | Phase::Claimed | Phase::Over if self.is_alone => {
                    self.standing.give_up(&self.options.place);
                    return Ok(());
                }
                Phase::Waiting if self.parent.is_some_and(is_stopped) => {
                    self.standing.give_up(&self.options.place);
                }
                // It passes the signal on when it hears of it.
                Phase::Guarding if self.parent.is_some_and(process_tree::is_to_end) => self.wake(),
                _ => {}
            }
        }
    }

    /// Until an order comes, a child changes, or the time has come.
    fn wait(&self) -> std::io::Result<()> {
        let mut events = vec![PollFd::new(&self.woken, PollFlags::IN)];
        // One that has run out is always ready.
        if matches!(self.phase, Phase::Guarding | Phase::Ending { .. }) {
            events.push(PollFd::new(&self.timer, PollFlags::IN));
        }
        // One that has hung up is always ready, and tells nothing more.
        if !self.is_alone {
            events.push(PollFd::new(&self.control, PollFlags::IN));
        }
        let at_most = match self.phase {
            Phase::Ending { .. } | Phase::Killing => Some(AGAIN),
            Phase::Waiting if self.standing.is_somewhere() => Some(LOOKS),
            Phase::Guarding if self.is_stopped => Some(LOOKS),
            Phase::Waiting | Phase::Claimed | Phase::Guarding | Phase::Over => None,
        };
        let at_most = at_most.map(|span| Timespec {
            tv_sec: 0,
            tv_nsec: span.subsec_nanos().into(),
        });
        match poll(&mut events, at_most.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in the orders that have come. The end of the queue is an order to end.
    fn listen(&mut self) -> std::io::Result<()> {
        if self.is_alone {
            return Ok(());
        }
        let mut buffer = [0; 1024];
        loop {
            match child::receive(&self.control, &mut buffer) {
                Ok((0, _)) => {
                    self.is_alone = true;
                    break;
                }
                Ok((count, files)) => {
                    self.heard.extend(&buffer[..count]);
                    self.files = files.or(self.files.take());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_alone = true;
                    break;
                }
            }
        }
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<_> = self.heard.drain(..=end).collect();
            if let Ok(order) = String::from_utf8_lossy(&line[..end]).parse() {
                self.obey(order)?;
            }
        }
        match self.is_alone {
            true => self.hear_nothing_more(),
            false => Ok(()),
        }
    }

    fn obey(&mut self, order: Order) -> std::io::Result<()> {
        match order {
            Order::Place(place) => {
                // It waits again, or has nothing to do any more.
                if self.standing.is_at(place) && self.phase == Phase::Claimed {
                    self.phase = Phase::Waiting;
                }
                Ok(())
            }
            Order::Claim if self.standing.is_given_up() => {
                self.tell(Report::GivenUp);
                Ok(())
            }
            Order::Claim => {
                self.phase = Phase::Claimed;
                self.tell(Report::Claimed);
                Ok(())
            }
            Order::Start {
                deadline,
                environment,
            } => self.start(deadline, &environment),
            Order::Until(deadline) => {
                self.deadline = Some(deadline);
                // The lease was renewed after all.
                if matches!(self.phase, Phase::Ending { .. }) {
                    self.phase = Phase::Guarding;
                }
                self.set_timer()
            }
            Order::Signal(number) => {
                if let (Some(child), Some(signal)) = (&self.child, Signal::from_named_raw(number)) {
                    child.signal(signal);
                    // One that is stopped would not hear it.
                    if process_tree::ENDING.contains(&signal) {
                        child.signal(Signal::CONT);
                    }
                }
                Ok(())
            }
            Order::End(grace) => self.end(now() + grace),
        }
    }

    fn start(
        &mut self,
        deadline: Deadline,
        environment: &[(String, String)],
    ) -> std::io::Result<()> {
        let Some(files) = self.files.take() else {
            return Err(std::io::Error::other("no files for the command"));
        };
        if now() >= deadline.term {
            // Somebody kept this process from running: the command would run in another's turn.
            self.tell(Report::Ending);
            self.phase = Phase::Over;
            return Ok(());
        }
        let Supervisor { command, group, .. } = &self.options;
        match Child::start(command, environment, *group, files) {
            Ok(child) => {
                self.tell(Report::Started(child.pid()));
                (self.child, self.phase) = (Some(child), Phase::Guarding);
                self.deadline = Some(deadline);
                self.set_timer()
            }
            Err(error) => {
                self.tell(Report::Failed(error.raw_os_error().unwrap_or(0)));
                self.phase = Phase::Over;
                Ok(())
            }
        }
    }

    /// Whoever gave orders is gone: the command ends, and the lock is the next one's after that.
    fn hear_nothing_more(&mut self) -> std::io::Result<()> {
        match (self.phase, self.deadline) {
            (Phase::Guarding, Some(Deadline { term, kill })) => {
                let grace = kill.saturating_sub(term);
                self.end((now() + grace).min(kill))
            }
            _ => Ok(()),
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
            Phase::Waiting | Phase::Claimed | Phase::Killing | Phase::Over => return Ok(()),
        }
        self.tell(Report::Ending);
        process_tree::signal(Signal::TERM);
        process_tree::signal(Signal::CONT);
        self.phase = Phase::Ending { kill };
        self.set_timer()
    }

    fn mind_the_time(&mut self) -> std::io::Result<()> {
        match (self.phase, self.deadline) {
            (Phase::Guarding, Some(deadline)) if now() >= deadline.term => self.end(deadline.kill),
            (Phase::Ending { kill }, _) if now() >= kill => {
                self.phase = Phase::Killing;
                process_tree::kill();
                Ok(())
            }
            (Phase::Killing, _) => {
                process_tree::kill();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set_timer(&self) -> std::io::Result<()> {
        match (self.phase, self.deadline) {
            (Phase::Guarding, Some(deadline)) => self.timer.set(deadline.term),
            (Phase::Ending { kill }, _) => self.timer.set(kill),
            _ => Ok(()),
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
            Some(News::Stopped) => {
                self.is_stopped = true;
                self.tell(Report::Stopped);
            }
            Some(News::Continued) => {
                self.is_stopped = false;
                if self.phase == Phase::Guarding {
                    self.wake();
                }
            }
            Some(News::Ended) | None => {}
        }
    }

    /// Continues `fairlock run`: who continues the command alone knows nothing of the one that stopped together with it, and
    /// renews its lease.
    fn wake(&self) {
        // A parent that ended is another's process now.
        if let Some(parent) = getppid().filter(|parent| Some(*parent) == self.parent)
            && process_tree::is_stopped(parent.as_raw_pid())
        {
            let _ = kill_process(parent, Signal::CONT);
        }
    }

    /// A command that ended by itself may leave others behind, as it may without a lock. One that was ended may not.
    fn is_over(&self) -> bool {
        let Some(child) = &self.child else {
            return false;
        };
        match self.phase {
            Phase::Guarding => child.end.is_some(),
            Phase::Ending { .. } | Phase::Killing => child.end.is_some() && child.is_childless,
            Phase::Waiting | Phase::Claimed | Phase::Over => false,
        }
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

fn is_stopped(process: Pid) -> bool {
    process_tree::is_stopped(process.as_raw_pid())
}
