//! `fairlock data`: the bytes that a lock carries from holder to holder.

use std::io::{IsTerminal, Read, Stdin};
use std::process::ExitCode;
use std::time::Duration;

use aws_smithy_types::base64;
use fairlock::{HeldLocks, LockClient, LockGuard};
use rustix::fs::{OFlags, fcntl_getfl, fstat, makedev};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::commands::{Data, DataGet, DataTurn};
use crate::connect::{asks_once, patiently};
use crate::failure::{Failure, IO, UNFIT, killed_by, say};
use crate::local_file::Purpose;
use crate::location::Location;
use crate::output;
use crate::run::nesting;
use crate::run::waiting::ProgressLine;
use crate::signals;
use crate::text::shown;

/// How long the release may take when this process ends.
const PARTING: Duration = Duration::from_secs(2);
/// In bytes: more than a lock carries, by one.
const MOST: u64 = 64 * 1024 + 1;

/// The data of a lock in JSON, by the schema in `json.md`.
#[derive(Serialize)]
struct Carried<'a> {
    lock: &'a str,
    ticket: Option<u64>,
    base64: Option<String>,
}

pub(crate) fn data(what: Data) -> Result<ExitCode, Failure> {
    match what {
        Data::Get(options) => crate::on_runtime(get(options)),
        Data::Put(options) => {
            // Before the lock is asked for, because the input may be slow.
            let bytes = input()?;
            write(&options.turn, &options.location, Some(bytes))
        }
        Data::Clear(options) => write(&options.turn, &options.location, None),
    }
}

async fn get(options: DataGet) -> Result<ExitCode, Failure> {
    let told = |error| Failure::of(&error, &options.location);
    let locks = options.location.locks().await?;
    let lock = locks.fair_lock(&options.lock).map_err(told)?;
    let state = lock.inspect().await.map_err(told)?;
    let data = state.data.as_ref();
    if options.json {
        let carried = Carried {
            lock: &options.lock,
            ticket: data.map(|data| data.ticket.get()),
            base64: data.map(|data| base64::encode(&data.bytes)),
        };
        let _ = output::print(&output::json_line(&carried)?)?;
    }
    match data {
        Some(data) if !options.json => drop(output::print_bytes(&data.bytes)?),
        Some(_) => {}
        None if options.json => return Ok(ExitCode::from(UNFIT)),
        None => {
            let lock = &options.lock;
            return Err(Failure::new(
                UNFIT,
                format!("lock `{lock}` carries no data"),
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads standard input, and no more of it than a lock might take.
fn input() -> Result<Vec<u8>, Failure> {
    let input = std::io::stdin();
    if input.is_terminal() {
        say("reads the data from this terminal, until Ctrl-D");
    }
    if is_closed(&input) {
        return Err(Failure::new(
            IO,
            "cannot read standard input: it is closed. `</dev/null` leaves no bytes, and `fairlock data clear` removes them",
        ));
    }
    let mut bytes = Vec::new();
    let read = input.lock().take(MOST).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(IO, format!("cannot read standard input: {error}")))?;
    Ok(bytes)
}

/// Whether standard input was closed when this process began. Rust's runtime has then opened the null device in its place, for reading and
/// writing. A shell's `</dev/null` only reads. Some programs open it both ways for a child that is to have no input. That has none either,
/// and nothing is lost for it.
fn is_closed(input: &Stdin) -> bool {
    let is_null = fstat(input).is_ok_and(|found| found.st_rdev == makedev(1, 3));
    let opened = fcntl_getfl(input);
    is_null && opened.is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
}

/// Writes the bytes, or removes those that are there, in a turn.
fn write(
    turn: &DataTurn,
    location: &Location,
    bytes: Option<Vec<u8>>,
) -> Result<ExitCode, Failure> {
    if bytes
        .as_ref()
        .is_some_and(|bytes| bytes.len() as u64 >= MOST)
    {
        return Err(Failure::misuse(
            "standard input has more than the 64 KB that a lock carries",
        ));
    }
    check_self_wait(turn, location)?;
    let signals = signals::endings()?;
    crate::on_runtime(in_turn(turn, location, bytes, signals))
}

async fn opened(turn: &DataTurn, location: &Location) -> Result<LockClient, Failure> {
    let opened = location.client(Purpose::Turn, |builder| {
        let builder = asks_once(builder.lease_duration(turn.lease));
        match &turn.owner {
            Some(owner) => builder.owner(owner),
            None => builder,
        }
    });
    let locks = opened.await?;
    check_self_wait(turn, location)?;
    Ok(locks)
}

fn check_self_wait(turn: &DataTurn, location: &Location) -> Result<(), Failure> {
    match turn.nested {
        true => Ok(()),
        false => nesting::check_lock(&turn.lock, location),
    }
}

async fn in_turn(
    turn: &DataTurn,
    location: &Location,
    bytes: Option<Vec<u8>>,
    mut signals: UnboundedReceiver<i32>,
) -> Result<ExitCode, Failure> {
    let opens = patiently(location, turn.wait, false, || opened(turn, location));
    let locks = tokio::select! {
        biased;
        Some(number) = signals.recv() => return Ok(ExitCode::from(killed_by(number))),
        locks = opens => locks?,
    };
    let written = match granted(turn, location, &locks, &mut signals).await {
        Ok(Ok(guard)) => tokio::select! {
            biased;
            Some(number) = signals.recv() => Ok(ExitCode::from(killed_by(number))),
            written = written(turn, location, bytes, guard) => written,
        },
        Ok(Err(number)) => Ok(ExitCode::from(killed_by(number))),
        Err(failure) => Err(failure),
    };
    locks.shutdown(HeldLocks::Release, PARTING).await;
    written
}

/// Waits for the lock, or for a signal.
async fn granted(
    turn: &DataTurn,
    location: &Location,
    locks: &LockClient,
    signals: &mut UnboundedReceiver<i32>,
) -> Result<Result<LockGuard, i32>, Failure> {
    let told = |error| Failure::of(&error, location);
    let lock = locks.fair_lock(&turn.lock).map_err(told)?;
    let (picture, tells) = ProgressLine::of_lock(&turn.lock, location);
    let lock = lock.observed(tells);
    let guard = match picture.until(lock.acquire(turn.wait), signals).await {
        Ok(granted) => granted.map_err(told)?,
        Err(number) => return Ok(Err(number)),
    };
    picture.granted_one(&turn.lock, guard.ticket());
    Ok(Ok(guard))
}

async fn written(
    turn: &DataTurn,
    location: &Location,
    bytes: Option<Vec<u8>>,
    guard: LockGuard,
) -> Result<ExitCode, Failure> {
    let ticket = guard.ticket();
    let done = match &bytes {
        Some(bytes) => guard.set_data(bytes).await,
        None => guard.clear_data().await,
    };
    done.map_err(|error| Failure::of(&error, location))?;
    release(guard).await;
    if turn.json {
        let carried = Carried {
            lock: &turn.lock,
            ticket: bytes.is_some().then_some(ticket.get()),
            base64: bytes.map(base64::encode),
        };
        let _ = output::print(&output::json_line(&carried)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The data is written, whatever becomes of the release.
async fn release(guard: LockGuard) {
    let lock = shown(guard.name());
    if let Err(error) = guard.release().await {
        say(&format!(
            "lock `{lock}`: {error}: the next waits for the lease to end"
        ));
    }
}
