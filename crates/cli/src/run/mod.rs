//! `fairlock run`: waits for a lock and runs a command while it holds the lock.

mod entrance;
mod holds;
mod job;
pub(crate) mod nesting;
mod supervisor_handle;
pub(crate) mod turn;
pub(crate) mod waiting;

use std::iter;
use std::mem::take;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use fairlock::{Error, HeldLocks, LockClient, RecordWait};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGCONT, SIGINT, SIGTSTP, SIGWINCH};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{interval, sleep};

use crate::args::Run;
use crate::connect::{asks_once, patiently};
use crate::failure::{Failure, NOT_GRANTED, killed_by, say};
use crate::ipc::{Order, now};
use crate::local_file::Known;
use crate::local_file::Purpose;
use crate::location::Location;
use crate::metrics::Exporter;
use crate::notify::Notify;
use crate::process_tree;
use crate::signals::{self, Caught};
use crate::stderr_thread;
use entrance::Entrance;
use holds::{Asks, Holds};
use supervisor_handle::SupervisorHandle;
use turn::Turn;
use waiting::ProgressLine;

/// A shorter lease leaves no time to end a command.
const MIN_LEASE: Duration = Duration::from_secs(1);
/// The most locks of one command. The supervisor is told all of their places in one message.
const MOST_LOCKS: usize = 32;
/// How long leaving the queue and releasing the lock may take when this process ends.
const PARTING: Duration = Duration::from_secs(2);
/// A message is printed if opening the file takes longer. If opening the file, or reading the configuration, takes longer, that time counts
/// as part of the wait.
const SLOW: Duration = Duration::from_secs(1);
/// How long a command that does not wait keeps trying to open the file.
const NO_WAIT: Duration = Duration::from_secs(2);
/// How long leaving may take after a wait without success. The waiter has already left the queue by then, unless DynamoDB does not answer.
const AFTERWARDS: Duration = Duration::from_millis(250);

pub(crate) fn run(options: Run) -> Result<ExitCode, Failure> {
    let kill_after = check(&options)?;
    nesting::check(&options.claim, &options.location)?;
    // Before any other thread runs, so that no other thread receives the signals.
    let signals = signals::catch()?;
    let ended = crate::on_runtime(async {
        let exporter = Exporter::start(options.claim.metrics.as_ref()).await?;
        exporter.beside(turn(options, kill_after, signals)).await
    })?;
    Ok(ended.exit())
}

/// How `fairlock run` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Exited(u8),
    /// The terminal's SIGINT ended the wait or the command. A shell that runs a loop was interrupted too, but goes on with the loop unless
    /// this process dies of the signal.
    Interrupted,
}

impl Ended {
    fn exit(self) -> ExitCode {
        match self {
            Ended::Exited(code) => ExitCode::from(code),
            Ended::Interrupted => {
                stderr_thread::finish();
                let _ = signal_hook::low_level::emulate_default_handler(SIGINT);
                ExitCode::from(killed_by(SIGINT))
            }
        }
    }
}

/// Checks the options, and returns the time between SIGTERM and SIGKILL.
fn check(options: &Run) -> Result<Duration, Failure> {
    let (lease, shortest) = (options.claim.believed(), options.claim.shortest_hold());
    let named = match options.claim.safety_margin {
        None => "--lease",
        Some(_) => "--lease less --safety-margin",
    };
    if options.claim.also.len() >= MOST_LOCKS {
        return Err(Failure::misuse(format!(
            "--also names too many locks: a command holds at most {MOST_LOCKS}"
        )));
    }
    let kill_after = options.kill_after.unwrap_or(shortest / 6);
    if lease < MIN_LEASE {
        return Err(Failure::misuse(format!(
            "{named} {lease:?} is too short to end a command in: at least {MIN_LEASE:?}"
        )));
    }
    if shortest < MIN_LEASE {
        return Err(Failure::misuse(format!(
            "--max-hold {shortest:?} is too short to end a command in: at least {MIN_LEASE:?}"
        )));
    }
    if kill_after > shortest / 3 && shortest < lease {
        return Err(Failure::misuse(format!(
            "--kill-after {kill_after:?} must be at most a third of --max-hold {shortest:?}: the command has the rest"
        )));
    }
    if kill_after > lease / 3 {
        return Err(Failure::misuse(format!(
            "--kill-after {kill_after:?} must be at most a third of {named} {lease:?}: renewals have the rest"
        )));
    }
    Ok(kill_after)
}

