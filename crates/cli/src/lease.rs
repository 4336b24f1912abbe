//! `fairlock lease`: a lock held for a time under a name, which one process takes and another extends or releases.

use std::io::Read;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use fairlock::{HeldLocks, Lease as Handle, LeaseLock, LockClient};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::commands::{Lease, LeaseAcquire, LeaseExtend, LeaseRelease, LeaseShow};
use crate::failure::{Failure, IO, UNFIT, killed_by};
use crate::local::Purpose;
use crate::output;
use crate::place::Place;
use crate::signals;
use crate::text::shown;

/// How long leaving the queue may take when a signal ends this process.
const PARTING: Duration = Duration::from_secs(2);

/// A lease in JSON, by the schema in `docs/operations.md`.
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
    let place = &options.place;
    let told = |error| Failure::of(&error, place);
    let opens = place.client(Purpose::Turn, |builder| match &options.owner {
        Some(owner) => builder.owner(owner),
        None => builder,
    });
    let locks = tokio::select! {
        biased;
        Some(number) = signals.recv() => return Ok(ExitCode::from(killed_by(number))),
        locks = opens => locks?,
    };
    let take = options.take.unwrap_or(1);
    let lock = handle(&locks, &options.lock, options.of.permits, take).map_err(told)?;
    let lock = match options.shared {
        true => lock.shared(),
        false => lock,
    };
    let leased = tokio::select! {
        biased;
        Some(number) = signals.recv() => Err(killed_by(number)),
        leased = lock.acquire_in_turn(&options.id, options.span, options.wait) => Ok(leased),
    };
    locks.shutdown(HeldLocks::Keep, PARTING).await;
    match leased {
        Ok(lease) => print(&lease.map_err(told)?, options.json),
        Err(code) => Ok(ExitCode::from(code)),
    }
}

/// The leases of a lock, or of permits of a semaphore.
fn handle(
    locks: &LockClient,
    name: &str,
    permits: Option<u64>,
    take: u64,
) -> Result<LeaseLock, fairlock::Error> {
    match permits {
        Some(total) => locks.semaphore(name, total)?.lease_lock(take),
        None => locks.lease_lock(name),
    }
}

async fn extend(options: LeaseExtend) -> Result<ExitCode, Failure> {
    let place = &options.place;
    let lease = parsed(&options.lease, &options.lock)?;
    let lock = lock(&options.lock, options.of.permits, place).await?;
    let extended = lock.extend(&lease, options.span).await;
    print(
        &extended.map_err(|error| Failure::of(&error, place))?,
        options.json,
    )
}

async fn release(options: LeaseRelease) -> Result<ExitCode, Failure> {
    let place = &options.place;
    let lease = parsed(&options.lease, &options.lock)?;
    let lock = lock(&options.lock, options.of.permits, place).await?;
    let released = lock.release(&lease).await;
    released.map_err(|error| Failure::of(&error, place))?;
    if options.json {
        let _ = output::print(&output::json_line(&Line::of(&options.lock, Some(&lease)))?)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(options: LeaseShow) -> Result<ExitCode, Failure> {
    let told = |error| Failure::of(&error, &options.place);
    let locks = options.place.locks().await?;
    let lock = handle(&locks, &options.lock, options.of.permits, 1).map_err(told)?;
    let id = match options.id {
        Some(id) => Some(id),
        None => {
            let lock = locks.fair_lock(&options.lock).map_err(told)?;
            let state = lock.inspect().await.map_err(told)?;
            let mut holders = state.holder.iter().chain(&state.sharers);
            holders.find_map(|holder| holder.lease_id.clone())
        }
    };
    let lease = match &id {
        Some(id) => lock.find(id).await.map_err(told)?,
        None => None,
    };
    let text = match &lease {
        _ if options.json => output::json_line(&Line::of(&options.lock, lease.as_ref()))?,
        Some(lease) => shown_to_people(lease),
        None => format!("{}: no such lease has it\n", shown(&options.lock)),
    };
    let _ = output::print(&text)?;
    Ok(match lease {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(UNFIT),
    })
}

async fn lock(name: &str, permits: Option<u64>, place: &Place) -> Result<LeaseLock, Failure> {
    let lock = handle(&place.locks().await?, name, permits, 1);
    lock.map_err(|error| Failure::of(&error, place))
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
    let text = match json {
        true => output::json_line(&Line::of(lease.lock(), Some(lease)))?,
        // As it is, because it is for programs.
        false => format!("{lease}\n"),
    };
    let _ = output::print_bytes(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
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
