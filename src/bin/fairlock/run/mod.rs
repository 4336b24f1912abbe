//! `fairlock run`: takes a turn and runs a command in it.

mod nesting;
mod waiting;
mod warden;

use std::fs::File;
use std::iter;
use std::process::ExitCode;
use std::time::Duration;

use fairlock::{Error, HeldLocks, LockClient, LockGuard, Loss, RecordWait};
use rustix::process::{Pid, Signal, getpgid, getpgrp, getpid, kill_process};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use signal_hook::consts::{SIGCONT, SIGINT, SIGTSTP, SIGWINCH};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Interval, interval, sleep};

use crate::args::Run;
use crate::failure::{Failure, INTERNAL, LOST, NOT_GRANTED, killed_by, say};
use crate::family;
use crate::place::Missing;
use crate::signals::{self, Caught};
use crate::wire::{Deadline, Order, Report, now};

use waiting::Picture;
use warden::Warden;

/// A shorter lease leaves no time to end a command in.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// How long leaving the line and giving back may take in the end.
const PARTING: Duration = Duration::from_secs(3);
/// From SIGTERM to SIGKILL when the lock is lost already, and each moment may be another holder's.
const AT_ONCE: Duration = Duration::from_millis(250);
/// What the kernel sends to a whole group arrives within this, one after the other.
const STOP_SETTLES: Duration = Duration::from_millis(50);

pub(crate) fn run(options: Run) -> Result<ExitCode, Failure> {
    let grace = check(&options)?;
    nesting::check(&options)?;
    // Before any other thread runs, so that none of them gets the signals.
    let signals = signals::catch()?;
    let ended = crate::runtime()?.block_on(turn(options, grace, signals))?;
    Ok(ended.exit())
}

/// How `fairlock run` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Exited(u8),
    /// By the terminal's SIGINT. A shell that runs a loop, and was interrupted too, goes on with the loop unless this process dies of it.
    Interrupted,
}

impl Ended {
    fn exit(self) -> ExitCode {
        match self {
            Ended::Exited(code) => ExitCode::from(code),
            Ended::Interrupted => {
                let _ = signal_hook::low_level::emulate_default_handler(SIGINT);
                ExitCode::from(killed_by(SIGINT))
            }
        }
    }
}

/// The time between SIGTERM and SIGKILL.
fn check(options: &Run) -> Result<Duration, Failure> {
    let lease = options.lease;
    if options.shared {
        let text = "turns are not shared here: without -s each has the lock alone, and programs share one by the library's \
                    `acquire_shared`";
        return Err(Failure::misuse(text));
    }
    let grace = options.grace.unwrap_or(lease / 6);
    if lease < SHORTEST_LEASE {
        return Err(Failure::misuse(format!(
            "--lease {lease:?} is too short to end a command in: at least {SHORTEST_LEASE:?}"
        )));
    }
    if grace > lease / 3 {
        return Err(Failure::misuse(format!(
            "--grace {grace:?} must be at most a third of --lease {lease:?}: renewals have the rest"
        )));
    }
    Ok(grace)
}

async fn turn(
    options: Run,
    grace: Duration,
    mut signals: UnboundedReceiver<Caught>,
) -> Result<Ended, Failure> {
    let came = now();
    let (locks, guard) = loop {
        let locks = client(&options).await?;
        let over = match wait(&options, left(options.wait, came), &locks, &mut signals).await {
            Ok(guard) => break (locks, guard),
            Err(over) => over,
        };
        locks.shutdown(HeldLocks::Release, PARTING).await;
        match over {
            // It has left the line: nobody is to wait for one that stands still.
            Over::Stopped => stop(),
            Over::Refused(failure) => return Err(failure),
            Over::Signalled(caught) if caught.is_key(SIGINT) => return Ok(Ended::Interrupted),
            Over::Signalled(caught) => return Ok(Ended::Exited(killed_by(caught.number))),
        }
    };
    let turn = Turn::start(&options, guard, grace, signals);
    let ended = match turn {
        Ok(turn) => turn.run().await,
        Err(failure) => Err(failure),
    };
    locks.shutdown(HeldLocks::Release, PARTING).await;
    ended
}

