//! The `fairlock run` side of the supervisor: starts it, sends it orders, and receives its reports.

use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fairlock::PlaceId;
use rustix::io::Errno;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, send, sendmsg, shutdown,
};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use tokio::sync::{mpsc, oneshot};
use tokio::time::interval;

use super::{Over, stop_waiting};
use crate::args::Run;
use crate::failure::Failure;
use crate::ipc::{Order, Report};
use crate::process_tree::{self, THIS_PROGRAM};
use crate::signals::{self, Caught};

/// How often who awaits an answer of the supervisor checks that it is neither stopped nor gone.
const WAKES: Duration = Duration::from_millis(100);

/// What the supervisor answered to the order to start the command.
#[derive(Debug)]
pub(super) enum Answer {
    /// It gave a place up, because this process was stopped. The command was not started.
    GivenUp,
    /// The first report about the command. `None` if the supervisor was killed: then the command may run.
    Begun(Option<Report>),
}

/// The supervisor of one `fairlock run`.
pub(super) struct SupervisorHandle {
    line: Line,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    process: Child,
    is_ready: bool,
}

/// Sends orders to the supervisor. Cheap to clone.
#[derive(Clone)]
pub(super) struct Line(Arc<UnixStream>);

impl Line {
    /// Sends an order. If the supervisor is gone, the end of its reports tells that.
    pub(super) fn tell(&self, order: &Order) {
        // Does not block: a stopped supervisor reads nothing, and this process has leases to renew.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = send(&*self.0, format!("{order}\n").as_bytes(), flags);
    }
}

impl SupervisorHandle {
    /// Starts the supervisor, which watches over this process from now on. A signal can end the wait for its start.
    pub(super) async fn start(
        options: &Run,
        signals: &mut mpsc::UnboundedReceiver<Caught>,
    ) -> Result<SupervisorHandle, Over> {
        let failed = |error| {
            let without = match std::fs::symlink_metadata(THIS_PROGRAM) {
                Ok(_) => "",
                Err(_) => " without /proc",
            };
            let text = format!("cannot start the supervisor{without}: {error}");
            Over::Refused(Failure::internal(text))
        };
        // If the supervisor is killed, the command must be among the descendants of this process.
        set_child_subreaper(Some(getpid())).map_err(|error| failed(error.into()))?;
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let mut starting = spawn(supervisor(options), theirs).map_err(failed)?;
        // Each iteration but the last is a signal that changes nothing.
        let process = loop {
            tokio::select! {
                biased;
                process = &mut starting => break process,
                Some(caught) = signals.recv() => stop_waiting(caught)?,
            }
        };
        let gone = |_| Err(std::io::ErrorKind::Interrupted.into());
        let process = process.unwrap_or_else(gone).map_err(failed)?;
        let reports = listen(control.try_clone().map_err(failed)?).map_err(failed)?;
        Ok(SupervisorHandle {
            line: Line(Arc::new(control)),
            reports,
            process,
            is_ready: false,
        })
    }

    /// Waits until the supervisor has all that it needs to end a command. Fails if it lacks something, if it is gone, or if this process
    /// lacks what it needs to end a command without it. A signal can end the wait.
    pub(super) async fn ready(
        &mut self,
        signals: &mut mpsc::UnboundedReceiver<Caught>,
    ) -> Result<(), Over> {
        let refused = |failure| Err(Over::Refused(failure));
        let (mut tick, mut has_ended) = (interval(WAKES), false);
        // Each iteration but the last is a signal that changes nothing, or a check.
        while !self.is_ready {
            tokio::select! {
                biased;
                report = self.reports.recv() => match report {
                    Some(Report::Unfit(why)) => return refused(Failure::internal(why)),
                    Some(_) => {
                        process_tree::test_means(Pid::from_child(&self.process)).or_else(refused)?;
                        self.is_ready = true;
                    }
                    None => return refused(self.not_ready()),
                },
                Some(caught) = signals.recv() => stop_waiting(caught)?,
                _ = tick.tick() => match self.process.try_wait() {
                    Ok(None) => self.wake(),
                    // Its last report may still be on its way. That the socket closes is not certain.
                    Ok(Some(_)) | Err(_) if !has_ended => has_ended = true,
                    Ok(Some(_)) | Err(_) => return refused(self.not_ready()),
                },
            }
        }
        Ok(())
    }

