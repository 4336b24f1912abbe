//! `fairlock lease`: a lock held for a time under a name, which one process takes and another extends or releases.

use std::io::{ErrorKind, Read};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use fairlock::{Error, HeldLocks, Lease as Handle, LeaseLock, LockClient, LockState, RecordWait};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::commands::{Lease, LeaseAcquire, LeaseExtend, LeaseRelease, LeaseShow};
use crate::connect::patiently;
use crate::failure::{Failure, IO, UNFIT, killed_by, say};
use crate::local_file::Purpose;
use crate::location::Location;
use crate::output;
use crate::run::nesting;
use crate::run::waiting::ProgressLine;
use crate::signals;
use crate::text::{quoted, shown};

/// How long leaving the queue may take when a signal ends this process.
const PARTING: Duration = Duration::from_secs(2);

/// A lease in JSON, by the schema in `json.md`.
#[derive(Serialize)]
struct Line<'a> {
    lock: &'a str,
    id: Option<&'a str>,
    ticket: Option<u64>,
    expires_at: Option<String>,
    lease: Option<String>,
}

impl<'a> Line<'a> {
    fn of(lock: &'a str, lease: Option<&'a Handle>) -> Self {
        Line {
            lock,
            id: lease.map(Handle::id),
            ticket: lease.map(|lease| lease.ticket().get()),
            expires_at: lease.and_then(|lease| output::to_the_millisecond(lease.expires_at())),
            lease: lease.map(ToString::to_string),
        }
    }
}

pub(crate) fn lease(what: Lease) -> Result<ExitCode, Failure> {
    match what {
        Lease::Acquire(options) => {
            let signals = signals::endings()?;
            crate::on_runtime(acquire(options, signals))
        }
        Lease::Extend(options) => crate::on_runtime(extend(options)),
        Lease::Release(options) => crate::on_runtime(release(options)),
        Lease::Show(options) => crate::on_runtime(show(options)),
    }
}

/// A signal ends the wait, and the place in the queue is left before the command ends.
async fn acquire(
    options: LeaseAcquire,
    mut signals: UnboundedReceiver<i32>,
) -> Result<ExitCode, Failure> {
    if options.id.contains(['\n', '\r']) {
        return Err(Failure::misuse(
            "--id is a name without line breaks: the text of the lease has it, and is one line",
        ));
    }
    let opens = patiently(&options.location, options.wait, false, || opened(&options));
    let locks = tokio::select! {
        biased;
        Some(number) = signals.recv() => return Ok(ExitCode::from(killed_by(number))),
        locks = opens => locks?,
    };
    let taken = taken(&options, &locks, &mut signals).await;
    locks.shutdown(HeldLocks::Keep, PARTING).await;
    taken
}

async fn opened(options: &LeaseAcquire) -> Result<LockClient, Failure> {
    let opened = options
        .location
        .client(Purpose::Turn, |builder| match &options.owner {
            Some(owner) => builder.owner(owner),
            None => builder,
        });
    let locks = opened.await?;
    match options.wait {
        RecordWait::NoWait | RecordWait::Timeout(Duration::ZERO) => {}
        _ if options.nested => {}
        _ => nesting::check_lock(&options.lock, &options.location)?,
    }
    Ok(locks)
}

/// Takes the lease and prints it.
async fn taken(
    options: &LeaseAcquire,
    locks: &LockClient,
    signals: &mut UnboundedReceiver<i32>,
) -> Result<ExitCode, Failure> {
    let told = |error| Failure::of_permits(&error, &options.location, options.of.permits);
    let take = options.take.unwrap_or(1);
    let lock = handle(locks, &options.lock, options.of.permits, take).map_err(told)?;
    let lock = match options.shared {
        true => lock.shared(),
        false => lock,
    };
    let (picture, tells) = ProgressLine::of_lock(&options.lock, &options.location);
    let lock = lock.observed(tells);
    let takes = lock.acquire_in_turn(&options.id, options.span, options.wait);
    let lease = match picture.until(takes, signals).await {
        Ok(leased) => leased.map_err(told)?,
        Err(number) => return Ok(ExitCode::from(killed_by(number))),
    };
    picture.granted_one(&options.lock, lease.ticket());
    drop(picture);
    match print_or_fail(&lease, options.json) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure) => Err(unprinted(options, &lease, &failure)),
    }
}

/// Prints the lease. A reader that has gone before it has read the text is a failure too.
fn print_or_fail(lease: &Handle, json: bool) -> Result<(), Failure> {
    match output::print_bytes(text_of(lease, json)?.as_bytes())? {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Failure::unwritten(&ErrorKind::BrokenPipe.into())),
    }
}

/// The failure of a lease whose text could not be printed. It stays: another process that asked under the same name may have found it
/// since, which leaves no trace in the table.
fn unprinted(options: &LeaseAcquire, lease: &Handle, failure: &Failure) -> Failure {
    let (name, id) = (shown(lease.lock()), shown(lease.id()));
    let show = [
        "lease show --json --id",
        &quoted(lease.id()),
        &quoted(lease.lock()),
    ]
    .join(" ");
    let show = options.location.command(&show);
    let (text, until) = (failure.text(), until(lease.expires_at()));
    let told = format!(
        "{text}: lease `{id}` has lock `{name}` until {until} (`{show}` prints its text, with which `lease release` gives it back)"
    );
    Failure::new(failure.code, told)
}

