//! The supervisor: watches over `fairlock run` from the beginning of its wait until the command has ended.
//!
//! It starts the command in the process group that the command would have without it. It is the ancestor of everything that the command
//! starts, and ends all of that when the lease ends, whatever became of `fairlock run`. The supervisor itself is in a session that the
//! terminal's signals do not reach. `fairlock run` sends it deadlines, and its places in the table. The end of that connection means that no
//! more orders can come. The supervisor then ends the command and gives the places up, so that no waiter has to wait for a lease to end.

mod child;
mod place;
mod timer;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_child_subreaper};
use rustix::thread::nanosleep;
use signal_hook::consts::SIGCHLD;

use crate::args::Supervisor;
use crate::failure::{Failure, INTERNAL};
use crate::ipc::{Deadline, Order, Report, now};
use crate::process_tree::{self, killing::Killing};
use crate::signals;
use crate::text::program;
use child::{Child, Files, News};
use place::Standing;
use timer::Timer;

/// How soon something is tried again that did not succeed, and how often a command that must end is checked.
const AGAIN: Duration = Duration::from_millis(20);
/// How often the supervisor checks whether `fairlock run` is stopped while it waits.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) fn guard(options: Supervisor) -> Result<ExitCode, Failure> {
    let run = |error| Failure::internal(format!("the supervisor cannot run: {error}"));
    // The supervisor is started through `/proc/self/exe`, whose name would be shown otherwise.
    let _ = rustix::thread::set_name(c"fairlock");
    let mut control = child::take_line().map_err(run)?;
    let watch = control.try_clone().map_err(run);
    let mut watch = match watch.and_then(|line| Watch::over(options, line)) {
        Ok(watch) => watch,
        Err(failure) => {
            let why = Report::Unfit(failure.text().to_owned());
            return tell(&mut control, &why)
                .map_or(Err(failure), |()| Ok(ExitCode::from(INTERNAL)));
        }
    };
    tell(&mut control, &Report::Ready).map_err(run)?;
    drop(control);
    watch.run();
    Ok(ExitCode::SUCCESS)
}

/// What the supervisor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// `fairlock run` waits for the lock, or has just been granted it.
    Waiting,
    /// The command runs, and the lease has been renewed in time so far.
    Guarding,
    /// All processes of the command were told to end. Any that are left at `kill` are killed.
    Ending { kill: Duration },
    /// All processes of the command are being killed, and may take a moment to die.
    Killing,
    /// The command has ended, or could not be run.
    Over,
}

/// A `fairlock run` under supervision, and its command.
struct Watch {
    control: UnixStream,
    /// The process of `fairlock run`.
    parent: Option<Pid>,
    /// The other end of the connection is closed.
    is_alone: bool,
    /// Readable when a child has changed its state.
    woken: UnixStream,
    timer: Timer,
    /// The timer could not be set, so the time is looked at again and again.
    is_untimed: bool,
    /// `None` before the command has started.
    deadline: Option<Deadline>,
    /// Bytes of an order that is not complete yet.
    heard: Vec<u8>,
    /// Files that came with an order.
    files: Option<Files>,
    /// The places of `fairlock run` in the table.
    standing: Standing,
    child: Option<Child>,
    /// The command is stopped, and `fairlock run` may have stopped along with it.
    is_stopped: bool,
    phase: Phase,
    killing: Killing,
    options: Supervisor,
}