async fn turn(
    options: Run,
    kill_after: Duration,
    mut signals: UnboundedReceiver<Caught>,
) -> Result<Ended, Failure> {
    let came = now();
    let mut entrance = match Entrance::of(&options, &mut signals).await {
        Ok(entrance) => entrance,
        Err(over) => match after(over, &mut signals) {
            Some(ended) => return ended,
            None => Entrance::default(),
        },
    };
    // The time spent in the entrance counts as part of the wait.
    let held_up = now().saturating_sub(came);
    let mut supervisor_handle = match supervised(&options, &mut signals).await {
        Ok(handle) => handle,
        Err(ended) => return ended,
    };
    let mut asked = None;
    // Each iteration but the last ended because the user stopped this process while it waited.
    let (locks, holds, mut begun) = loop {
        let began = now();
        let locks = match prepared(&options, held_up, &mut supervisor_handle, &mut signals).await {
            Ok(locks) => locks,
            Err(over) => {
                // A stopped process must not keep the next command from starting.
                drop(take(&mut entrance));
                match after(over, &mut signals) {
                    Some(ended) => {
                        supervisor_handle.dismiss();
                        return ended;
                    }
                    None => continue,
                }
            }
        };
        // The time until the lock can be requested does not count as part of the wait, unless it was `SLOW` or longer: then something kept
        // this process from asking.
        let asks = now();
        let since = if asks - began < SLOW { asks } else { began };
        let since = *asked.get_or_insert(since.saturating_sub(held_up));
        let left = left(options.claim.wait, since);
        let entrance = take(&mut entrance);
        let waited = wait(
            &options,
            left,
            &locks,
            entrance,
            &mut supervisor_handle,
            &mut signals,
        )
        .await;
        let parting = match &waited {
            Err(Over::Refused(_)) => AFTERWARDS,
            _ => PARTING,
        };
        let over = match waited {
            Ok(holds) => {
                match turn::begin(&options, &holds, kill_after, &mut supervisor_handle).await {
                    Ok(Some(begun)) => break (locks, holds, begun),
                    Ok(None) => None,
                    Err(failure) => Some(Over::Refused(failure)),
                }
            }
            Err(over) => Some(over),
        };
        locks.shutdown(HeldLocks::Release, parting).await;
        supervisor_handle.tell(&Order::Places(Vec::new()));
        // This process has left the queue, so no other waiter waits for a stopped process.
        if let Some(ended) = over.and_then(|over| after(over, &mut signals)) {
            supervisor_handle.dismiss();
            return ended;
        }
    };
    let report = begun.report.take();
    let turn = Turn::new(&options, holds, begun, (signals, supervisor_handle));
    turn.run(report, locks).await
}

/// Starts the supervisor. Each iteration but the last ended because the user stopped this process meanwhile.
async fn supervised(
    options: &Run,
    signals: &mut UnboundedReceiver<Caught>,
) -> Result<SupervisorHandle, Result<Ended, Failure>> {
    loop {
        match SupervisorHandle::start(options, signals).await {
            Ok(handle) => return Ok(handle),
            Err(over) => after(over, signals).map_or(Ok(()), Err)?,
        }
    }
}

/// How this process ends after the wait has ended. Returns `None` if the process was stopped and then continued, so that it waits again.
fn after(over: Over, signals: &mut UnboundedReceiver<Caught>) -> Option<Result<Ended, Failure>> {
    let over = match over {
        Over::Stopped => stand_still(signals).err()?,
        over => over,
    };
    match over {
        Over::Stopped => None,
        Over::Refused(failure) => Some(Err(failure)),
        Over::Signalled(caught) if caught.is_key(SIGINT) => Some(Ok(Ended::Interrupted)),
        Over::Signalled(caught) => Some(Ok(Ended::Exited(killed_by(caught.number)))),
    }
}

/// Returns a client once it can be opened, and the supervisor, which has prepared itself meanwhile, is ready.
async fn prepared(
    options: &Run,
    held_up: Duration,
    supervisor_handle: &mut SupervisorHandle,
    signals: &mut UnboundedReceiver<Caught>,
) -> Result<LockClient, Over> {
    let locks = opened(options, held_up, signals).await?;
    supervisor_handle.ready(signals).await?;
    Ok(locks)
}

