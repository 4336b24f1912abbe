//! Runs the command while the lock is held, and ends the command when the lock is lost.

use std::collections::BTreeMap;
use std::io;
use std::iter;
use std::pin::pin;
use std::time::Duration;

use fairlock::{
    Error, HeldLocks, LockClient, LockGuard, LockLost, LossReason, Ticket, YieldRequest,
};
use rustix::process::Signal;
use signal_hook::consts::SIGINT;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Interval, interval, sleep};

use super::holds::{Holds, quoted};
use super::job::Job;
use super::supervisor_handle::{Answer, SupervisorHandle};
use super::{Ended, PARTING, nesting};
use crate::args::Run;
use crate::failure::{Failure, INTERNAL, LOST, UNENDED, killed_by, say};
use crate::ipc::{Deadline, Order, Report, now};
use crate::local_file::Known;
use crate::location::Location;
use crate::process_tree::{self, killing::Killing};
use crate::signals::Caught;
use crate::text::program;

/// The time from SIGTERM to SIGKILL if the lock is already lost: another client may hold the lock at any moment.
const AT_ONCE: Duration = Duration::from_millis(250);
/// How long it may take on a busy machine to find and kill all processes of a command. 0.4 s were seen on two cores that were kept busy.
const KILLING_TAKES: Duration = Duration::from_secs(1);
/// What the command finds in its environment: the lock that was named first, its ticket, and the tickets of all its locks as JSON.
pub(crate) const LOCK: &str = "FAIRLOCK_LOCK";
pub(crate) const TICKET: &str = "FAIRLOCK_TICKET";
pub(crate) const TICKETS: &str = "FAIRLOCK_TICKETS";

/// A command that runs while its locks are held.
pub(super) struct Turn {
    holds: Holds,
    /// The lock that was named first.
    lock: String,
    program: String,
    supervisor_handle: SupervisorHandle,
    job: Job,
    tick: Interval,
    /// The lease, or the longest hold if that is shorter.
    lease: Duration,
    /// The longest hold that the user allows.
    max_hold: Option<Duration>,
    kill_after: Duration,
    /// The exit code if the lock is lost.
    lost_code: u8,
    /// The time of the kill in the last deadline that the supervisor was told.
    told: Duration,
    /// Which lock is lost, and why.
    loss: Option<Loss>,
    location: Location,
    /// The file that contains the lock. Is `None` if the lock is not in a file.
    file: Option<Known>,
    /// When this process last ran its loop, and how long it stood still before, if that was long.
    ticked: Duration,
    stood_still: Option<Duration>,
    /// The lock whose lease is running out because renewals fail, as a message has said.
    in_danger: Option<String>,
    /// The request to give way that a message has told last, of each hold.
    requests: Vec<Option<YieldRequest>>,
    is_quiet: bool,
    /// The command was told to end, because the lease was ending.
    is_ended: bool,
    /// This process was told to end, and could not pass that on.
    is_to_end: bool,
}

/// A lock that was lost.
#[derive(Clone, Debug)]
struct Loss {
    lock: String,
    ticket: Ticket,
    why: String,
}

/// A command that was started.
pub(super) struct Begun {
    /// The first report about it. `None` if the supervisor was killed.
    pub(super) report: Option<Report>,
    deadline: Deadline,
    kill_after: Duration,
    file: Option<Known>,
}

/// Starts the command. Returns `None` if the supervisor gave the place up, because this process was stopped.
pub(super) async fn begin(
    options: &Run,
    holds: &Holds,
    kill_after: Duration,
    supervisor_handle: &mut SupervisorHandle,
) -> Result<Option<Begun>, Failure> {
    let lock = &options.claim.lock;
    let ticket = holds
        .ticket(lock)
        .map_or(String::new(), |ticket| ticket.to_string());
    let variables = [
        (LOCK, lock.clone()),
        (TICKET, ticket),
        (TICKETS, tickets(holds)?),
        (
            nesting::VARIABLE,
            nesting::with(&options.location, &options.claim, holds)?,
        ),
    ];
    // Before the command can delete the file.
    let file = options.location.local.as_deref().and_then(Known::of);
    let deadline = deadline(holds, options.claim.shortest_hold(), kill_after);
    let environment = variables.map(|(name, value)| (name.to_owned(), value));
    let start = Order::Start {
        deadline,
        kept: options
            .claim
            .min_hold
            .map_or(Duration::ZERO, |least| now() + least),
        environment: environment.to_vec(),
    };
    let answer = supervisor_handle.begin(&holds.places(), &start).await?;
    Ok(match answer {
        Answer::GivenUp => None,
        Answer::Begun(report) => Some(Begun {
            report,
            deadline,
            kill_after,
            file,
        }),
    })
}

