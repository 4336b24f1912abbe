//! The locks of the commands in which this one runs: who waits for one of these waits for itself.

use fairlock::Ticket;
use serde::{Deserialize, Serialize};

use crate::args::Run;
use crate::failure::{Failure, NOT_GRANTED};

/// Set for the command: what it has, and what those have in which it runs, as JSON.
pub(super) const VARIABLE: &str = "FAIRLOCK_HELD";

/// One turn.
#[derive(Debug, Deserialize, Serialize)]
struct Held {
    place: String,
    lock: String,
    ticket: u64,
}

/// None if somebody else has written the variable.
fn held() -> Option<Vec<Held>> {
    serde_json::from_str(&std::env::var(VARIABLE).ok()?).ok()
}

/// Refuses a turn that would wait for itself.
pub(super) fn check(options: &Run) -> Result<(), Failure> {
    let Run { place, lock, .. } = options;
    let here = place.identity();
    let is_ours = |held: &&Held| held.place == here && held.lock == *lock;
    let held = held().unwrap_or_default();
    match held.iter().find(is_ours).filter(|_| !options.nested) {
        Some(Held { ticket, .. }) => {
            let text = format!(
                "lock `{lock}` is held by the command in which this runs, with ticket {ticket}: this turn would wait for \
                 itself (--nested waits all the same)"
            );
            let failure = Failure::new(NOT_GRANTED, text);
            Err(failure.with_code(options.conflict_exit_code))
        }
        None => Ok(()),
    }
}

/// The variable's value for a command that is run with that ticket.
pub(super) fn with(options: &Run, ticket: Ticket) -> Result<String, Failure> {
    let mut held = held().unwrap_or_default();
    held.push(Held {
        place: options.place.identity(),
        lock: options.lock.clone(),
        ticket: ticket.get(),
    });
    serde_json::to_string(&held).map_err(|error| Failure::internal(format!("no JSON: {error}")))
}
