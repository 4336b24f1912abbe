//! The locks of the commands in which this one runs. Waiting for one of these would be waiting for itself.

use serde::{Deserialize, Serialize};

use super::holds::Holds;
use crate::args::claim::Share;
use crate::args::commands::Claim;
use crate::failure::{Failure, NOT_GRANTED};
use crate::location::Location;
use crate::table_identity::TableIdentity;

/// The variable is set for the command: this command's lock, and the locks of the commands around it, as JSON.
pub(super) const VARIABLE: &str = "FAIRLOCK_HELD";

/// A lock that is held around this command.
#[derive(Debug, Deserialize, Serialize)]
struct Held {
    table: TableIdentity,
    lock: String,
    ticket: u64,
    /// Whether it leaves permits to others.
    #[serde(default)]
    is_shared: bool,
}

/// Returns the locks that the variable lists. Returns `None` if it is unset, or if another program has written something else into it.
fn held() -> Option<Vec<Held>> {
    serde_json::from_str(&std::env::var(VARIABLE).ok()?).ok()
}

/// Refuses to wait for a lock that is held around this command. Before it is known which table the lock is in, nothing is refused.
pub(super) fn check(claim: &Claim, location: &Location) -> Result<(), Failure> {
    let refused = |failure: Failure| failure.with_code(claim.conflict_exit_code);
    match claim.nested {
        true => Ok(()),
        false => claim
            .locks()
            .try_for_each(|lock| check_lock(lock, location))
            .map_err(refused),
    }
}

/// Refuses to wait for this lock if it is held around this command.
pub(crate) fn check_lock(lock: &str, location: &Location) -> Result<(), Failure> {
    let Some(here) = location.identity() else {
        return Ok(());
    };
    let is_ours = |held: &&Held| held.table.is_same(&here) && held.lock == lock;
    match held().unwrap_or_default().iter().find(is_ours) {
        Some(Held {
            ticket,
            is_shared: true,
            ..
        }) => Err(Failure::new(
            NOT_GRANTED,
            format!(
                "lock `{lock}`: the command in which this runs has a share of it, with ticket {ticket}: this turn might wait \
                 for itself (--nested waits all the same)"
            ),
        )),
        Some(Held { ticket, .. }) => Err(Failure::new(
            NOT_GRANTED,
            format!(
                "lock `{lock}` is held by the command in which this runs, with ticket {ticket}: this turn would wait for \
                 itself (--nested waits all the same)"
            ),
        )),
        None => Ok(()),
    }
}

/// The variable's value for a command that runs with these holds.
pub(super) fn with(location: &Location, claim: &Claim, holds: &Holds) -> Result<String, Failure> {
    let is_shared = match claim.share() {
        Share::Reader => true,
        Share::Permits { total, take } => take < total,
        Share::Exclusive | Share::Several => false,
    };
    let mut held = held().unwrap_or_default();
    let table = location.identity();
    let table = table.ok_or_else(|| Failure::internal("no table has been opened"))?;
    held.extend(holds.guards().iter().map(|guard| Held {
        table: table.clone(),
        lock: guard.name().to_owned(),
        ticket: guard.ticket().get(),
        is_shared,
    }));
    serde_json::to_string(&held).map_err(|error| Failure::internal(format!("no JSON: {error}")))
}
