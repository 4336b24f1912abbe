//! Reads a lock, or all of a table's, without taking part.

use crate::name::LockName;
use crate::state::LockState;
use crate::store::{Failure, Page, RetryPolicy, ScanPlace, Store, Timed};
use fairlock_protocol::item::TicketRow;
use fairlock_protocol::witness;

/// Rows read at a time. A page ends at a megabyte, which is some 3,000 of them.
const ROWS: usize = 1000;

/// Reads the lock item and all of the queue. The pages are not one snapshot: somebody who got a slot meanwhile is
/// shown once, where the lock item had them.
pub(crate) async fn lock(
    store: &Store,
    name: &LockName,
    policy: &RetryPolicy,
) -> Result<LockState, Failure> {
    let read = store.retry(policy, || store.read_queue(name, None, ROWS));
    let Timed { value, date, .. } = read.await?;
    let Page {
        lock,
        mut rows,
        mut next,
    } = value;
    let Some(item) = lock else {
        return Ok(LockState::unused(name));
    };
    // Ends because each page starts behind the one before, and there are no tickets after the newest.
    while let Some(from) = next.filter(|_| {
        rows.last()
            .is_none_or(|row: &TicketRow| row.ticket < item.last)
    }) {
        let read = || store.read_queue(name, Some(from.clone()), ROWS);
        let page = store.retry(policy, read).await?.value;
        rows.extend(page.rows);
        next = page.next;
    }
    let now = date.map(witness::of_one);
    Ok(LockState::of(name, &item, now).with_queue(&item, &rows, now))
}

/// What one page of the table tells of its locks, and where to go on. An item that does not read as ours is an error
/// of its own.
pub(crate) async fn page(
    store: &Store,
    policy: &RetryPolicy,
    from: Option<ScanPlace>,
) -> Result<(Vec<Result<LockState, Failure>>, Option<ScanPlace>), Failure> {
    let scan = || store.scan_lock_items(from.clone());
    let Timed {
        value: (found, next),
        date,
        ..
    } = store.retry(policy, scan).await?;
    let now = date.map(witness::of_one);
    let states = found
        .into_iter()
        .map(|(name, item)| item.map(|item| LockState::of(&name, &item, now)));
    Ok((states.collect(), next))
}