/// The ticket of each lock by its name, as JSON.
fn tickets(holds: &Holds) -> Result<String, Failure> {
    let tickets = holds
        .guards()
        .iter()
        .map(|guard| (guard.name(), guard.ticket().get()));
    let tickets = serde_json::to_string(&tickets.collect::<BTreeMap<_, _>>());
    tickets.map_err(|error| Failure::internal(format!("no JSON: {error}")))
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exited(i32),
    Killed(i32),
    /// The command could not be run.
    Failed(i32),
    /// The supervisor is gone, or does not do its work.
    Unguarded,
}

impl Turn {
    pub(super) fn new(
        options: &Run,
        holds: Holds,
        begun: Begun,
        (signals, supervisor_handle): (UnboundedReceiver<Caught>, SupervisorHandle),
    ) -> Turn {
        let claim = &options.claim;
        let beat = (claim.shortest_hold() / 40).min(Duration::from_millis(250));
        Turn {
            lock: claim.lock.clone(),
            program: program(&options.command),
            job: Job::new(signals, supervisor_handle.line()),
            supervisor_handle,
            told: begun.deadline.kill,
            tick: interval(beat),
            lease: claim.shortest_hold(),
            max_hold: claim.max_hold,
            kill_after: begun.kill_after,
            lost_code: claim.lost_exit_code,
            in_danger: None,
            requests: vec![None; holds.guards().len()],
            holds,
            loss: None,
            location: options.location.clone(),
            file: begun.file,
            ticked: now(),
            stood_still: None,
            is_quiet: claim.quiet,
            is_ended: false,
            is_to_end: false,
        }
    }

    pub(super) async fn run(
        mut self,
        first: Option<Report>,
        locks: LockClient,
    ) -> Result<Ended, Failure> {
        let end = self.watch(first).await;
        match end {
            End::Unguarded => {
                if let Some(trouble) = self.end_unguarded().await {
                    return self.abandon(&trouble, locks).await;
                }
            }
            End::Killed(SIGINT) => self.job.settles().await,
            _ => {}
        }
        self.conclude(end, locks).await
    }

    /// Watches the command, of which the first report has come. Ends when the command or the supervisor ends, or when the supervisor is
    /// overdue.
    async fn watch(&mut self, first: Option<Report>) -> End {
        let lost = self.holds.lost();
        tokio::pin!(lost);
        if let Some(end) = self.note(first) {
            return end;
        }
        loop {
            tokio::select! {
                biased;
                lost = &mut lost, if self.loss.is_none() => self.lose_by(lost),
                report = self.supervisor_handle.reports.recv() => if let Some(end) = self.note(report) {
                    return end;
                },
                caught = self.job.signals.recv() => match caught {
                    Some(caught) => self.job.hear(caught).await,
                    // It could not be ended any more.
                    None => return End::Unguarded,
                },
                _ = self.tick.tick() => {
                    self.note_the_time();
                    self.tell_the_deadline();
                    self.supervisor_handle.wake();
                    self.check_the_file();
                    self.tell_the_danger();
                    self.tell_the_request();
                    if self.is_overdue() {
                        self.is_ended = true;
                        return End::Unguarded;
                    }
                }
            }
        }
    }