    fn not_ready(&mut self) -> Failure {
        let how = match self.process.try_wait() {
            Ok(Some(status)) => format!(" ({status})"),
            Ok(None) | Err(_) => String::new(),
        };
        Failure::internal(format!(
            "the supervisor has ended before it was ready{how}, so no lock was asked for"
        ))
    }

    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }

    pub(super) fn tell(&self, order: &Order) {
        self.line.tell(order);
    }

    /// Starts the command through the supervisor, if it has given none of these places up. Once the command has begun, this process holds neither
    /// its input nor its output. So the processes at the other ends see them close when the command ends.
    pub(super) async fn begin(
        &mut self,
        places: &[PlaceId],
        start: &Order,
    ) -> Result<Answer, Failure> {
        let failed = |error| Failure::internal(format!("cannot start the command: {error}"));
        // Both orders go at once: the command waits for one message, and for no answer.
        let places = places.iter().map(ToString::to_string).collect();
        let orders = format!("{}\n{start}\n", Order::Places(places));
        let mut is_sent = false;
        let mut tick = interval(WAKES);
        // Each iteration but the last sends the orders, or finds that a supervisor that was stopped has not read the orders before these.
        loop {
            if !is_sent {
                is_sent = send_with_files(&self.line.0, &orders)?;
            }
            tokio::select! {
                biased;
                report = self.reports.recv() => match report {
                    Some(Report::GivenUp) => return Ok(Answer::GivenUp),
                    None if !is_sent => return Err(not_started()),
                    report => {
                        let_go_of_files().map_err(failed)?;
                        return Ok(Answer::Begun(report));
                    }
                },
                _ = tick.tick() => self.wake(),
            }
        }
    }

    /// Continues the supervisor if it was stopped: a stopped supervisor could not end the command.
    pub(super) fn wake(&self) {
        let supervisor = Pid::from_child(&self.process);
        if process_tree::is_stopped(supervisor.as_raw_pid()) {
            let _ = kill_process(supervisor, Signal::CONT);
        }
    }

    /// Ends the supervisor, when neither a command nor a place in the table is left. The supervisor has ended when this returns, unless it
    /// is stopped again meanwhile.
    pub(super) fn dismiss(mut self) {
        self.tell(&Order::Places(Vec::new()));
        self.wake();
        if shutdown(&*self.line.0, Shutdown::Write).is_err() {
            self.kill();
        }
        let _ = self.process.wait();
    }

    /// Kills the supervisor, unless it has ended.
    pub(super) fn kill(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = process_tree::signal_child(Pid::from_child(&self.process), Signal::KILL);
        }
    }
}

/// The command line of the supervisor, which is this same program.
fn supervisor(options: &Run) -> Command {
    let mut supervisor = Command::new(THIS_PROGRAM);
    let group = process_tree::own_group().to_string();
    supervisor
        .arg0("fairlock")
        .args(["supervisor", "--group", &group])
        .args(options.location.flags())
        .arg("--")
        .args(&options.command);
    supervisor
}

/// Starts the supervisor in a thread: a start whose outcome cannot be read takes as long as the program that was started.
fn spawn(
    mut command: Command,
    theirs: UnixStream,
) -> std::io::Result<oneshot::Receiver<std::io::Result<Child>>> {
    let (tell, told) = oneshot::channel();
    std::thread::Builder::new().spawn(move || {
        let process = signals::ignoring_nothing_more(&mut command)
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn();
        // Closes this process's copy of the supervisor's end of the socket. Only the supervisor's own copy is left.
        drop(command);
        tell.send(process)
    })?;
    Ok(told)
}

fn not_started() -> Failure {
    Failure::internal("the supervisor was not reached, so the command was not started")
}

/// Sends the orders, with standard input and output for the command. Returns `false` if the supervisor must read other orders first.
fn send_with_files(control: &UnixStream, orders: &str) -> Result<bool, Failure> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let files = [input.as_fd(), output.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut sent = SendAncillaryBuffer::new(&mut space);
    sent.push(SendAncillaryMessage::ScmRights(&files));
    let mut rest = orders.as_bytes();
    // Does not block, because a supervisor that is stopped must be continued first.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let first = match sendmsg(control, &[IoSlice::new(rest)], &mut sent, flags) {
        Ok(first) => first,
        Err(Errno::AGAIN) => return Ok(false),
        Err(_) => return Err(not_started()),
    };
    rest = &rest[first..];
    // Each iteration sends some of the rest.
    while !rest.is_empty() {
        let next = send(control, rest, SendFlags::NOSIGNAL).map_err(|_| not_started())?;
        rest = &rest[next..];
    }
    Ok(true)
}

fn let_go_of_files() -> std::io::Result<()> {
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(())
}

/// Reads the supervisor's reports in a thread, which ends with the supervisor.
fn listen(control: UnixStream) -> std::io::Result<mpsc::UnboundedReceiver<Report>> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::Builder::new().spawn(move || {
        for line in BufReader::new(control).lines() {
            let Ok(line) = line else { return };
            let Ok(report) = line.parse() else { continue };
            if tell.send(report).is_err() {
                return;
            }
        }
    })?;
    Ok(told)
}
