//! Joins the queue: puts a ticket's row into it.

use crate::name::LockName;
use crate::store::{Attempt, RetryPolicy, Store, Write};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::RowState;
use fairlock_protocol::lease::RenewalHistory;
use fairlock_protocol::ticket::Ticket;

/// The result of putting a ticket's row into the queue.
#[derive(Debug)]
pub(crate) enum JoinOutcome {
    /// The ticket waits, with this row. Its lease counts from before the row was first sent.
    Waiting(RenewalHistory, Box<Entry>),
    /// Other clients had closed the gap already: the ticket is void.
    TooSlow,
}

/// Puts the row of a drawn ticket into the queue.
pub(crate) async fn join(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
    attempt: &Attempt,
    ticket: Ticket,
) -> Result<JoinOutcome, Failure> {
    let first_sent = store.now();
    let answer = store
        .retry(policy, || store.join(name, attempt, ticket))
        .await?;
    let (Write::Applied(row) | Write::ConditionFailed(Some(row))) = answer.value else {
        return Ok(JoinOutcome::TooSlow);
    };
    Ok(match row.state {
        RowState::Waiting(entry) if entry.nonce == attempt.nonce => JoinOutcome::Waiting(
            RenewalHistory::taken(first_sent, store.config().lease).with_margin(attempt.margin()),
            Box::new(entry),
        ),
        RowState::Waiting(_) | RowState::Void(_) => JoinOutcome::TooSlow,
    })
}