    /// Handles a report of the supervisor, or the end of its reports. Returns how the command ended, if it has.
    fn note(&mut self, report: Option<Report>) -> Option<End> {
        match report {
            None => return Some(End::Unguarded),
            Some(Report::Exited(code)) => return Some(End::Exited(code)),
            Some(Report::Killed(signal)) => return Some(End::Killed(signal)),
            Some(Report::Failed(reason)) => return Some(End::Failed(reason)),
            Some(Report::Started(pid, at)) => self.job.starts(pid, at),
            Some(Report::Ending) => self.is_ended = true,
            Some(Report::Stopped) => self.job.stop_too(),
            Some(Report::Unreachable) => {
                self.is_to_end = true;
                return Some(End::Unguarded);
            }
            // These reports are about the time before the command started.
            Some(Report::Ready | Report::Unfit(_) | Report::GivenUp) => {}
        }
        None
    }

    fn lose_by(&mut self, lost: LockLost) {
        self.note_the_time();
        if let Some(loss) = self.lost_file() {
            return self.lose(loss);
        }
        let LockLost {
            lock,
            ticket,
            reason,
            ..
        } = lost;
        let why = match (&reason, self.stood_still) {
            (LossReason::Expired, Some(span)) => {
                format!("its lease ran out while fairlock {}", did_not_run(span))
            }
            (LossReason::Unreachable { cause }, _) => {
                let explained = self.location.explained(cause);
                explained.unwrap_or_else(|| reason.to_string())
            }
            _ => reason.to_string(),
        };
        self.lose(Loss { lock, ticket, why });
    }

    /// Says that the file of the locks was deleted, if it was. All locks in it are lost then, and the message names one.
    fn lost_file(&self) -> Option<Loss> {
        let why = deleted(&self.location, self.file.as_ref())?;
        self.loss_of_all(why)
    }

    /// A loss that is none of a single lock's.
    fn loss_of_all(&self, why: String) -> Option<Loss> {
        let lock = self.lock.clone();
        let ticket = self.holds.ticket(&lock)?;
        Some(Loss { lock, ticket, why })
    }

    fn lose(&mut self, loss: Loss) {
        self.loss = Some(loss);
        let soon = AT_ONCE.min(self.kill_after);
        self.told = self.told.min(now() + soon);
        self.supervisor_handle.tell(&Order::End(soon));
    }

    fn check_the_file(&mut self) {
        if self.loss.is_some() {
            return;
        }
        if let Some(loss) = self.lost_file() {
            self.lose(loss);
        }
    }

    /// Says once that another client asks for the lock. Whether the command ends earlier is left to whoever reads that.
    fn tell_the_request(&mut self) {
        for (guard, told) in self.holds.guards().iter().zip(&mut self.requests) {
            let request = guard.yield_requested();
            if let Some(YieldRequest { by, reason, .. }) = &request
                && request != *told
            {
                say(&format!(
                    "lock `{}`: {by} asks for it: {reason}",
                    guard.name()
                ));
                *told = request;
            }
        }
    }

    /// Warns while the operator still has the rest of the lease to repair the table.
    fn tell_the_danger(&mut self) {
        let endangered = self.holds.in_danger().filter(|_| self.loss.is_none());
        let endangered = endangered.map(|guard| guard.name().to_owned());
        if endangered.is_some() == self.in_danger.is_some() {
            return;
        }
        let before = std::mem::replace(&mut self.in_danger, endangered);
        match (&self.in_danger, before) {
            _ if self.is_quiet || self.is_ended || self.loss.is_some() => {}
            (Some(lock), _) => say(&format!(
                "lock `{lock}`: its lease is ending, and {}; goes on trying",
                self.unrenewed()
            )),
            (None, Some(lock)) => say(&format!("lock `{lock}`: its lease was renewed")),
            (None, None) => {}
        }
    }

    fn note_the_time(&mut self) {
        let gap = now().saturating_sub(self.ticked);
        self.ticked += gap;
        if gap > self.lease / 4 {
            self.stood_still = Some(gap);
        }
    }

    /// Why the supervisor had to end the command: the hold was to last no longer, or its lease was not renewed.
    fn trouble(&self) -> String {
        match (self.stood_still, self.job.stopped_for()) {
            (None, None) if self.max_hold.is_some() && self.holds.trouble().is_none() => {
                let longest = self.max_hold.unwrap_or_default();
                format!("it was held for as long as --max-hold {longest:?} allows")
            }
            (Some(span), _) => {
                format!(
                    "its lease was ending, because fairlock {}",
                    did_not_run(span)
                )
            }
            (None, Some(span)) => {
                format!(
                    "what ran in its turn was stopped for {span:.1?}, and its lease was not renewed"
                )
            }
            (None, None) => format!("its lease was ending, and {}", self.unrenewed()),
        }
    }