/// The leases of a lock, or of permits of a semaphore.
fn handle(
    locks: &LockClient,
    name: &str,
    permits: Option<u64>,
    take: u64,
) -> Result<LeaseLock, Error> {
    match permits {
        Some(total) => locks.semaphore(name, total)?.lease_lock(take),
        None => locks.lease_lock(name),
    }
}

async fn extend(options: LeaseExtend) -> Result<ExitCode, Failure> {
    let (location, permits) = (&options.location, options.of.permits);
    let lease = parsed(&options.lease, &options.lock)?;
    let lock = lock(&options.lock, permits, location).await?;
    let extended = lock.extend(&lease, options.span).await;
    let extended = extended.map_err(|error| Failure::of_permits(&error, location, permits))?;
    print(&extended, options.json)?;
    // By this host's clock, for people only.
    if lease.expires_at() > output::now() + options.span {
        say(&format!(
            "lock `{}`: lease `{}` lasts until {} already, and was not made shorter",
            options.lock,
            extended.id(),
            until(extended.expires_at())
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn release(options: LeaseRelease) -> Result<ExitCode, Failure> {
    let (location, permits) = (&options.location, options.of.permits);
    let lease = parsed(&options.lease, &options.lock)?;
    let lock = lock(&options.lock, permits, location).await?;
    let released = lock.release(&lease).await;
    released.map_err(|error| Failure::of_permits(&error, location, permits))?;
    if options.json {
        let _ = output::print(&output::json_line(&Line::of(&options.lock, Some(&lease)))?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows each lease of the lock. The lock itself tells how many permits it has.
async fn show(options: LeaseShow) -> Result<ExitCode, Failure> {
    let (name, permits) = (&options.lock, options.of.permits);
    let told = |error| Failure::of_permits(&error, &options.location, permits);
    let locks = options.location.locks().await?;
    let lock = locks.fair_lock(name).map_err(told)?;
    let state = lock.inspect().await.map_err(told)?;
    let lock = handle(&locks, name, permits.or(state.permits), 1).map_err(told)?;
    let mut leases = Vec::new();
    for id in ids(&state, options.id.as_deref()) {
        // One that has just been released is left out.
        leases.extend(lock.find(id).await.map_err(told)?);
    }
    let text = match &leases[..] {
        [] if options.json => output::json_line(&Line::of(name, None))?,
        [] => format!("{}: no such lease has it\n", shown(name)),
        leases if options.json => {
            let lines = leases
                .iter()
                .map(|lease| output::json_line(&Line::of(name, Some(lease))));
            lines.collect::<Result<String, Failure>>()?
        }
        leases => leases.iter().map(shown_to_people).collect(),
    };
    let _ = output::print(&text)?;
    Ok(match leases.is_empty() {
        false => ExitCode::SUCCESS,
        true => ExitCode::from(UNFIT),
    })
}

/// The names of the leases that have the lock, each once. Only `wanted`, if that is given.
fn ids<'a>(state: &'a LockState, wanted: Option<&str>) -> Vec<&'a str> {
    let mut ids: Vec<&str> = Vec::new();
    for holder in state.holder.iter().chain(&state.sharers) {
        let id = holder.lease_id.as_deref();
        let id = id.filter(|id| wanted.is_none_or(|wanted| wanted == *id));
        ids.extend(id.filter(|id| !ids.contains(id)));
    }
    ids
}

async fn lock(name: &str, permits: Option<u64>, location: &Location) -> Result<LeaseLock, Failure> {
    let lock = handle(&location.locks().await?, name, permits, 1);
    lock.map_err(|error| Failure::of(&error, location))
}

/// The lease of that text, or of standard input for `-`. Whether it is one of this lock is said here, before anything is sent.
fn parsed(text: &str, lock: &str) -> Result<Handle, Failure> {
    let text = match text {
        "-" => input()?,
        text => text.to_owned(),
    };
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let lease: Handle = line.parse().map_err(|_| {
        Failure::misuse(format!(
            "`{line}` is no lease: give the whole line that `fairlock lease acquire` printed, in quotes"
        ))
    })?;
    match lease.lock() == lock {
        true => Ok(lease),
        false => Err(Failure::misuse(format!(
            "this is a lease of lock `{}`, and not of `{lock}`",
            lease.lock()
        ))),
    }
}

/// More than any text of a lease has: two names and four numbers.
const MOST: u64 = 8 * 1024;

fn input() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MOST).read_to_string(&mut text);
    read.map_err(|error| {
        Failure::new(
            IO,
            format!("cannot read the lease from standard input: {error}"),
        )
    })?;
    Ok(text)
}

fn print(lease: &Handle, json: bool) -> Result<ExitCode, Failure> {
    let _ = output::print_bytes(text_of(lease, json)?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn text_of(lease: &Handle, json: bool) -> Result<String, Failure> {
    match json {
        true => output::json_line(&Line::of(lease.lock(), Some(lease))),
        // As it is, because it is for programs.
        false => Ok(format!("{lease}\n")),
    }
}

fn shown_to_people(lease: &Handle) -> String {
    let (lock, id, ticket) = (shown(lease.lock()), shown(lease.id()), lease.ticket());
    let left = lease.expires_at().duration_since(output::now());
    let left = match left {
        Ok(left) => format!("{} left", output::rounded(left)),
        Err(_) => {
            "over: a caller that waits gets the lock, and any other one within some 12s".to_owned()
        }
    };
    let until = until(lease.expires_at());
    format!("{lock}: held as {id} with ticket {ticket}\n  until {until} ({left})\n")
}

fn until(at: SystemTime) -> String {
    output::to_the_second(at).unwrap_or_else(|| "unknown".to_owned())
}