async fn client(options: &Run) -> Result<LockClient, Failure> {
    let place = &options.place;
    let client = place.client(Missing::Refuse, |builder| {
        let builder = builder.lease(options.lease);
        match &options.owner {
            Some(owner) => builder.owner(owner),
            None => builder,
        }
    });
    client.await
}

/// What is left of a wait that began then. One that is over asks once more, which tells who has the lock.
fn left(wait: RecordWait, since: Duration) -> RecordWait {
    match wait {
        RecordWait::Timeout(span) => match span.saturating_sub(now().saturating_sub(since)) {
            Duration::ZERO => RecordWait::NoWait,
            left => RecordWait::Timeout(left),
        },
        other => other,
    }
}

/// Why a wait ended without a turn.
enum Over {
    Refused(Failure),
    Signalled(Caught),
    /// It is to stand still, until somebody continues it.
    Stopped,
}

/// Waits in line until the turn comes, the wait is over, or somebody has had enough.
async fn wait(
    options: &Run,
    wait: RecordWait,
    locks: &LockClient,
    signals: &mut UnboundedReceiver<Caught>,
) -> Result<LockGuard, Over> {
    let refused = |error: Error| match Failure::of(&error, &options.place) {
        failure if failure.code == NOT_GRANTED => {
            Over::Refused(failure.with_code(options.conflict_exit_code))
        }
        failure => Over::Refused(failure),
    };
    // This process lives for one turn: if it dies in the first moment, others are to see for how long it is dead.
    let lock = locks
        .fair_lock(&options.lock)
        .map_err(refused)?
        .read_first();
    let (picture, lock) = Picture::of(options, lock);
    let mut tick = interval(waiting::TICK);
    let acquired = lock.acquire(wait);
    tokio::pin!(acquired);
    loop {
        tokio::select! {
            biased;
            granted = &mut acquired => {
                let guard = granted.map_err(refused)?;
                picture.granted(guard.ticket());
                return Ok(guard);
            }
            Some(caught) = signals.recv() => stop_waiting(caught)?,
            _ = tick.tick() => picture.tick(),
        }
    }
}

/// What ends a program that does nothing about it ends the wait.
fn stop_waiting(caught: Caught) -> Result<(), Over> {
    match caught.number {
        SIGCONT | SIGWINCH => Ok(()),
        // Where no shell could continue it, the kernel does not stop a group either.
        SIGTSTP if family::has_job_control() => Err(Over::Stopped),
        SIGTSTP => Ok(()),
        _ => Err(Over::Signalled(caught)),
    }
}

