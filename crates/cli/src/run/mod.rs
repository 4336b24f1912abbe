//! `fairlock run`: takes a turn and runs a command in it.

mod entrance;
mod nesting;
mod supervisor_handle;
mod turn;
mod waiting;

use std::iter;
use std::mem::take;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use fairlock::{Error, HeldLocks, LockClient, LockGuard, RecordWait};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGCONT, SIGINT, SIGTSTP, SIGWINCH};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{interval, sleep};

use crate::args::Run;
use crate::failure::{Failure, NOT_GRANTED, killed_by, say};
use crate::ipc::{Order, now};
use crate::local::Known;
use crate::local::Purpose;
use crate::place::Place;
use crate::process_tree;
use crate::signals::{self, Caught};
use crate::teller;
use entrance::Entrance;
use supervisor_handle::SupervisorHandle;
use turn::Turn;
use waiting::ProgressLine;

/// A shorter lease leaves no time to end a command in.
const MIN_LEASE: Duration = Duration::from_secs(1);
/// How long leaving the queue and giving back may take in the end.
const PARTING: Duration = Duration::from_secs(2);
/// A file that takes longer to open is told of. Where opening, or the configuration, takes longer, that is a part of the wait.
const SLOW: Duration = Duration::from_secs(1);
/// For so long one who does not wait tries to open it.
const NO_WAIT: Duration = Duration::from_secs(2);
/// How long leaving may take after a wait in vain, which has left the queue already unless DynamoDB does not answer.
const AFTERWARDS: Duration = Duration::from_millis(250);