/// Returns a client once the file can be opened, or once the configuration is complete. Fails if a signal ends the wait first. Waits for a
/// busy file no longer than what is left of the wait. Each iteration but the last is a signal that changes nothing, or the message about
/// the delay.
async fn opened(
    options: &Run,
    held_up: Duration,
    signals: &mut UnboundedReceiver<Caught>,
) -> Result<LockClient, Over> {
    // Is `None` if the locks are not in a file.
    let busy = options.location.explained("database is locked");
    let bound = match busy {
        // Opening a file takes a moment, which does not count as part of the wait.
        Some(_) => wait_limit(options.claim.wait)
            .saturating_sub(held_up)
            .max(SLOW),
        None => Duration::MAX,
    };
    let busy = busy.unwrap_or_default();
    let (wait, quiet) = (options.claim.wait, options.claim.quiet);
    let opening = patiently(&options.location, wait, quiet, || client(options));
    let (mut opening, mut over) = (pin!(opening), pin!(sleep(bound)));
    let (mut slow, mut is_told) = (pin!(sleep(SLOW)), options.claim.quiet || busy.is_empty());
    loop {
        tokio::select! {
            biased;
            opened = &mut opening => return opened.map_err(Over::Refused),
            Some(caught) = signals.recv() => stop_waiting(caught)?,
            () = &mut over => return Err(Over::Refused(Failure::unavailable(busy))),
            () = &mut slow, if !is_told => {
                say(&format!("{busy}; goes on trying"));
                is_told = true;
            }
        }
    }
}

/// How long opening the file may take.
fn wait_limit(wait: RecordWait) -> Duration {
    match wait {
        RecordWait::NoWait => NO_WAIT,
        RecordWait::Timeout(span) => span,
        RecordWait::Infinite => Duration::MAX,
    }
}

async fn client(options: &Run) -> Result<LockClient, Failure> {
    let location = &options.location;
    let listen = |notify: Notify| notify.listen(location.local.is_some());
    let notifier = options.claim.notify.map(listen).transpose()?;
    let client = location.client(Purpose::Turn, |builder| {
        let builder = asks_once(builder)
            .lease_duration(options.claim.lease)
            .safety_margin(options.claim.safety_margin.unwrap_or_default())
            // A process has few locks, so the label is bounded.
            .lock_label(str::to_owned);
        let builder = match notifier {
            Some(notifier) => builder.notifier(notifier),
            None => builder,
        };
        match &options.claim.owner {
            Some(owner) => builder.owner(owner),
            None => builder,
        }
    });
    let client = client.await?;
    nesting::check(&options.claim, location)?;
    Ok(client)
}

/// What is left of a wait that began at `since`. A wait that has ended becomes `NoWait`: the lock is tried once more, and the error tells
/// who holds it.
fn left(wait: RecordWait, since: Duration) -> RecordWait {
    match wait {
        RecordWait::Timeout(span) => match span.saturating_sub(now().saturating_sub(since)) {
            Duration::ZERO => RecordWait::NoWait,
            left => RecordWait::Timeout(left),
        },
        other => other,
    }
}

/// Why a wait ended without the lock.
enum Over {
    Refused(Failure),
    Signalled(Caught),
    /// This process must stop until it is continued.
    Stopped,
}

/// Waits in the queue until the lock is granted, the wait times out, or a signal ends it.
async fn wait(
    options: &Run,
    wait: RecordWait,
    locks: &LockClient,
    entrance: Entrance,
    supervisor_handle: &mut SupervisorHandle,
    signals: &mut UnboundedReceiver<Caught>,
) -> Result<Holds, Over> {
    let known = options.location.local.as_deref().and_then(Known::of);
    let is_there = || {
        let known = known.as_ref();
        let failure = known.and_then(|known| replaced(&options.location, known));
        failure.map_or(Ok(()), |failure| Err(Over::Refused(failure)))
    };
    let permits = options.claim.permits;
    let refused = |error: Error| match Failure::of_permits(&error, &options.location, permits) {
        failure if failure.code == NOT_GRANTED => {
            Over::Refused(failure.with_code(options.claim.conflict_exit_code))
        }
        failure => Over::Refused(failure),
    };
    let asks = Asks::of(&options.claim, locks).map_err(refused)?;
    let (picture, asks) = ProgressLine::of(options, asks, supervisor_handle.line(), entrance);
    let mut tick = interval(waiting::TICK);
    let acquired = asks.acquire(wait);
    tokio::pin!(acquired);
    loop {
        tokio::select! {
            biased;
            granted = &mut acquired => {
                // The file was replaced, so this process waited in a queue that no longer counts. The new file may have no table yet.
                is_there()?;
                let holds = granted.map_err(refused)?;
                // There is no command yet to which the terminal could have sent them.
                stop_for(heard(signals))?;
                picture.granted(&holds);
                return Ok(holds);
            }
            report = supervisor_handle.reports.recv() => if report.is_none() {
                let said = "the supervisor was killed, so the wait was ended";
                return Err(Over::Refused(Failure::internal(said)));
            },
            caught = signals.recv() => match caught {
                Some(caught) => stop_waiting(caught)?,
                None => return Err(Over::Refused(Failure::internal("signals cannot be caught any more"))),
            },
            _ = tick.tick() => {
                picture.tick();
                is_there()?;
            }
        }
    }
}

