//! Reads a lock, or all of a table's, without taking part.

use crate::name::LockName;
use crate::state::LockState;
use crate::store::{Failure, Page, Patience, ScanPlace, Store, Timed};
use fairlock_protocol::item::TicketRow;
use fairlock_protocol::witness;

/// Rows read at a time. A page ends at a megabyte, which is some 3,000 of them.
const ROWS: usize = 1000;

/// Reads the lock item and all of the line. The pages are not one snapshot: somebody who was seated meanwhile is
/// shown once, where the lock item had them.
pub(crate) async fn lock(
    store: &Store,
    name: &LockName,
    patience: &Patience,
) -> Result<LockState, Failure> {
    let read = store.persist(patience, || store.read_line(name, None, ROWS));
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
        let read = || store.read_line(name, Some(from.clone()), ROWS);
        let page = store.persist(patience, read).await?.value;
        rows.extend(page.rows);
        next = page.next;
    }
    let now = date.map(witness::of_one);
    Ok(LockState::of(name, &item, now).with_line(&item, &rows, now))
}

/// What one page of the table tells of its locks, and where to go on. An item that does not read as ours is an error
/// of its own.
pub(crate) async fn page(
    store: &Store,
    patience: &Patience,
    from: Option<ScanPlace>,
) -> Result<(Vec<Result<LockState, Failure>>, Option<ScanPlace>), Failure> {
    let scan = || store.scan_lock_items(from.clone());
    let Timed {
        value: (found, next),
        date,
        ..
    } = store.persist(patience, scan).await?;
    let now = date.map(witness::of_one);
    let states = found
        .into_iter()
        .map(|(name, item)| item.map(|item| LockState::of(&name, &item, now)));
    Ok((states.collect(), next))
}