pub(crate) fn run(options: Run) -> Result<ExitCode, Failure> {
    let grace = check(&options)?;
    nesting::check(&options)?;
    // Before any other thread runs, so that none of them gets the signals.
    let signals = signals::catch()?;
    let ended = crate::on_runtime(turn(options, grace, signals))?;
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
                teller::finish();
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
    if lease < MIN_LEASE {
        return Err(Failure::misuse(format!(
            "--lease {lease:?} is too short to end a command in: at least {MIN_LEASE:?}"
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
    let mut entrance = match Entrance::of(&options, &mut signals).await {
        Ok(entrance) => entrance,
        Err(over) => match after(over, &mut signals) {
            Some(ended) => return ended,
            None => Entrance::default(),
        },
    };
    // What it had to wait for others there is a part of the wait.
    let held_up = now().saturating_sub(came);
    let mut supervisor_handle = SupervisorHandle::start(&options)?;
    let mut asked = None;
    // Each turn of the loop but the last is somebody who stopped this process while it waited.
    let (locks, guard) = loop {
        let began = now();
        let locks = match opened(&options, held_up, &mut signals).await {
            Ok(locks) => locks,
            Err(over) => {
                // Nobody is to wait for one that stands still.
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
        // What it took until the lock could be asked for is no part of the wait, unless somebody kept it from asking.
        let asks = now();
        let since = if asks - began < SLOW { asks } else { began };
        let since = *asked.get_or_insert(since.saturating_sub(held_up));
        let left = left(options.wait, since);
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
            Ok(guard) => match supervisor_handle.claim(&guard.place_id()).await {
                Ok(true) => break (locks, guard),
                Ok(false) => None,
                Err(failure) => Some(Over::Refused(failure)),
            },
            Err(over) => Some(over),
        };
        locks.shutdown(HeldLocks::Release, parting).await;
        supervisor_handle.tell(&Order::Place(None));
        // It has left the queue: nobody is to wait for one that stands still.
        if let Some(ended) = over.and_then(|over| after(over, &mut signals)) {
            supervisor_handle.dismiss();
            return ended;
        }
    };
    match Turn::start(&options, guard, grace, (signals, supervisor_handle)) {
        Ok(turn) => turn.run(locks).await,
        Err(failure) => {
            locks.shutdown(HeldLocks::Release, PARTING).await;
            Err(failure)
        }
    }
}

/// How this process ends after a wait that is over; none if it waits on, continued by somebody after it stood still.
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

/// A client, as soon as the file lets itself be opened, or the configuration has all that is needed, unless somebody has had enough
/// before. A file that others keep busy is waited for no longer than what is left of the wait. Each turn of the loop but the last is one
/// signal that changes nothing, or tells that it takes long.
async fn opened(
    options: &Run,
    held_up: Duration,
    signals: &mut UnboundedReceiver<Caught>,
) -> Result<LockClient, Over> {
    // Nothing, if there is no file.
    let busy = options.place.explained("database is locked");
    let bound = match busy {
        // To open a file takes a moment that is no part of the wait.
        Some(_) => patience(options.wait).saturating_sub(held_up).max(SLOW),
        None => Duration::MAX,
    };
    let busy = busy.unwrap_or_default();
    let (mut opening, mut over) = (pin!(client(options)), pin!(sleep(bound)));
    let (mut slow, mut is_told) = (pin!(sleep(SLOW)), options.quiet || busy.is_empty());
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

/// How long it may take until a file lets itself be opened.
fn patience(wait: RecordWait) -> Duration {
    match wait {
        RecordWait::NoWait => NO_WAIT,
        RecordWait::Timeout(span) => span,
        RecordWait::Infinite => Duration::MAX,
    }
}

async fn client(options: &Run) -> Result<LockClient, Failure> {
    let place = &options.place;
    let client = place.client(Purpose::Turn, |builder| {
        let builder = builder.lease_duration(options.lease);
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

/// Waits in the queue until the turn comes, the wait is over, or somebody has had enough.
async fn wait(
    options: &Run,
    wait: RecordWait,
    locks: &LockClient,
    entrance: Entrance,
    supervisor_handle: &mut SupervisorHandle,
    signals: &mut UnboundedReceiver<Caught>,
) -> Result<LockGuard, Over> {
    let known = options.place.local.as_deref().and_then(Known::of);
    let is_there = || {
        let known = known.as_ref();
        let failure = known.and_then(|known| replaced(&options.place, known));
        failure.map_or(Ok(()), |failure| Err(Over::Refused(failure)))
    };
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
    let (picture, lock) = ProgressLine::of(options, lock, supervisor_handle.line(), entrance);
    let mut tick = interval(waiting::TICK);
    let acquired = lock.acquire(wait);
    tokio::pin!(acquired);
    loop {
        tokio::select! {
            biased;
            granted = &mut acquired => {
                // In another file it waited for nobody, and there may be no table yet.
                is_there()?;
                let guard = granted.map_err(refused)?;
                picture.granted(guard.ticket());
                return Ok(guard);
            }
            report = supervisor_handle.reports.recv() => if report.is_none() {
                let said = "the supervisor was killed, so the wait was ended";
                return Err(Over::Refused(Failure::internal(said)));
            },
            Some(caught) = signals.recv() => stop_waiting(caught)?,
            _ = tick.tick() => {
                picture.tick();
                is_there()?;
            }
        }
    }
}

/// What has become of the file that this process waits in, if it is not there any more.
fn replaced(place: &Place, known: &Known) -> Option<Failure> {
    let file = known.name();
    let why = match (known.is_gone(), file.exists()) {
        (false, _) => None,
        (true, false) => place.explained("the file is gone"),
        (true, true) => Some(format!(
            "cannot use {}: another file has its name now, where nobody waited: run it again",
            file.display()
        )),
    };
    why.map(Failure::unavailable)
}

/// What ends a program that does nothing about it ends the wait.
fn stop_waiting(caught: Caught) -> Result<(), Over> {
    match caught.number {
        SIGCONT | SIGWINCH => Ok(()),
        // Where no shell could continue it, the kernel does not stop a group either.
        SIGTSTP if process_tree::has_job_control() => Err(Over::Stopped),
        SIGTSTP => Ok(()),
        _ => Err(Over::Signalled(caught)),
    }
}

/// Until somebody continues this process, unless somebody has done so while it left the queue, or has ended it.
fn stand_still(signals: &mut UnboundedReceiver<Caught>) -> Result<(), Over> {
    let since: Vec<_> = iter::from_fn(|| signals.try_recv().ok()).collect();
    if is_to_stop(&since)? {
        stop();
    }
    Ok(())
}

/// Signals that come at one moment are not in their order: whoever stops it once more, and just after it was continued, has to say so
/// again, for nobody might continue it again.
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

/// Until somebody continues this process, if a shell could do that.
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
    fn who_is_continued_while_it_leaves_the_line_does_not_stop() {
        let caught = |number| Caught {
            number,
            sender: None,
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
