//! Reads snapshots of a lock.

use crate::queue::{self, Cursor, Page};
use crate::store::Timed;
use crate::store::requests::{Requests, RetryPolicy};
use crate::vocabulary::name::LockName;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::snapshot;
use fairlock_protocol::stamps::Reading;

/// Rows read at a time, besides the lock item and as many rows as there are slots. Most of these rows are settled.
const SPARE_ROWS: usize = 16;
/// The most rows behind the slots that are read at once, and so watched.
pub(crate) const WATCHED: usize = 128;

pub(crate) type Snapshot = snapshot::Snapshot<Cursor>;

/// Reads the lock item and the first rows behind it, `rows` of them or a few more. Returns `None` if there is no lock item.
pub(crate) async fn read(
    requests: &Requests,
    name: &LockName,
    rows: usize,
    policy: &RetryPolicy,
) -> Result<Option<Timed<Snapshot>>, Failure> {
    let store = &requests.store;
    let limit = 1 + store.config().filled_slots + SPARE_ROWS + rows.min(WATCHED);
    let answer = requests
        .retry(policy, || queue::read(store, name, None, limit))
        .await?;
    let snapshot = answer
        .map(|Page { lock, rows, next }| lock.map(|item| Snapshot::of(item).with(rows, next)));
    Ok(snapshot.transpose())
}

/// Reads the next rows, or the first ones. Skips settled rows that no page has shown yet, however many there are. Returns `None` if there is
/// no lock item any more.
pub(crate) async fn read_on(
    (mut snapshot, reading): (Snapshot, Reading),
    requests: &Requests,
    name: &LockName,
    policy: &RetryPolicy,
) -> Result<Option<Timed<Snapshot>>, Failure> {
    let Some(cursor) = snapshot.next.take() else {
        return read(requests, name, 0, policy).await;
    };
    let store = &requests.store;
    let cursor = match snapshot.skips_to() {
        Some(settled) => queue::behind(store, name, settled),
        None => cursor,
    };
    let limit = store.config().filled_slots + SPARE_ROWS;
    let read = || queue::read(store, name, Some(cursor.clone()), limit);
    let answer = requests.retry(policy, read).await?;
    Ok(Some(Timed {
        reading: reading.and_then(answer.reading),
        ..answer.map(|page| snapshot.with(page.rows, page.next))
    }))
}
