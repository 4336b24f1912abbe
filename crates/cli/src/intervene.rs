//! What an operator does to a lock: takes it away, asks for it, deletes it, or changes its number of permits.

use std::process::ExitCode;

use fairlock::{
    BreakOutcome, DeleteOutcome, FairLock, LockClient, LockState, Participant, ResizeOutcome,
    Ticket,
};

use crate::args::{Ask, Break, Delete, Resize};
use crate::failure::{Failure, NOT_GRANTED, say};
use crate::location::Location;
use crate::output::{self, holds};
use crate::prompt;
use crate::text::{quoted, shown};

/// How often the place is looked at again that was renewed between the look and the write.
const LOOKS: usize = 5;

pub(crate) async fn break_hold(options: Break) -> Result<ExitCode, Failure> {
    let locks = options.location.locks().await?;
    let lock = options.lock.as_str();
    let seen = Lock::of(&locks, lock, &options.location)?;
    let mut state = seen.state().await?;
    let place = chosen(&state, options.ticket)?;
    let (ticket, stage) = (place.ticket, place.stage);
    if !options.yes {
        confirm(&state, place)?;
        state = seen.state().await?;
    }
    // Each look but the last has seen a renewal. A waiter that has its turn since is not what was shown.
    for _ in 0..LOOKS {
        let place = find(&state, ticket).filter(|place| place.stage == stage);
        let Some(place) = place else {
            break;
        };
        let outcome = locks.break_hold(lock, place, &*options.reason).await;
        match outcome.map_err(|error| Failure::of(&error, &options.location))? {
            BreakOutcome::Broken { next } => {
                let owner = output::named(place);
                let next = match next {
                    Some(next) => format!("{}, with ticket {}", holds(&next), next.ticket),
                    None => "it is free".to_owned(),
                };
                say(&format!(
                    "lock `{lock}`: broke ticket {ticket} of {owner}: {next}"
                ));
                return Ok(ExitCode::SUCCESS);
            }
            BreakOutcome::Changed => state = seen.state().await?,
            _ => break,
        }
    }
    Err(Failure::new(
        NOT_GRANTED,
        format!("lock `{lock}`: ticket {ticket} has gone or moved up since: look again"),
    ))
}

