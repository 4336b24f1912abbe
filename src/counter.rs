//! Hands out tickets: a draw of a lock's counter gives tickets that no other caller has.

use crate::name::LockName;
use crate::store::{RetryPolicy, Store, Timed, Write};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::ticket::Ticket;

/// Draws the next `tickets` tickets, unless a ticket newer than `most` has been drawn. The newest ticket is `last` of the lock item that is
/// returned. Returns `None` if there is no counter yet, which the first enter request starts, or if other callers drew too many.
///
/// A draw whose answer was lost is drawn again. Its tickets stay a gap in the queue, which closes after the join timeout.
pub(crate) async fn draw(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
    tickets: u64,
    most: Ticket,
    seen: Option<&LockItem>,
) -> Result<Option<Timed<LockItem>>, Failure> {
    let answer = store
        .retry(policy, || store.draw(name, tickets, most, seen))
        .await?;
    let applied = answer.map(|write| match write {
        Write::Applied(item) => Some(item),
        Write::ConditionFailed(_) => None,
    });
    Ok(applied.transpose())
}