/// Explains what has become of the file that this process waits in, if it is not there any more.
fn replaced(location: &Location, known: &Known) -> Option<Failure> {
    let file = known.name();
    let why = match (known.is_gone(), file.exists()) {
        (false, _) if known.is_cut() => Some(format!(
            "cannot use {}: someone has cut it: when nobody uses it, delete it and those beside it whose names begin so",
            file.display()
        )),
        (false, _) => None,
        (true, false) => location.explained("the file is gone"),
        (true, true) => Some(format!(
            "cannot use {}: another file has its name now, where nobody waited: run it again",
            file.display()
        )),
    };
    why.map(Failure::unavailable)
}

/// Ends the wait at any signal that would end a program that does not handle it.
fn stop_waiting(caught: Caught) -> Result<(), Over> {
    match caught.number {
        SIGCONT | SIGWINCH => Ok(()),
        // Without a shell that could continue it, the kernel would not stop the process group either.
        SIGTSTP if process_tree::has_job_control() => Err(Over::Stopped),
        SIGTSTP => Ok(()),
        _ => Err(Over::Signalled(caught)),
    }
}

/// The signals that have arrived and were not taken yet.
fn heard(signals: &mut UnboundedReceiver<Caught>) -> Vec<Caught> {
    iter::from_fn(|| signals.try_recv().ok()).collect()
}

/// Ends the wait for signals that came beside the grant.
fn stop_for(signals: Vec<Caught>) -> Result<(), Over> {
    signals.into_iter().try_for_each(stop_waiting)
}

/// Stops this process until it is continued. Returns at once if it was continued while it left the queue, and fails if a signal has ended
/// it meanwhile.
fn stand_still(signals: &mut UnboundedReceiver<Caught>) -> Result<(), Over> {
    let since = heard(signals);
    if is_to_stop(&since)? {
        stop();
    }
    Ok(())
}

/// Whether the process must still stop. Signals that arrive at one moment come in no order. So a SIGCONT counts, even if another stop
/// arrived with it: otherwise the process could stop with nothing left that continues it. A user who wants it stopped must stop it again.
fn is_to_stop(since: &[Caught]) -> Result<bool, Over> {
    let mut is_to_stop = true;
    for caught in since {
        match stop_waiting(*caught) {
            Err(Over::Stopped) => {}
            ended => ended?,
        }
        is_to_stop &= caught.number != SIGCONT;
    }
    Ok(is_to_stop)
}

/// Stops this process until it is continued, if a shell could do that.
fn stop() {
    if process_tree::has_job_control() {
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::SIGTERM;

    use super::*;

    #[test]
    fn a_key_that_comes_beside_the_grant_ends_the_wait() {
        let key = |number| Caught {
            number,
            sender: None,
            at: Duration::ZERO,
        };
        assert!(stop_for(vec![key(SIGWINCH), key(SIGCONT)]).is_ok());
        let ended = stop_for(vec![key(SIGWINCH), key(SIGINT), key(SIGCONT)]);
        assert!(matches!(ended, Err(Over::Signalled(caught)) if caught.is_key(SIGINT)));
    }

    #[test]
    fn who_is_continued_while_it_leaves_the_queue_does_not_stop() {
        let caught = |number| Caught {
            number,
            sender: None,
            at: Duration::ZERO,
        };
        for (since, is_stopped) in [
            (&[][..], true),
            (&[SIGTSTP, SIGWINCH], true),
            (&[SIGCONT], false),
            (&[SIGCONT, SIGTSTP], false),
        ] {
            let since: Vec<_> = since.iter().copied().map(caught).collect();
            assert!(is_to_stop(&since).is_ok_and(|to_stop| to_stop == is_stopped));
        }
        let ended = is_to_stop(&[caught(SIGCONT), caught(SIGTERM)]);
        assert!(matches!(ended, Err(Over::Signalled(caught)) if caught.number == SIGTERM));
    }
}