pub(crate) async fn ask(options: Ask) -> Result<ExitCode, Failure> {
    let locks = options.location.locks().await?;
    let lock = options.lock.as_str();
    let state = Lock::of(&locks, lock, &options.location)?.state().await?;
    // Nobody works under what was given back, so nobody is asked.
    if let Some(kept) = holders(&state)
        .next()
        .filter(|_| holders(&state).all(is_kept))
    {
        let why = format!(
            "lock `{lock}`: {}, so nobody would heed the request",
            output::has(kept)
        );
        return Err(Failure::new(NOT_GRANTED, why));
    }
    let leases: Vec<_> = holders(&state)
        .filter_map(|holder| Some(format!("`{}`", shown(holder.lease_id.as_deref()?))))
        .collect();
    // No process keeps a lease, so nothing is written for it.
    if !leases.is_empty() && holders(&state).all(|holder| holder.lease_id.is_some()) {
        return Err(leased(&options, &leases));
    }
    let asked = locks.ask_to_yield(lock, &*options.reason).await;
    let asked = asked.map_err(|error| Failure::of(&error, &options.location))?;
    let told = match (asked, asked.saturating_sub(leases.len())) {
        (0, _) => {
            let nobody = format!("lock `{lock}`: nobody has it");
            return Err(Failure::new(NOT_GRANTED, nobody));
        }
        (_, 0 | 1) => "asked its holder".to_owned(),
        (_, more) => format!("asked the {more} callers that share it"),
    };
    let but = match leases.is_empty() {
        true => String::new(),
        false => format!("; no process heeds it for {}", named_leases(&leases)),
    };
    say(&format!(
        "lock `{lock}`: {told}, which the next heartbeat tells{but}"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Leases alone have the lock, and nobody can be asked.
fn leased(options: &Ask, leases: &[String]) -> Failure {
    let lock = options.lock.as_str();
    let show = format!("lease show --json {}", quoted(lock));
    let show = options.location.command(&show);
    let leases = named_leases(leases);
    Failure::new(
        NOT_GRANTED,
        format!(
            "lock `{lock}`: it is held by {leases}, which no process keeps, so none would heed the request: `fairlock lease release` \
             gives it back (`{show}` prints the text of the lease)"
        ),
    )
}

fn named_leases(leases: &[String]) -> String {
    match leases {
        [lease] => format!("lease {lease}"),
        several => format!("leases {}", several.join(", ")),
    }
}

pub(crate) async fn delete(options: Delete) -> Result<ExitCode, Failure> {
    let locks = options.location.locks().await?;
    let lock = options.lock.as_str();
    let deleted = locks.delete_lock(lock).await;
    let refused = |why: &str| Err(Failure::new(NOT_GRANTED, format!("lock `{lock}`: {why}")));
    let told = match deleted.map_err(|error| Failure::of(&error, &options.location))? {
        DeleteOutcome::Deleted => "deleted",
        DeleteOutcome::NotThere => "the table has no such lock",
        DeleteOutcome::InUse { state } => {
            let by = match (&state.holder, state.waiting) {
                (Some(holder), 0) => output::has(holder),
                (Some(holder), waiting) => {
                    format!("{}, and {waiting} wait", output::has(holder))
                }
                (None, _) => "a caller is on its way to it".to_owned(),
            };
            return refused(&format!("{by}: nothing was deleted"));
        }
        _ => return refused("it was first used less than a minute ago: delete it later"),
    };
    say(&format!("lock `{lock}`: {told}"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn resize(options: Resize) -> Result<ExitCode, Failure> {
    let locks = options.location.locks().await?;
    let (lock, permits) = (options.lock.as_str(), options.permits);
    let resized = locks.resize(lock, permits).await;
    let refused = |why: &str| Err(Failure::new(NOT_GRANTED, format!("lock `{lock}`: {why}")));
    match resized.map_err(|error| Failure::of(&error, &options.location))? {
        ResizeOutcome::Resized { before, taken } => {
            let number = match permits {
                1 => "1 permit".to_owned(),
                more => format!("{more} permits"),
            };
            let change = match before == permits {
                true => format!("has {number} already"),
                false => format!("{number} in place of {before}"),
            };
            let held = match taken > permits {
                true => format!("{taken} are held, and none is given out until fewer are"),
                false => format!("{taken} are held"),
            };
            say(&format!("lock `{lock}`: {change}; {held}"));
            Ok(ExitCode::SUCCESS)
        }
        ResizeOutcome::NotThere => {
            refused("not used yet: its first caller says how many permits it has")
        }
        _ => refused("other changes came between, again and again: try again"),
    }
}

/// A lock at which an operator looks.
struct Lock<'a> {
    lock: FairLock,
    location: &'a Location,
}

impl Lock<'_> {
    fn of<'a>(locks: &LockClient, name: &str, location: &'a Location) -> Result<Lock<'a>, Failure> {
        let lock = locks.fair_lock(name);
        let lock = lock.map_err(|error| Failure::of(&error, location))?;
        Ok(Lock { lock, location })
    }

    async fn state(&self) -> Result<LockState, Failure> {
        let state = self.lock.inspect().await;
        state.map_err(|error| Failure::of(&error, self.location))
    }
}

fn holders(state: &LockState) -> impl Iterator<Item = &Participant> {
    state.holder.iter().chain(&state.sharers)
}

fn is_kept(who: &Participant) -> bool {
    who.kept_until.is_some()
}

fn all(state: &LockState) -> impl Iterator<Item = &Participant> {
    holders(state).chain(&state.queue)
}

fn find(state: &LockState, ticket: Ticket) -> Option<&Participant> {
    all(state).find(|place| place.ticket == ticket)
}

/// The place with the ticket, or the only holder if no ticket is named.
fn chosen(state: &LockState, ticket: Option<u64>) -> Result<&Participant, Failure> {
    let lock = &state.lock;
    let nobody = |what: String| Failure::new(NOT_GRANTED, format!("lock `{lock}`: {what}"));
    match (ticket, &state.holder) {
        (Some(ticket), _) => find(state, Ticket::new(ticket))
            .ok_or_else(|| nobody(format!("nobody has ticket {ticket} here"))),
        (None, Some(_)) if !state.sharers.is_empty() => Err(Failure::misuse(format!(
            "lock `{lock}`: several callers have it: name one of them by --ticket"
        ))),
        (None, Some(holder)) => Ok(holder),
        (None, None) => Err(nobody("nobody has it".to_owned())),
    }
}

/// Shows the place, and asks whether to break it.
fn confirm(state: &LockState, place: &Participant) -> Result<(), Failure> {
    prompt::must_be_answerable(false, "say --yes to break the lock without a question")?;
    let _ = output::print(&output::lock(state, output::now()))?;
    let (ticket, owner) = (place.ticket, output::named(place));
    let but = match is_kept(place) {
        true => "",
        false => " If it is alive, it may work on for a heartbeat.",
    };
    let question = format!("break ticket {ticket} of {owner}?{but}");
    match prompt::asks(&question) {
        true => Ok(()),
        false => Err(Failure::new(NOT_GRANTED, "nothing was broken")),
    }
}