/// Until somebody continues this process, if a shell could do that.
fn stop() {
    if family::has_job_control() {
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

/// A command that runs while the lock is held.
struct Turn {
    guard: LockGuard,
    lock: String,
    program: String,
    warden: Warden,
    signals: UnboundedReceiver<Caught>,
    tick: Interval,
    lease: Duration,
    grace: Duration,
    /// The exit code if the lock is lost.
    lost_code: u8,
    /// The command, once it runs.
    pid: i32,
    /// When the last deadline that the guardian was told of kills.
    told: Duration,
    loss: Option<Loss>,
    /// The command was told to end, because the lease was ending.
    is_ended: bool,
    /// The terminal's key came.
    is_interrupted: bool,
}

/// How a command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exited(i32),
    Killed(i32),
    /// Could not be run.
    Failed(i32),
    /// The guardian is gone, or does not do its work.
    Unguarded,
}

impl Turn {
    fn start(
        options: &Run,
        guard: LockGuard,
        grace: Duration,
        signals: UnboundedReceiver<Caught>,
    ) -> Result<Turn, Failure> {
        let deadline = deadline(&guard, options.lease, grace);
        let mut command = warden::guardian(&options.command);
        command.env("FAIRLOCK_LOCK", guard.name());
        command.env("FAIRLOCK_TICKET", guard.ticket().to_string());
        command.env(nesting::VARIABLE, nesting::with(options, guard.ticket())?);
        let beat = (options.lease / 40).min(Duration::from_millis(250));
        Ok(Turn {
            lock: guard.name().to_owned(),
            program: program(options),
            warden: Warden::start(&mut command, deadline)?,
            told: deadline.kill,
            tick: interval(beat),
            lease: options.lease,
            grace,
            lost_code: options.lost_exit_code,
            guard,
            signals,
            pid: 0,
            loss: None,
            is_ended: false,
            is_interrupted: false,
        })
    }

    async fn run(mut self) -> Result<Ended, Failure> {
        let end = self.watch().await;
        match end {
            End::Unguarded => self.end_unguarded().await,
            End::Killed(SIGINT) => self.is_interrupted = self.was_interrupted().await,
            _ => {}
        }
        self.conclude(end).await
    }

    /// Ends with the command, or with the guardian.
    async fn watch(&mut self) -> End {
        let lost = self.guard.lost();
        tokio::pin!(lost);
        loop {
            tokio::select! {
                biased;
                lost = &mut lost, if self.loss.is_none() => self.lose(lost.reason),
                report = self.warden.reports.recv() => match report {
                    None => return End::Unguarded,
                    Some(Report::Exited(code)) => return End::Exited(code),
                    Some(Report::Killed(signal)) => return End::Killed(signal),
                    Some(Report::Failed(reason)) => return End::Failed(reason),
                    Some(Report::Started(pid)) => self.pid = pid,
                    Some(Report::Ending) => self.is_ended = true,
                    Some(Report::Stopped) => self.stop_too(),
                },
                Some(caught) = self.signals.recv() => self.hear(caught).await,
                _ = self.tick.tick() => {
                    self.tell_the_deadline();
                    self.warden.wake();
                    if self.is_overdue() {
                        self.is_ended = true;
                        return End::Unguarded;
                    }
                }
            }
        }
    }

    fn lose(&mut self, loss: Loss) {
        self.loss = Some(loss);
        let grace = AT_ONCE.min(self.grace);
        self.told = self.told.min(now() + grace);
        self.warden.tell(Order::End(grace));
    }

    /// The guardian should have killed everybody by now, and has not, as when it is stopped itself.
    fn is_overdue(&self) -> bool {
        now() > self.told + self.lease / 40
    }

    /// A renewal has moved it, or this process would not be the one to say so.
    fn tell_the_deadline(&mut self) {
        let deadline = deadline(&self.guard, self.lease, self.grace);
        if self.loss.is_none() && deadline.kill > self.told + self.lease / 100 {
            self.told = deadline.kill;
            self.is_ended = false;
            self.warden.tell(Order::Until(deadline));
        }
    }

    async fn hear(&mut self, caught: Caught) {
        match caught.number {
            SIGCONT => self.go_on().await,
            _ => self.pass_on(caught),
        }
    }

    /// A shell that continues its job continues the whole group: the command needs it again only if it has left the
    /// group. One that is stopped because the terminal has just stopped the job once more does not.
    async fn go_on(&mut self) {
        // Each turn but the last has heard of somebody who continues the job once more, which is not for the command alone either.
        loop {
            let was_left_out = family::is_stopped(self.pid);
            sleep(STOP_SETTLES).await;
            let since: Vec<_> = iter::from_fn(|| self.signals.try_recv().ok()).collect();
            let continues = |caught: &Caught| caught.number == SIGCONT;
            let turns = |caught: &&Caught| continues(caught) || caught.is_key(SIGTSTP);
            let last = since.iter().rev().find(turns).copied();
            since
                .into_iter()
                .filter(|caught| !continues(caught))
                .for_each(|caught| self.pass_on(caught));
            match last {
                Some(last) if continues(&last) => {}
                None if was_left_out && family::is_stopped(self.pid) => {
                    self.lend_the_terminal();
                    return self.warden.tell(Order::Signal(SIGCONT));
                }
                Some(_) | None => return,
            }
        }
    }

    /// What the terminal sends it sends to the whole group, the command included.
    fn pass_on(&mut self, caught: Caught) {
        self.is_interrupted |= caught.is_key(SIGINT);
        // A descendant knows the group, and not this process, and has signalled itself too.
        let is_ours = |sender| family::is_member(sender);
        let is_for_us = !caught.is_everybodys() && !caught.sender.is_some_and(is_ours);
        if is_for_us {
            self.warden.tell(Order::Signal(caught.number));
        }
    }

    /// Whether the terminal interrupted the job. This process may hear of the command's end before it hears of that.
    async fn was_interrupted(&mut self) -> bool {
        sleep(STOP_SETTLES).await;
        let since = iter::from_fn(|| self.signals.try_recv().ok());
        self.is_interrupted || since.into_iter().any(|caught| caught.is_key(SIGINT))
    }

    /// A command that is a shell itself has made a group of its own, of which the shell knows nothing that gave the
    /// terminal to the group of this process.
    fn lend_the_terminal(&self) {
        let Ok(terminal) = File::open("/dev/tty") else {
            return;
        };
        let has_it = tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp());
        let group = Pid::from_raw(self.pid).and_then(|command| getpgid(Some(command)).ok());
        if let Some(group) = group.filter(|_| has_it) {
            // The command may have been killed since, and then needs none.
            let _ = tcsetpgrp(&terminal, group);
        }
    }

    /// A shell waits for this process to see that its job was stopped. The lease goes on to end meanwhile. The guardian
    /// continues this process if somebody continues the command alone.
    fn stop_too(&mut self) {
        if family::is_stopped(self.pid) {
            stop();
        }
    }

    /// The guardian was killed, and its command is this process's own child now; or it is stopped, and dies too.
    async fn end_unguarded(&mut self) {
        family::signal(Signal::TERM);
        family::signal(Signal::CONT);
        let deadline = deadline(&self.guard, self.lease, self.grace);
        let kill = deadline.kill.min(now() + self.grace);
        while !family::members().is_empty() && now() < kill {
            sleep(Duration::from_millis(10)).await;
        }
        family::kill();
        while family::has_children() {
            sleep(Duration::from_millis(10)).await;
            family::kill();
        }
    }

    async fn conclude(self, end: End) -> Result<Ended, Failure> {
        let (lock, ticket, loss) = (self.lock, self.guard.ticket(), self.loss);
        self.warden.dismiss();
        let released = match (&loss, self.is_ended) {
            (Some(loss), _) => Err(format!("{loss}")),
            (None, true) => Err("its lease was ending, and could not be renewed".into()),
            (None, false) => match self.guard.release().await {
                Err(Error::Lost { reason, .. }) => Err(reason.to_string()),
                Err(error) => {
                    say(&format!(
                        "lock `{lock}`: {error}: the next waits for the lease to end"
                    ));
                    Ok(())
                }
                Ok(()) => Ok(()),
            },
        };
        if let Err(reason) = released {
            let text =
                format!("lock `{lock}` was lost while ticket {ticket} ran its command: {reason}");
            return Err(Failure::new(LOST, text).with_code(self.lost_code));
        }
        match end {
            End::Exited(code) => Ok(Ended::Exited(u8::try_from(code).unwrap_or(u8::MAX))),
            End::Killed(SIGINT) if self.is_interrupted => Ok(Ended::Interrupted),
            End::Killed(signal) => Ok(Ended::Exited(killed_by(signal))),
            End::Failed(reason) => Err(cannot_run(&self.program, reason)),
            End::Unguarded => Err(Failure::new(
                INTERNAL,
                format!("the guardian of `{lock}` was killed, so its command was ended"),
            )),
        }
    }
}

fn program(options: &Run) -> String {
    let program = options.command.first();
    program.map_or(String::new(), |program| {
        program.to_string_lossy().into_owned()
    })
}

/// As shells do.
fn cannot_run(program: &str, reason: i32) -> Failure {
    let error = std::io::Error::from_raw_os_error(reason);
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    Failure::new(code, format!("cannot run `{program}`: {error}"))
}

/// The kill comes so early that all is over when the lease is, and the request to end so much earlier as there is grace.
fn deadline(guard: &LockGuard, lease: Duration, grace: Duration) -> Deadline {
    let kill = (now() + guard.remaining()).saturating_sub(lease / 20);
    Deadline {
        term: kill.saturating_sub(grace),
        kill,
    }
}
