//! The locks of the commands in which this one runs. Waiting for one of these would be waiting for itself.

use fairlock::Ticket;
use serde::{Deserialize, Serialize};

use crate::args::Run;
use crate::failure::{Failure, NOT_GRANTED};

/// The variable is set for the command: this command's lock, and the locks of the commands around it, as JSON.
pub(super) const VARIABLE: &str = "FAIRLOCK_HELD";

/// A lock that is held around this command.
#[derive(Debug, Deserialize, Serialize)]
struct Held {
    place: String,
    lock: String,
    ticket: u64,
}

/// Returns the locks that the variable lists. Returns `None` if it is unset, or if another program has written something else into it.
fn held() -> Option<Vec<Held>> {
    serde_json::from_str(&std::env::var(VARIABLE).ok()?).ok()
}

/// Refuses to wait for a lock that is held around this command.
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

/// The variable's value for a command that runs with this ticket.
pub(super) fn with(options: &Run, ticket: Ticket) -> Result<String, Failure> {
    let mut held = held().unwrap_or_default();
    held.push(Held {
        place: options.place.identity(),
        lock: options.lock.clone(),
        ticket: ticket.get(),
    });
    serde_json::to_string(&held).map_err(|error| Failure::internal(format!("no JSON: {error}")))
}
