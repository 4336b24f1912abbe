//! Hands out tickets: each draw of a lock's counter is one ticket that nobody else has.

use crate::name::LockName;
use crate::store::{Failure, RetryPolicy, Store, Timed, Write};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::ticket::Ticket;

/// Draws the next tickets, so many of them, unless there are newer ones than `most`. The newest is `last` of the lock item that is returned; none when there is no
/// counter yet, which the first enter starts, or when others drew too many.
///
/// A draw whose answer was lost is drawn again: its tickets stay a gap in the queue, which closes after the grace.
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
        Write::Refused(_) => None,
    });
    Ok(applied.transpose())
}