    fn unrenewed(&self) -> String {
        let cause = self.holds.trouble().map(|cause| {
            let explained = self.location.explained(&cause);
            format!(" ({})", explained.unwrap_or(cause))
        });
        format!("could not be renewed{}", cause.unwrap_or_default())
    }

    /// The supervisor should have killed all processes by now, and has not. It may be stopped, for example.
    fn is_overdue(&self) -> bool {
        now() > self.told + kill_margin(self.lease) / 2
    }

    /// Tells the supervisor a later deadline after a renewal. While the command is stopped without a shell, the deadline stays as it is. So
    /// it does once the supervisor has begun to end the command.
    fn tell_the_deadline(&mut self) {
        if self.is_ended || !self.job.works_on() {
            return;
        }
        let deadline = deadline(&self.holds, self.lease, self.kill_after);
        if self.loss.is_none() && deadline.kill > self.told + self.lease / 100 {
            self.told = deadline.kill;
            self.supervisor_handle.tell(&Order::Until(deadline));
        }
    }

    /// Ends the command without the supervisor. Either the supervisor was killed, and the command is now a child of this process; or the
    /// supervisor does not do its work, and is killed too. Returns why processes are left, if this process was told to end and cannot end
    /// them.
    async fn end_unguarded(&mut self) -> Option<String> {
        process_tree::signal(Signal::TERM);
        process_tree::signal(Signal::CONT);
        let deadline = deadline(&self.holds, self.lease, self.kill_after);
        let kill = deadline.kill.min(now() + self.kill_after);
        while process_tree::members().map_or(true, |members| !members.is_empty()) && now() < kill {
            sleep(Duration::from_millis(10)).await;
        }
        self.supervisor_handle.kill();
        let mut killing = Killing::of(self.program.clone());
        // The loop ends with the processes, or when a signal has asked for the end and the attempts do not succeed.
        while process_tree::has_children() {
            killing.go_on();
            if self.is_to_end && killing.is_stuck() {
                return Some(killing.trouble().to_owned());
            }
            tokio::select! {
                biased;
                Some(caught) = self.job.signals.recv() => self.is_to_end |= caught.is_ending(),
                () = sleep(killing.until_next()) => {}
            }
        }
        None
    }

    /// Ends this process, though processes of the command are left. The lock is not released: the next waits for the lease to end.
    async fn abandon(self, trouble: &str, locks: LockClient) -> Result<Ended, Failure> {
        let names = quoted(self.holds.guards().iter().map(LockGuard::name));
        locks.shutdown(HeldLocks::Keep, PARTING).await;
        let program = self.program;
        Err(Failure::new(
            UNENDED,
            format!("`{program}` still runs, and others may have its lock {names} soon: {trouble}"),
        ))
    }

    async fn conclude(mut self, end: End, locks: LockClient) -> Result<Ended, Failure> {
        self.note_the_time();
        // The command has received these too.
        let _ = self.job.takes_an_interrupt();
        let trouble = self.loss_of_all(self.trouble());
        let lost = self.loss.take().or_else(|| self.lost_file());
        let lost = lost.or_else(|| trouble.filter(|_| self.is_ended));
        let all_lost = self.loss_of_all(String::new());
        let (program, lost_code) = (self.program, self.lost_code);
        let names = quoted(self.holds.guards().iter().map(LockGuard::name));
        let released = match lost {
            Some(loss) => Err(loss),
            None => {
                let gone = || {
                    let why = deleted(&self.location, self.file.as_ref())?;
                    all_lost.clone().map(|loss| Loss { why, ..loss })
                };
                match released(self.holds, &mut self.tick, gone).await {
                    Err(Unreleased::Lost(loss)) => Err(loss),
                    Err(Unreleased::Failed(error)) => {
                        let why = self.location.explained(&chain(&error));
                        let why = why.unwrap_or_else(|| error.to_string());
                        say(&format!(
                            "lock {names}: {why}: the next waits for the lease to end"
                        ));
                        Ok(())
                    }
                    Ok(()) => Ok(()),
                }
            }
        };
        locks.shutdown(HeldLocks::Release, PARTING).await;
        self.supervisor_handle.dismiss();
        // The command was over, so the key was for this process and for the shell that waits for it.
        let is_interrupted = self.job.takes_an_interrupt();
        if let Err(Loss { lock, ticket, why }) = released {
            let text = format!("lock `{lock}` was lost while ticket {ticket} had it: {why}");
            return Err(Failure::new(LOST, text).with_code(lost_code));
        }
        match end {
            End::Exited(_) if is_interrupted => Ok(Ended::Interrupted),
            End::Exited(code) => Ok(Ended::Exited(u8::try_from(code).unwrap_or(u8::MAX))),
            End::Killed(SIGINT) if self.job.is_interrupted => Ok(Ended::Interrupted),
            End::Killed(signal) => Ok(Ended::Exited(killed_by(signal))),
            End::Failed(reason) => Err(cannot_run(&program, reason)),
            End::Unguarded => Err(Failure::new(
                INTERNAL,
                format!(
                    "the supervisor of {names} was killed or could not do its work, so its turn was ended"
                ),
            )),
        }
    }
}