impl Watch {
    /// Prepares all that the supervisor needs later, and tries it. So what is missing is known before there is a command to end.
    fn over(options: Supervisor, control: UnixStream) -> Result<Watch, Failure> {
        let run = |error| Failure::internal(format!("the supervisor cannot run: {error}"));
        signals::shrug_off()?;
        set_child_subreaper(Some(getpid())).map_err(|error| run(error.into()))?;
        process_tree::test_means(getpid())?;
        match child::receive(&control, &mut [0]) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(run(error)),
            // No orders come before the supervisor is ready.
            Ok(_) | Err(_) => {}
        }
        let (wakes, woken) = UnixStream::pair().map_err(run)?;
        signal_hook::low_level::pipe::register(SIGCHLD, wakes).map_err(run)?;
        woken.set_nonblocking(true).map_err(run)?;
        let timer = Timer::new().map_err(run)?;
        timer.set(now()).map_err(run)?;
        let events = &mut [PollFd::new(&timer, PollFlags::IN)];
        poll(events, Some(&timespec(AGAIN))).map_err(|error| run(error.into()))?;
        Ok(Watch {
            control,
            parent: getppid(),
            is_alone: false,
            woken,
            timer,
            is_untimed: false,
            deadline: None,
            heard: Vec::new(),
            files: None,
            standing: Standing::default(),
            child: None,
            is_stopped: false,
            phase: Phase::Waiting,
            killing: Killing::of(program(&options.command)),
            options,
        })
    }

    /// Runs until `fairlock run` has ended, and not before the command has ended. A command that must end is killed at the deadline, with
    /// everything that it started, and so ends a moment after the deadline at the latest.
    fn run(&mut self) {
        loop {
            self.wait();
            self.listen();
            self.look_after_children();
            self.mind_the_time();
            if self.is_over() {
                self.tell_the_end();
                // `fairlock run` stopped together with the command, and no other process may continue it.
                self.wake();
                self.phase = Phase::Over;
            }
            match self.phase {
                Phase::Waiting | Phase::Over if self.is_alone => {
                    self.standing.give_up(&self.options.location);
                    return;
                }
                Phase::Waiting if self.parent.is_some_and(is_stopped) => {
                    self.standing.give_up(&self.options.location);
                }
                // `fairlock run` passes the signal on once it is continued and receives it.
                Phase::Guarding if self.parent.is_some_and(process_tree::is_to_end) => self.wake(),
                _ => {}
            }
        }
    }

    /// Waits until an order comes, a child changes, or the time has come.
    fn wait(&self) {
        let mut events = vec![PollFd::new(&self.woken, PollFlags::IN)];
        // In other phases an expired timer would always be ready.
        if matches!(self.phase, Phase::Guarding | Phase::Ending { .. }) {
            events.push(PollFd::new(&self.timer, PollFlags::IN));
        }
        // A closed socket is always ready, and brings nothing more.
        if !self.is_alone {
            events.push(PollFd::new(&self.control, PollFlags::IN));
        }
        let child = self.child.as_ref();
        let at_most = match self.phase {
            _ if child.is_some_and(|child| child.is_to_be_asked_again) => Some(AGAIN),
            Phase::Ending { .. } => Some(AGAIN),
            Phase::Guarding if self.is_untimed => Some(AGAIN),
            Phase::Killing => Some(self.killing.until_next()),
            Phase::Waiting if self.standing.is_somewhere() => Some(POLL_INTERVAL),
            Phase::Guarding if self.is_stopped => Some(POLL_INTERVAL),
            Phase::Waiting | Phase::Guarding | Phase::Over => None,
        };
        let at_most = at_most.map(timespec);
        match poll(&mut events, at_most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // What it would have told is found out without it, only later.
            Err(_) => {
                let _ = nanosleep(&timespec(AGAIN));
            }
        }
    }

    /// Reads the orders that have come. The end of the connection is an order to end.
    fn listen(&mut self) {
        if self.is_alone {
            return;
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
                self.obey(order);
            }
        }
        if self.is_alone {
            self.hear_nothing_more();
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Places(places) => self.standing.note_places(&places),
            // `fairlock run` keeps its own copies of the files, and waits again.
            Order::Start { .. } if self.standing.is_given_up() => {
                self.files = None;
                self.tell(&Report::GivenUp);
            }
            Order::Start {
                deadline,
                kept,
                environment,
            } => {
                self.standing.is_kept_until(kept);
                self.start(deadline, &environment)
            }
            // A command that was told to end is ended, though the lease is renewed after all: parts of it are gone by then.
            Order::Until(_) if self.phase != Phase::Guarding => {}
            Order::Until(deadline) => {
                self.deadline = Some(deadline);
                self.set_timer();
            }
            Order::Signal(number) => {
                if let (Some(child), Some(signal)) = (&self.child, Signal::from_named_raw(number)) {
                    let sent = child.signal(signal);
                    if process_tree::ENDING.contains(&signal) {
                        // A stopped command would not handle the signal.
                        match sent.and_then(|()| child.signal(Signal::CONT)) {
                            Ok(()) => {}
                            Err(_) => self.tell(&Report::Unreachable),
                        }
                    }
                }
            }
            Order::End(grace) => self.end(now() + grace),
        }
    }

    fn start(&mut self, deadline: Deadline, environment: &[(String, String)]) {
        let Some(files) = self.files.take() else {
            self.tell(&Report::Failed(Errno::BADF.raw_os_error()));
            self.phase = Phase::Over;
            return;
        };
        if now() >= deadline.term {
            // This process did not run for so long that another client may hold the lock by now. `fairlock run` waits again.
            self.tell(&Report::GivenUp);
            return;
        }
        let Supervisor { command, group, .. } = &self.options;
        // The command has received no signal from before.
        let at = now();
        match Child::start(command, environment, *group, files) {
            Ok(child) => {
                self.tell(&Report::Started(child.pid(), at));
                (self.child, self.phase) = (Some(child), Phase::Guarding);
                self.deadline = Some(deadline);
                self.set_timer();
            }
            Err(error) => {
                self.tell(&Report::Failed(error.raw_os_error().unwrap_or(0)));
                self.phase = Phase::Over;
            }
        }
    }

    /// `fairlock run` is gone, so the command must end. The lock is free for the next waiter after that.
    fn hear_nothing_more(&mut self) {
        if let (Phase::Guarding, Some(Deadline { term, kill })) = (self.phase, self.deadline) {
            let grace = kill.saturating_sub(term);
            self.end((now() + grace).min(kill));
        }
    }

    /// Sends SIGTERM to all processes of the command, and then SIGCONT: stopped processes would not handle SIGTERM.
    fn end(&mut self, kill: Duration) {
        match self.phase {
            Phase::Guarding => {}
            // The command was told to end before, and gets no more time than it was given then.
            Phase::Ending { kill: before } => {
                self.phase = Phase::Ending {
                    kill: kill.min(before),
                };
                return self.set_timer();
            }
            Phase::Waiting | Phase::Killing | Phase::Over => return,
        }
        self.tell(&Report::Ending);
        process_tree::signal(Signal::TERM);
        process_tree::signal(Signal::CONT);
        self.phase = Phase::Ending { kill };
        self.set_timer();
    }

    fn mind_the_time(&mut self) {
        match (self.phase, self.deadline) {
            (Phase::Guarding, Some(deadline)) if now() >= deadline.term => self.end(deadline.kill),
            (Phase::Ending { kill }, _) if now() >= kill => {
                self.phase = Phase::Killing;
                self.killing = Killing::of(program(&self.options.command));
                self.kill();
            }
            (Phase::Killing, _) => self.kill(),
            _ => {}
        }
    }

    /// The command itself is killed whether or not it can be found.
    fn kill(&mut self) {
        self.killing.go_on();
        if let Some(child) = &self.child {
            let _ = child.signal(Signal::KILL);
        }
    }

    fn set_timer(&mut self) {
        let set = match (self.phase, self.deadline) {
            (Phase::Guarding, Some(deadline)) => self.timer.set(deadline.term),
            (Phase::Ending { kill }, _) => self.timer.set(kill),
            _ => Ok(()),
        };
        self.is_untimed = set.is_err();
    }

    fn look_after_children(&mut self) {
        // The bytes only wake the loop. Their number does not matter.
        let mut unread = [0; 64];
        while matches!(self.woken.read(&mut unread), Ok(count) if count > 0) {}
        let Some(child) = &mut self.child else {
            return;
        };
        match child.reap() {
            Some(News::Stopped) => {
                self.is_stopped = true;
                self.tell(&Report::Stopped);
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

    /// Continues `fairlock run`. A user who continues the command alone may not know that `fairlock run` stopped together with it. But
    /// `fairlock run` must renew the lease.
    fn wake(&self) {
        // If the parent has ended, another process may have its number.
        if let Some(parent) = getppid().filter(|parent| Some(*parent) == self.parent)
            && process_tree::is_stopped(parent.as_raw_pid())
        {
            let _ = kill_process(parent, Signal::CONT);
        }
    }

    /// A command that ended by itself may leave processes behind, as it may without a lock. A command that was told to end may not.
    fn is_over(&self) -> bool {
        let Some(child) = &self.child else {
            return false;
        };
        match self.phase {
            Phase::Guarding => child.end.is_some(),
            Phase::Ending { .. } | Phase::Killing => child.end.is_some() && child.is_childless,
            Phase::Waiting | Phase::Over => false,
        }
    }

    fn tell_the_end(&mut self) {
        if let Some(end) = self.child.as_ref().and_then(|child| child.end.clone()) {
            self.tell(&end);
        }
    }

    /// Sends a report. It is lost if `fairlock run` is gone.
    fn tell(&mut self, report: &Report) {
        let _ = tell(&mut self.control, report);
    }
}

fn tell(control: &mut UnixStream, report: &Report) -> std::io::Result<()> {
    control.write_all(format!("{report}\n").as_bytes())
}

/// A span as the kernel takes it.
fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs().cast_signed(),
        tv_nsec: span.subsec_nanos().into(),
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
