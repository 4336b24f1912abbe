//! `fairlock show`: shows who holds a lock, and who waits for it.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use fairlock::{Error, FairLock, LockClient, LockState};
use futures::StreamExt;
use tokio::time::sleep;

use crate::args::Show;
use crate::failure::{Failure, UNFIT, say};
use crate::output;

/// The lock is held, but its holder looks dead.
const DEAD: u8 = 2;
/// How long the process that makes a file may take to make the table in it.
const TABLE_COMES: Duration = Duration::from_secs(1);
/// How often the lock is read at most: each read is paid for.
const SHORTEST: Duration = Duration::from_millis(100);
/// Clears the terminal and moves to its top.
const AFRESH: &str = "\u{1b}[H\u{1b}[2J";

pub(crate) async fn show(options: Show) -> Result<ExitCode, Failure> {
    let told = |error| Failure::of(&error, &options.location);
    if let Some(every) = options.watch.filter(|every| *every < SHORTEST) {
        return Err(Failure::misuse(format!(
            "--watch={every:?} is too short: at least {SHORTEST:?}, because each read is paid for"
        )));
    }
    let is_to_come = options.location.is_to_come();
    let mut locks = options.location.locks().await?;
    if let Some(every) = options.watch {
        if is_to_come {
            let lock = locks.fair_lock(&options.lock).map_err(told)?;
            let state = lock.inspect().await.map_err(told)?;
            if output::print(&text(&options, &state)?)?.is_break() {
                return Ok(ExitCode::SUCCESS);
            }
            locks = made(&options, every).await?;
        }
        let lock = locks.fair_lock(&options.lock).map_err(told)?;
        return watch(&options, &lock, every).await;
    }
    let lock = locks.fair_lock(&options.lock).map_err(told)?;
    let state = lock.inspect().await.map_err(told)?;
    // The exit code is the same, whether or not the reader read all of the output.
    let _ = output::print(&text(&options, &state)?)?;
    Ok(ExitCode::from(match options.exit_code {
        true => code(&options, &state),
        false => 0,
    }))
}

/// Returns a client when another process has made the file. Each iteration finds no file.
async fn made(options: &Show, every: Duration) -> Result<LockClient, Failure> {
    while options.location.is_to_come() {
        sleep(every).await;
    }
    sleep(TABLE_COMES).await;
    options.location.locks().await
}

/// Shows the lock until the reader closes the pipe, or a signal ends this process.
async fn watch(options: &Show, lock: &FairLock, every: Duration) -> Result<ExitCode, Failure> {
    let is_redrawn = std::io::stdout().is_terminal() && !options.json;
    let (mut states, mut is_out) = (pin!(lock.watch(every)), false);
    while let Some(state) = states.next().await {
        let state = match state {
            // The next poll may be answered.
            Err(error @ Error::Unavailable { .. }) => {
                if !std::mem::replace(&mut is_out, true) {
                    let why = Failure::of(&error, &options.location);
                    say(&format!("{}; goes on trying", why.text()));
                }
                continue;
            }
            state => state.map_err(|error| Failure::of(&error, &options.location))?,
        };
        if std::mem::take(&mut is_out) {
            say(&format!("reached {} again", options.location.engine()));
        }
        let text = text(options, &state)?;
        let text = match is_redrawn {
            true => format!("{AFRESH}{text}"),
            false => text,
        };
        if let ControlFlow::Break(()) = output::print(&text)? {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(options: &Show, state: &LockState) -> Result<String, Failure> {
    match options.json {
        true => output::json(state),
        false if state.newest_ticket.is_none() => {
            Ok(output::unknown(state, &options.location.name()))
        }
        false => Ok(output::lock(state, output::now())),
    }
}

fn code(options: &Show, state: &LockState) -> u8 {
    let now = output::now();
    let is_long = options
        .older_than
        .is_none_or(|span| output::held_for(state, now) >= Some(span));
    match &state.holder {
        Some(holder)
            if holder.kept_until.is_none() && holder.lease_left == Some(Duration::ZERO) =>
        {
            DEAD
        }
        Some(_) if is_long => UNFIT,
        Some(_) | None => 0,
    }
}