/// Why a lock was not released.
enum Unreleased {
    /// This process did not hold the lock any more.
    Lost(Loss),
    Failed(Error),
}

/// Releases the locks. Fails if the file disappears meanwhile: nothing can be released in a deleted file. Each iteration but the last checks
/// whether the file is gone.
async fn released(
    holds: Holds,
    tick: &mut Interval,
    gone: impl Fn() -> Option<Loss>,
) -> Result<(), Unreleased> {
    let mut release = pin!(holds.release());
    loop {
        tokio::select! {
            biased;
            released = &mut release => return released.map_err(|error| match error {
                Error::Lost { lock, ticket, reason } => {
                    let loss = Loss { lock, ticket, why: reason.to_string() };
                    Unreleased::Lost(gone().unwrap_or(loss))
                }
                error => Unreleased::Failed(error),
            }),
            _ = tick.tick() => gone().map_or(Ok(()), |loss| Err(Unreleased::Lost(loss)))?,
        }
    }
}

/// Explains that the file was deleted, replaced or cut. The process that made another file takes this lock there, and cannot know of the command
/// that runs under the old file.
fn deleted(location: &Location, file: Option<&Known>) -> Option<String> {
    let (file, name) = (file?, location.engine());
    match file.lost_log() {
        _ if file.is_gone() => Some(format!("{name} was deleted, or another has its name")),
        _ if file.is_cut() => Some(format!("{name} was cut by someone")),
        Some(log) => Some(format!(
            "{} was deleted, which is a part of {name}",
            log.display()
        )),
        None => None,
    }
}

/// An error and its causes.
fn chain(error: &Error) -> String {
    let causes = iter::successors(Some(error as &dyn std::error::Error), |&error| {
        error.source()
    });
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// A process that was not given a processor cannot tell why.
fn did_not_run(span: Duration) -> String {
    format!("did not run for {span:.1?} (it was stopped, or had no processor)")
}

/// The failure of a command that cannot be run, with the exit code that a shell uses.
fn cannot_run(program: &str, reason: i32) -> Failure {
    let error = io::Error::from_raw_os_error(reason);
    let code = match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    Failure::new(code, format!("cannot run `{program}`: {error}"))
}

/// The time from the kill to the end of the lease: a twentieth of the lease, and at least `KILLING_TAKES` where an eighth of the lease is as
/// long. A busy machine lets the supervisor wait for its processor, and needs as long for a lease of eight seconds as for one of a minute.
fn kill_margin(lease: Duration) -> Duration {
    (lease / 20).max(KILLING_TAKES.min(lease / 8))
}

/// Sets the deadlines. The kill comes by the margin before the end of the lease, so that the command is gone by then. SIGTERM comes
/// `kill_after` before the kill.
fn deadline(holds: &Holds, lease: Duration, kill_after: Duration) -> Deadline {
    let kill = (now() + holds.remaining()).saturating_sub(kill_margin(lease));
    Deadline {
        term: kill.saturating_sub(kill_after),
        kill,
    }
}
